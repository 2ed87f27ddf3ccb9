"""What the kernel says of a server, once a second, and whether it is flat. The verdict is pure."""

import dataclasses
import os
import pathlib
import re

WARM_UP_SHARE = 1 / 6
KIB, MIB = 1024, 1024 * 1024

# Figures of which there is a verdict, with their unit.
FIGURES = {
    "rss_anon": ("RssAnon", "KiB"),
    "rss_file": ("RssFile", "KiB"),
    "descriptors": ("descriptors", ""),
    "mappings": ("mappings", ""),
    "threads": ("threads", ""),
}


@dataclasses.dataclass(frozen=True)
class Sample:
    at_s: float  # since there is traffic
    rss_anon: int  # KiB: its own memory
    rss_file: int  # KiB: its program, and pages of mapped files, which the kernel can have back
    descriptors: int
    files: int  # descriptors among them that are of files being served
    mappings: int
    threads: int


def take(pid: int, root: pathlib.Path, at_s: float) -> Sample:
    process = pathlib.Path(f"/proc/{pid}")
    status = (process / "status").read_text()
    links = []
    for descriptor in os.listdir(process / "fd"):
        try:
            links.append(os.readlink(process / "fd" / descriptor))
        except FileNotFoundError:  # closed since it was listed
            continue
    return Sample(
        at_s=round(at_s, 1),
        rss_anon=kib(status, "RssAnon"),
        rss_file=kib(status, "RssFile"),
        descriptors=len(links),
        files=sum(link.startswith(f"{root}/") for link in links),
        mappings=(process / "maps").read_text().count("\n"),
        threads=int(re.search(r"^Threads:\s*(\d+)$", status, re.MULTILINE)[1]),
    )


def kib(status: str, field: str) -> int:
    return int(re.search(rf"^{field}:\s*(\d+) kB$", status, re.MULTILINE)[1])


@dataclasses.dataclass(frozen=True)
class Rise:
    """Between the highest of the first third behind the warm-up and the highest of the last."""

    figure: str
    first: int
    last: int
    allowed: int

    @property
    def is_flat(self) -> bool:
        return self.last - self.first <= self.allowed


def rise(samples: list[Sample], figure: str, seconds: float, allowed: int) -> Rise:
    warm_s = seconds * WARM_UP_SHARE
    third_s = (seconds - warm_s) / 3
    first = [sample for sample in samples if warm_s <= sample.at_s < warm_s + third_s]
    last = [sample for sample in samples if seconds - third_s <= sample.at_s <= seconds]
    highest = [max((getattr(sample, figure) for sample in part), default=0) for part in (first, last)]
    return Rise(figure, *highest, allowed)


def allowances(entries_max: int, served: dict[str, int], workers: int) -> dict[str, int]:
    """How much higher the last third may be: what chance can make of a state that is bounded, since the files
    that are cached, and the moment of the sample, differ. A leak grows with the requests, of which a run
    has some hundred thousand: one of a byte per request would be seen.

    `served` says how many files there are of each size class.
    """
    cached = {kind: min(count, entries_max) * workers for kind, count in served.items()}
    return {
        # Files that are read, in its memory: 64 KiB each at the most. Half of the room that they could take, and
        # of what the allocator may keep back when they go.
        "rss_anon": (cached["small"] * 64 + 1024 * workers) // 2,
        # Mapped ones: 768 KiB each at the most, 64 open at a time. A quarter of that.
        "rss_file": min(cached["mapped"], 64 * workers) * 768 // 4,
        # Clients come and go in crowds; the samples see them at one height or another.
        "descriptors": 64,
        # An entry each, and one each for a response that still leaves when its entry is gone; and allocations from
        # 16 KiB on, which the kernel joins where they are neighbours.
        "mappings": 32,
        # One for a report that is being written.
        "threads": 1,
    }
