"""What an option costs while it is on: the same request of tared without it and with it.

A pair is two ways of running one program that differ in an option, and a request that it
concerns. Before anything is measured the answers are looked at: the one without must not
show the option, the one with it must.
"""

import contextlib
import dataclasses
import http.client
import pathlib
import re
import statistics
import time
import urllib.parse
from collections.abc import Callable

from .console import Refusal, say
from .documents import EMPTY, HELLO, SMALL
from .figures import instructions_each
from .loads import Load
from .machine import Cpus
from .process import Server, Stage
from .report import NONE, header, line, significant, with_range
from .rows import CONNECTIONS
from .servers import Tared
from .tools import AB, PYTHON
from .trials import attempt

ANSWER_BOUND_S = 10
LISTED = 10
CODINGS = {"gzip": ".gz", "br": ".br", "zstd": ".zst"}
CODED, LIST, TWIN, PAGE, NOTHING = "coded.txt", "list/", "twin.html", "index.html", "nothing"

# Whatever may be said with a file, at once.
EVERYTHING = ("--cors", "--expires", "30d", "--header", "X-One: yes", "--header-for", "*.txt", "X-Two: yes",
              "--error-page", f"404=/{PAGE}", "--spa", "--list", "--precompressed")


@dataclasses.dataclass(frozen=True)
class Asked:
    """One side of a pair."""

    options: tuple[str, ...] = ()
    path: str = SMALL.name
    fields: tuple[str, ...] = ()
    status: int = 200
    unix: bool = False  # over a unix socket, by our own client
    own_client: bool = False
    before: bool = False  # of the other program, that of an earlier commit

    @property
    def load(self) -> Load:
        if self.own_client:
            return Load("asker", PYTHON, CONNECTIONS)
        return Load("ab -k", AB, CONNECTIONS, fields=self.fields, refused=self.status >= 400)


@dataclasses.dataclass(frozen=True)
class Pair:
    name: str
    work: str  # what is asked
    off: Asked
    on: Asked
    shows: str = ""  # a field that the answer with it has, and the one without has not, as NAME: VALUE
    twin: bool = False  # the other side serves the same bytes as a file
    cpus_shared: bool = False  # both CPUs to everybody
    log: str = ""  # a file of the scratch directory that has to grow
    counted: bool = True  # has its instructions counted


@dataclasses.dataclass(frozen=True)
class Cost:
    pair: Pair
    instructions: tuple[float, float] | None = None  # off, on
    cpu_us: tuple[list[float], list[float]] | None = None  # off, on, by round
    fault: str = ""
    others_busy: float = 0.0  # the most that strangers took of our CPUs

    @property
    def ratios(self) -> list[float]:
        """Within each round."""
        return [on / off for off, on in zip(*self.cpu_us, strict=True)] if self.cpu_us else []


def pairs(scratch: pathlib.Path) -> list[Pair]:
    plain, named = "a file of 4 KiB", Asked()

    def on(*options: str, **others) -> Asked:
        return Asked(options, **others)

    logs = [
        Pair(f"--log-format {form}", plain, named, on("--log", str(scratch / form), "--log-format", form), log=form)
        for form in ("common", "combined", "json")
    ]
    coded = [
        Pair(
            "--precompressed",
            f"a file with siblings, for {coding}",
            Asked(path=CODED, fields=(f"Accept-Encoding: {coding}",)),
            on("--precompressed", path=CODED, fields=(f"Accept-Encoding: {coding}",)),
            f"Content-Encoding: {coding}",
        )
        for coding in CODINGS
    ]
    html = ("Accept: text/html",)
    socket = ("--listen", f"unix:{scratch / 'extras.sock'}")
    return [
        Pair("--cors", plain, named, on("--cors"), "Access-Control-Allow-Origin: *"),
        Pair("--expires 30d", plain, named, on("--expires", "30d"), "Cache-Control: max-age=2592000"),
        Pair("--header", plain, named, on("--header", "X-Own: yes"), "X-Own: yes"),
        Pair("--header-for", plain, named, on("--header-for", "*.txt", "X-Own: yes"), "X-Own: yes"),
        Pair(
            "--error-page",
            "a 404",
            Asked(path=NOTHING, status=404),
            on("--error-page", f"404=/{PAGE}", path=NOTHING, status=404),
        ),
        Pair("--spa", "a file that is there", Asked(fields=html), on("--spa", fields=html)),
        Pair(
            "--spa",
            "a page that is not there, beside the index by its name",
            Asked(path=PAGE, fields=html),
            on("--spa", path=NOTHING, fields=html),
        ),
        Pair(
            "--list",
            f"a listing of {LISTED} names, beside a file of the same bytes",
            Asked(path=TWIN),
            on("--list", path=LIST),
            twin=True,
        ),
        *coded,
        Pair(
            "--precompressed",
            "a file without siblings, for gzip",
            Asked(path=HELLO.name, fields=("Accept-Encoding: gzip",)),
            on("--precompressed", path=HELLO.name, fields=("Accept-Encoding: gzip",)),
        ),
        Pair("--precompressed", "a file with siblings, asked for plainly", Asked(path=CODED), on("--precompressed", path=CODED)),
        *logs,
        Pair("all at once", f"{plain}; {' '.join(EVERYTHING)}, logged as combined", named,
             on(*EVERYTHING, "--log", str(scratch / "all"), "--log-format", "combined"),
             "X-Two: yes", log="all"),
        Pair("--cache-check 0", plain, named, on("--cache-check", "0")),
        Pair("--frozen", plain, named, on("--frozen")),
        Pair("--max-connections 1000", plain, named, on("--max-connections", "1000")),
        Pair(
            "--max-requests-per-connection", plain, named, on("--max-requests-per-connection", "1000000")
        ),
        # Valgrind does not know Landlock.
        Pair("--sandbox on", plain, on("--sandbox", "off"), on("--sandbox", "on"), counted=False),
        Pair("--meter", plain, named, on("--meter")),
        Pair(
            "--listen unix:",
            f"{plain}, beside TCP, by a client of our own",
            on(*socket, own_client=True),
            on(*socket, own_client=True, unix=True),
        ),
        Pair("--workers 2", f"{plain}, both CPUs for server and client", named, on("--workers", "2"), cpus_shared=True),
    ]


