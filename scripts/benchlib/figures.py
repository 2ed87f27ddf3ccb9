"""What is not CPU time: instructions, memory, start, size.

None of them depends on who else uses the machine, apart from the start.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import select
import statistics
import subprocess
import time
from collections.abc import Callable

from . import peers
from .console import Refusal, say
from .documents import EMPTY, Document
from .loads import Crowd, Load, run_client
from .machine import Cpus
from .process import START_BOUND_S, Server, Stage, descendants_of, last_words, stop
from .rows import CONNECTIONS
from .servers import Contender, Tared, floor
from .tools import AB, VALGRIND, Tool

# What tared is held to, by contender.
INSTRUCTIONS_MAX = {"tared --fixed": 1_450, "tared DIR": 1_950}
BYTES_PER_IDLE_MAX = 256
RESIDENT_MAX_MB = 12
READY_MAX_MS = 5
# Half of it is the compressors of --compress; without them it is under 2.
SIZE_MAX_MB = 4

# The difference is what 10,000 requests take, without the start and the end.
REQUESTS_FEW = 1_000
REQUESTS_MANY = 11_000
IDLE_FOR_GROWTH = 8_000
IDLE_FOR_RESIDENT = 10_000
STARTS = 20


@dataclasses.dataclass(frozen=True)
class Figure:
    row: str
    contender: str
    what: str
    unit: str
    values: list[float]
    limit: float | None = None

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def kept(self) -> bool | None:
        return None if self.limit is None else self.value <= self.limit


@dataclasses.dataclass(frozen=True)
class Probe:
    id: str
    title: str
    contenders: tuple[Contender, ...]
    take: Callable[[Contender, pathlib.Path, Cpus], list[Figure]]
    tools: tuple[Tool, ...] = ()  # without which there is none

    def measure(
        self, contenders: list[Contender], scratch: pathlib.Path, cpus: Cpus
    ) -> tuple[list[Figure], dict[str, str]]:
        """The figures, and whom there is none of, and why."""
        found, absent = [], {}
        for contender in contenders:
            try:
                figures = self.take(contender, scratch, cpus)
            except (Refusal, OSError) as trouble:
                say(f"{self.id}: {contender.name} gets no figure: {trouble}")
                absent[contender.name] = str(trouble)
                continue
            for figure in figures:
                say(f"{self.id}, {contender.name}, {figure.what}: {figure.value:,.2f} {figure.unit}")
            found += figures
        return found, absent


def probes(tared: Tared, httpterm_path: pathlib.Path | None) -> list[Probe]:
    ours = (tared.fixed(), tared.files())
    holders = (
        floor("fixed"),
        *ours,
        peers.NGINX_2012,
        peers.LIGHTTPD_FILES,
        peers.H2O_FILES,
        peers.STATIC_WEB_SERVER_FILES,
        peers.STATICO_TOKIO,
        peers.STATICO_MONOIO,
        peers.httpterm(httpterm_path),
    )
    return [
        Probe(
            "instructions",
            "user-space instructions per ab -k request, callgrind",
            (*ours, peers.NGINX_2012),
            count_instructions,
            (VALGRIND, AB),
        ),
        Probe("memory", f"memory of {IDLE_FOR_GROWTH} and {IDLE_FOR_RESIDENT} idle connections", holders, weigh_idle),
        Probe("startup", f"exec to ready line, {STARTS} times", ours, time_starts),
        Probe("size", "bytes of the program", ours[:1], lambda _contender, _scratch, _cpus: [weigh_program(tared)]),
    ]


# ---- Instructions ----------------------------------------------------------------


def count_instructions(contender: Contender, scratch: pathlib.Path, cpus: Cpus) -> list[Figure]:
    each = instructions_each(contender, EMPTY, Load("ab -k", AB, CONNECTIONS), scratch, cpus)
    limit = INSTRUCTIONS_MAX.get(contender.name)
    return [Figure("instructions", contender.name, "per ab -k request", "instructions", [each], limit)]


def instructions_each(
    contender: Contender, document: Document, load: Load, scratch: pathlib.Path, cpus: Cpus, url: str | None = None
) -> float:
    """Of one request more, as `load` asks; of its number of requests nothing is taken. At `url`, or where the
    document is."""
    few, many = (
        instructions_for(contender, document, dataclasses.replace(load, requests=requests), scratch, cpus, url)
        for requests in (REQUESTS_FEW, REQUESTS_MANY)
    )
    return (many - few) / (REQUESTS_MANY - REQUESTS_FEW)


def instructions_for(
    contender: Contender, document: Document, load: Load, scratch: pathlib.Path, cpus: Cpus, url: str | None
) -> int:
    """Of the whole life of a server that answers so many requests."""
    under = [VALGRIND.path, "--tool=callgrind", f"--callgrind-out-file={scratch / 'callgrind.out'}"]
    with contextlib.ExitStack() as running:
        server = contender.start(Stage(scratch, running, cpus.server, under), document)
        outcome = run_client(load, url or server.url, START_BOUND_S, cpus.client)
        if outcome.failures:
            raise Refusal("; ".join(outcome.failures))
        # Callgrind says its sum when its server ends.
        server.process.terminate()
        server.process.wait(START_BOUND_S)
    if counted := re.search(r"Collected : (\d+)", server.log.read_text()):
        return int(counted[1])
    raise Refusal(f"callgrind counted nothing: {last_words(server.log)}")


# ---- Memory ------------------------------------------------------------------------


def weigh_idle(contender: Contender, scratch: pathlib.Path, cpus: Cpus) -> list[Figure]:
    """Growth is from one connection on, that is from a server that has answered."""
    with contextlib.ExitStack() as running:
        server = contender.start(Stage(scratch, running, cpus.server), EMPTY)
        crowd = Crowd(server.url)
        running.callback(crowd.disperse)
        first, many, most = (weigh_with(crowd, count, server) for count in (1, IDLE_FOR_GROWTH, IDLE_FOR_RESIDENT))
    held = contender.family == "tared"

    def growth(kind: str) -> list[float]:
        return [(many[kind] - first[kind]) / (IDLE_FOR_GROWTH - 1)]

    return [
        Figure("memory", contender.name, "RSS per idle", "B", growth("Rss"), BYTES_PER_IDLE_MAX if held else None),
        Figure("memory", contender.name, "PSS per idle", "B", growth("Pss")),
        Figure(
            "memory",
            contender.name,
            f"RSS with {IDLE_FOR_RESIDENT:,} idle",
            "MB",
            [most["Rss"] / 1e6],
            RESIDENT_MAX_MB if held else None,
        ),
    ]


def weigh_with(crowd: Crowd, count: int, server: Server) -> dict[str, int]:
    crowd.grow(count)
    if ended := crowd.ended():
        raise Refusal(f"{ended} of {count} idle connections ended")
    return weigh(server.process.pid)


def weigh(pid: int) -> dict[str, int]:
    """Bytes of a process and its children, by kind: Rss, Pss and others."""
    sums: dict[str, int] = {}
    for member in (pid, *descendants_of(pid)):
        rollup = pathlib.Path(f"/proc/{member}/smaps_rollup").read_text()
        for kind, kib in re.findall(r"^(\w+): +(\d+) kB$", rollup, re.MULTILINE):
            sums[kind] = sums.get(kind, 0) + int(kib) * 1024
    return sums


# ---- Start and size ----------------------------------------------------------------


def time_starts(contender: Contender, scratch: pathlib.Path, cpus: Cpus) -> list[Figure]:
    """The command is learned from a first start, which also warms the page cache."""
    with contextlib.ExitStack() as running:
        command = contender.start(Stage(scratch, running, cpus.server), EMPTY).command
    times_ms = [time_one_start_ms(command) for _ in range(STARTS)]
    return [Figure("startup", contender.name, "exec to ready line", "ms", times_ms, READY_MAX_MS)]


def time_one_start_ms(command: list[str]) -> float:
    """From before the fork to the line: a little more than what is asked for."""
    began_s = time.monotonic()
    # Without preexec_fn and with closing left out this is a vfork, which does not
    # copy our own page tables first.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, close_fds=False)
    try:
        ready, _, _ = select.select([process.stdout], [], [], START_BOUND_S)
        line = os.read(process.stdout.fileno(), 4096) if ready else b""
        took_ms = (time.monotonic() - began_s) * 1e3
    finally:
        stop(process)
        process.stdout.close()
    if b" on http://" not in line:
        raise Refusal(f"no ready line but {line!r}")
    return took_ms


def weigh_program(tared: Tared) -> Figure:
    return Figure("size", "tared", tared.path.name, "MB", [tared.path.stat().st_size / 1e6], SIZE_MAX_MB)
