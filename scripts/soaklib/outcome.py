"""What came of it, in Markdown for people and in JSON for machines."""

import collections
import dataclasses

from . import samples
from .samples import Rise, Sample

# Counts of one kind, as their names begin.
GROUPS = {"asked: ": "requests by kind", "did: ": "what clients did", "refused: ": "refused"}
CLEARED = {by: [f"cleared: by {by}, {end}" for end in ("complete", "short")] for by in ("mapping", "sendfile")}


@dataclasses.dataclass
class Served:
    """One server, from its start to its end."""

    name: str
    command: list[str]
    before: Sample  # ready, and nobody has come
    allowed: dict[str, int]
    samples: list[Sample] = dataclasses.field(default_factory=list)
    after: Sample | None = None  # everybody has gone
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    faults: list[str] = dataclasses.field(default_factory=list)
    report: dict | None = None

    def rises(self, seconds: float) -> list[Rise]:
        return [samples.rise(self.samples, figure, seconds, self.allowed[figure]) for figure in samples.FIGURES]

    def troubles(self, seconds: float) -> list[str]:
        """Why the run has failed; nothing if it has not."""
        found = [f"{self.name}: {count} {kind}" for kind in ("wrong", "lost") if (count := self.counts[kind])]
        for rise in self.rises(seconds):
            if not rise.is_flat:
                title, unit = samples.FIGURES[rise.figure]
                more = f"{rise.first} to {rise.last} {unit}".rstrip()
                found.append(f"{self.name}: {title} rose from {more}, by more than {rise.allowed}")
        if self.after:
            left = self.after.descriptors - self.after.files - self.before.descriptors + self.before.files
            if left:
                found.append(f"{self.name}: {left:+} descriptors in the end, cached files apart")
        return found + self.faults


def markdown(heading: dict[str, str], served: list[Served], seconds: float, troubles: list[str]) -> str:
    lines = ["# Soak", ""]
    lines += [f"- {name}: {text}" for name, text in heading.items()]
    verdict = f"Failed: {len(troubles)}." if troubles else "Kept: flat, no byte wrong, no request lost."
    lines += ["", f"**{verdict}**"]
    lines += [f"- {trouble}" for trouble in troubles]
    lines += ["", *table("what", [one.name for one in served], rows_of(served))]
    for one in served:
        lines += ["", f"## {one.name}", "", f"`{' '.join(one.command)}`", ""]
        columns = ["before", "after warm-up", "maximum", "end of traffic", "clients gone"]
        columns += ["highest of 1st third", "of last third", "may rise by"]
        lines += table("figure", columns, growth(one, seconds))
    for prefix, title in GROUPS.items():
        names = sorted({name for one in served for name in one.counts if name.startswith(prefix)})
        rows = [(name.removeprefix(prefix), [f"{one.counts[name]:,}" for one in served]) for name in names]
        lines += ["", f"## {title[0].upper()}{title[1:]}", "", *table("kind", [one.name for one in served], rows)]
    return "\n".join(lines) + "\n"


def rows_of(served: list[Served]) -> list[tuple[str, list[str]]]:
    def row(title: str, *names: str) -> tuple[str, list[str]]:
        return title, [f"{sum(one.counts[name] for name in names):,}" for one in served]

    def told(title: str, part: str, field: str) -> tuple[str, list[str]]:
        return title, [f"{one.report[part][field]:,}" if one.report else "-" for one in served]

    return [
        row("requests made", "requests"),
        row("answers that came", "answers"),
        row("bodies verified", "bodies verified"),
        row("bytes verified", "bytes verified"),
        row("**wrong**", "wrong"),
        row("**lost** (no answer, or a part of one)", "lost"),
        row("asked again, the connection having been closed in silence", "asked again"),
        row("short, the file having been cut in place", "short"),
        row("zeros behind a cut in place, sent from a mapping", *CLEARED["mapping"]),
        row("zeros behind a cut in place, sent by sendfile", *CLEARED["sendfile"]),
        told("report: requests", "requests", "total"),
        told("report: connections", "connections", "accepted"),
        told("report: closed by the client", "connections", "closed_by_client"),
        told("report: closed by the server", "connections", "closed_by_server"),
        told("report: of these, for room", "connections", "closed_for_room"),
        told("report: reset", "connections", "reset"),
        told("report: timed out", "connections", "timed_out"),
        told("report: aborted in the midst of a response", "connections", "aborted"),
        told("report: most connections at a time", "connections", "peak"),
        told("report: accepting rested", "connections", "accept_rests"),
        told("report: files served as they were cached", "cache", "hits"),
        told("report: files opened and read or mapped", "cache", "fills"),
    ]


def growth(one: Served, seconds: float) -> list[tuple[str, list[str]]]:
    warm_s = seconds * samples.WARM_UP_SHARE
    warm = next((sample for sample in one.samples if sample.at_s >= warm_s), one.before)
    rows = []
    for rise in one.rises(seconds):
        title, unit = samples.FIGURES[rise.figure]
        points = [one.before, warm, None, one.samples[-1] if one.samples else None, one.after]
        values = [getattr(point, rise.figure) if point else None for point in points]
        values[2] = max((getattr(sample, rise.figure) for sample in one.samples), default=None)
        values += [rise.first, rise.last, rise.allowed]
        texts = ["-" if value is None else f"{value:,}" for value in values]
        rows.append((f"{title}, {unit}" if unit else title, texts))
    return rows


def table(corner: str, columns: list[str], rows: list[tuple[str, list[str]]]) -> list[str]:
    lines = [f"| {corner} | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    return lines + [f"| {title} | {' | '.join(values)} |" for title, values in rows]


def as_json(heading: dict[str, str], served: list[Served], seconds: float, troubles: list[str]) -> dict:
    return {
        "heading": heading,
        "seconds": seconds,
        "troubles": troubles,
        "servers": [
            {
                "name": one.name,
                "command": one.command,
                "counts": dict(sorted(one.counts.items())),
                "rises": [dataclasses.asdict(rise) | {"is_flat": rise.is_flat} for rise in one.rises(seconds)],
                "before": dataclasses.asdict(one.before),
                "after": dataclasses.asdict(one.after) if one.after else None,
                "report": one.report,
                # By column, or they would be most of the file.
                "samples": {
                    field.name: [getattr(sample, field.name) for sample in one.samples]
                    for field in dataclasses.fields(Sample)
                },
            }
            for one in served
        ],
    }