def pairs_of_programs() -> list[Pair]:
    """Everything off, of an earlier program and of this one."""
    works = [
        ("--fixed, an empty body", Asked(("--fixed",))),
        ("an empty file", Asked(path=EMPTY.name)),
        ("a file of 4 KiB", Asked()),
        ("a 404", Asked(path=NOTHING, status=404)),
    ]
    return [Pair("everything off", work, dataclasses.replace(asked, before=True), asked) for work, asked in works]


def make_extras(documents: pathlib.Path) -> None:
    """Files beside those of every run. A sibling is as long as its file, so that nothing is weighed but the choice."""
    body = (documents / SMALL.name).read_bytes()
    for suffix in ("", *CODINGS.values()):
        (documents / f"{CODED}{suffix}").write_bytes(body)
    (documents / PAGE).write_bytes(body)
    (documents / LIST).mkdir()
    for number in range(LISTED):
        (documents / LIST / f"name-{number}.txt").write_bytes(body[: number * 100])


def unknown(pair: Pair, help_text: str) -> list[str]:
    """The options of a pair that a program's help does not name."""
    words = [word for word in pair.off.options + pair.on.options if word.startswith("--")]
    return sorted({word for word in words if not re.search(rf"{re.escape(word)}(?![\w-])", help_text)})


# ---- Measuring -----------------------------------------------------------------------


@dataclasses.dataclass
class Measuring:
    tared: Tared
    scratch: pathlib.Path
    cpus: Cpus
    rounds: int
    requests: int
    before: Tared | None = None  # what the sides that are `before` are of
    # A side that several pairs have is counted once.
    counted: dict[Asked, float] = dataclasses.field(default_factory=dict)

    def cost(self, pair: Pair, with_cpu: bool) -> Cost:
        try:
            with contextlib.ExitStack() as running:
                servers = self.start(pair, running)
                result = self.weigh(pair, servers) if with_cpu else Cost(pair)
            if not pair.counted:
                return result
            return dataclasses.replace(result, instructions=(self.instructions(pair.off), self.instructions(pair.on)))
        except (Refusal, OSError, http.client.HTTPException) as trouble:
            return Cost(pair, fault=str(trouble))

    def start(self, pair: Pair, running: contextlib.ExitStack) -> list[Server]:
        """Both, and looked at. The one with the option first: it may have to say what the other is to serve."""
        cpus = self.cpus.shared if pair.cpus_shared else self.cpus
        stage = Stage(self.scratch, running, cpus.server)
        on = self.contender(pair.on, "on").start(stage, SMALL)
        body = self.look(pair, pair.on, on)
        if pair.twin:
            (stage.documents / TWIN).write_bytes(body)
        # One path cannot be listened on twice.
        off = on if pair.on.unix else self.contender(pair.off, "off").start(stage, SMALL)
        self.look(pair, pair.off, off)
        return [off, on]

    def contender(self, asked: Asked, name: str):
        program = self.before if asked.before and self.before else self.tared
        return program.files(*asked.options, name=f"tared {name}", path=asked.path)

    def look(self, pair: Pair, asked: Asked, server: Server) -> bytes:
        """The body of an answer, which has to show what it is an answer of."""
        parts = urllib.parse.urlsplit(server.url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=ANSWER_BOUND_S)
        fields = dict(field.split(": ", 1) for field in asked.fields)
        with contextlib.closing(connection):
            connection.request("GET", parts.path, headers=fields)
            answer = connection.getresponse()
            body = answer.read()
        if answer.status != asked.status:
            raise Refusal(f"{pair.name}: the status of {parts.path} is {answer.status}, and not {asked.status}")
        if pair.shows:
            name, value = pair.shows.split(": ", 1)
            if (value in (answer.headers.get(name) or "")) != (asked is pair.on):
                raise Refusal(f"{pair.name}: {name} is {answer.headers.get(name)} when it is {'on' if asked is pair.on else 'off'}")
        return body

    def weigh(self, pair: Pair, servers: list[Server]) -> Cost:
        """A B A B: who begins changes with each round."""
        cpus = self.cpus.shared if pair.cpus_shared else self.cpus
        sides = [(pair.off, servers[0]), (pair.on, servers[1])]
        taken: dict[bool, list[float]] = {False: [], True: []}
        others_busy = 0.0
        for number in range(self.rounds):
            for asked, server in sides if number % 2 == 0 else sides[::-1]:
                load = dataclasses.replace(asked.load, requests=self.requests)
                trial = attempt(load, self.url(asked, server), [server], 0, cpus)
                if trial.failures:
                    raise Refusal("; ".join(trial.failures))
                taken[asked is pair.on].append(trial.cpu_us(server.name))
                others_busy = max(others_busy, trial.others_busy)
        if pair.log and not (self.scratch / pair.log).stat().st_size:
            raise Refusal(f"{pair.name}: nothing was logged")
        return Cost(pair, cpu_us=(taken[False], taken[True]), others_busy=others_busy)

    def url(self, asked: Asked, server: Server | None) -> str | None:
        if asked.unix:
            return f"unix:{self.scratch / 'extras.sock'}#{asked.path}"
        return server.url if server else None

    def instructions(self, asked: Asked) -> float:
        if asked not in self.counted:
            start = self.contender(asked, "counted")
            self.counted[asked] = instructions_each(
                start, SMALL, asked.load, self.scratch, self.cpus, self.url(asked, None)
            )
        return self.counted[asked]


def measure(measuring: Measuring, chosen: list[Pair], with_cpu: bool, tell: Callable[[str], None] = say) -> list[Cost]:
    costs = []
    for pair in chosen:
        began_s = time.monotonic()
        cost = measuring.cost(pair, with_cpu)
        ratio = [f"{statistics.median(cost.ratios):.3f} of the CPU time"] if cost.ratios else []
        told = cost.fault or ", ".join([f"{more(cost)} instructions", *ratio])
        tell(f"{pair.name}, {pair.work}: {told} ({time.monotonic() - began_s:.0f} s)")
        costs.append(cost)
    return costs


# ---- Markdown -------------------------------------------------------------------------


def more(cost: Cost) -> str:
    """Instructions that it adds."""
    return f"{cost.instructions[1] - cost.instructions[0]:+,.0f}" if cost.instructions else NONE


def full_table(costs: list[Cost]) -> str:
    off, on = ("before", "now") if any(cost.pair.off.before for cost in costs) else ("off", "on")
    figures = [f"instructions, {off}", on, "more", f"CPU µs, {off}", on, f"× {off}"]
    lines = header(["option", "asked for"], figures)
    for cost in costs:
        counted = [f"{value:,.0f}" for value in cost.instructions] if cost.instructions else [NONE, NONE]
        taken = [significant(statistics.median(each)) for each in cost.cpu_us] if cost.cpu_us else [NONE, NONE]
        ratio = with_range(cost.ratios) if cost.ratios else NONE
        lines.append(line([f"`{cost.pair.name}`", cost.pair.work, *counted, more(cost), *taken, ratio]))
    return "\n".join(lines)


def short_table(costs: list[Cost]) -> str:
    lines = header(["option", "asked for"], ["instructions", "CPU"])
    for cost in costs:
        if not cost.fault:
            ratio = f"{statistics.median(cost.ratios):.2f}" if cost.ratios else NONE
            lines.append(line([f"`{cost.pair.name}`", cost.pair.work, more(cost), ratio]))
    return "\n".join(lines)
