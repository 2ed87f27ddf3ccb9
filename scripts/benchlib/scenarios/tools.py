"""Which load tool is the bottleneck? Seven of them against the same server, of which
we know what a request costs it, and how many it was asked.
"""

import contextlib
import dataclasses

from ..chart import OTHERS
from ..console import Refusal, say
from ..documents import EMPTY
from ..loads import Load, siege_settings
from ..process import Stage
from ..report import NONE, header, line, significant
from ..reports import verdict_on
from ..tools import AB, AUTOCANNON, H2LOAD, HTTPERF, OHA, SIEGE, WRK, Tool
from ..trials import Trial, attempt
from ..verdicts import bottleneck
from .setting import Setting

TITLE = "Which load tool is the bottleneck?"
STORY = (
    "In 2012 httperf, siege, ab and pronk measured one node server that answered `Success`, and found between 900 and "
    "12,700 requests per second for it. ab's keep-alive did nothing, because node ignored it in HTTP/1.0, and pronk "
    "with 10,000 connections ended node. pronk is gone; autocannon is here for the tools that are written in node."
)

TOOLS = (AB, SIEGE, HTTPERF, WRK, H2LOAD, OHA, AUTOCANNON)
CONNECTIONS = (1, 10, 100, 1_000, 10_000)
CROWD = 10_000
REQUESTS, REQUESTS_QUICK = 100_000, 1_000
SECONDS, SECONDS_QUICK = 4, 1  # of wrk and autocannon, which count those
BODY = "Success"
COUNTS_DIFFER = 0.001


@dataclasses.dataclass(frozen=True)
class Line:
    tool: str
    keeps_alive: bool
    connections: int
    requests: int = 0  # answered, as the tool says
    kept_alive: int | None = None  # as the tool says; few do
    wall_s: float = 0.0  # as the tool says
    per_s: float = 0.0  # as the tool says
    counted: int | None = None  # requests, as tared says
    elapsed_s: float = 0.0  # the whole life of the tool
    client_busy: float = 0.0
    server_busy: float = 0.0
    others_busy: float = 0.0  # of both CPUs
    server_us: float = 0.0
    client_us: float = 0.0
    bottleneck: str = ""
    verdict: str = ""  # as tared says
    failures: list[str] = dataclasses.field(default_factory=list)  # as the tool says
    skipped: str = ""  # why it was not run
    fault: str = ""  # tared ended, or was not there

    @property
    def differs_by(self) -> float | None:
        return None if self.counted is None or not self.requests else abs(self.requests / self.counted - 1)


def measure(setting: Setting) -> list[Line]:
    tools = [tool for tool in TOOLS if setting.can_run(tool.name, tool)]
    for tool, keeps_alive in ((tool, keeps_alive) for tool in tools for keeps_alive in (True, False)):
        # Once for each way of asking: a request of ours would be counted.
        gate(tool, keeps_alive, setting)
    return [
        measure_one(tool, keeps_alive, connections, setting)
        for keeps_alive in (True, False)
        for connections in CONNECTIONS
        for tool in tools
    ]


def gate(tool: Tool, keeps_alive: bool, setting: Setting) -> None:
    with contextlib.ExitStack() as running:
        stage = Stage(setting.scratch, running, setting.cpus.server)
        server = setting.tared.fixed("--body", BODY).start(stage, EMPTY)
        (stage.documents / BODY).write_text(BODY)
        if fault := setting.fault_of(server, Load(tool.name, tool, 1, keeps_alive), stage, BODY):
            raise Refusal(f"tared fails before {tool.name} is measured: {fault}")


def why_not(tool: Tool, keeps_alive: bool, connections: int) -> str:
    """What a tool cannot do at all, or not for what it is asked."""
    if tool is HTTPERF and keeps_alive and connections > HTTPERF_CONNECTIONS_MAX:
        return "it waits by select(), for 1,024 descriptors at the most"
    if tool is HTTPERF and not keeps_alive and connections > 1:
        return "it opens connections at a rate, and not so many at a time"
    if tool is SIEGE and connections > SIEGE_USERS_MAX:
        return "a thread for each user: the first are gone before the last have begun, and it takes most of a minute"
    return ""


HTTPERF_CONNECTIONS_MAX = 1_000
SIEGE_USERS_MAX = 1_000


def measure_one(tool: Tool, keeps_alive: bool, connections: int, setting: Setting) -> Line:
    named = Line(tool.name, keeps_alive, connections)
    if why := why_not(tool, keeps_alive, connections):
        return dataclasses.replace(named, skipped=why)
    requests = max(REQUESTS_QUICK if setting.quick else REQUESTS, connections)
    rc = siege_settings(setting.scratch, keeps_alive=keeps_alive, gzip=False)
    load = Load(tool.name, tool, connections, keeps_alive, requests=requests, settings=rc)
    # Each has a server of its own, so that the verdict is on this run.
    with contextlib.ExitStack() as running:
        server = setting.tared.fixed("--body", BODY).start(Stage(setting.scratch, running, setting.cpus.server), EMPTY)
        trial = attempt(load, server.url, [server], SECONDS_QUICK if setting.quick else SECONDS, setting.cpus)
        setting.note_command(server.command, server)
        setting.note_command(trial.outcome.command, server)
    each = line_of(named, trial)
    persistence = "kept" if keeps_alive else "not kept"
    told = each.fault or "; ".join([f"{each.per_s:,.0f} requests/s, bottleneck: {each.bottleneck}", *each.failures])
    say(f"tools, {connections} connections, {persistence}, {tool.name}: {told}")
    return each


def line_of(named: Line, trial: Trial) -> Line:
    outcome = trial.outcome
    if not trial.accounts:
        return dataclasses.replace(named, fault="; ".join(trial.failures))
    requests, (account,) = outcome.requests, trial.accounts.values()
    return dataclasses.replace(
        named,
        requests=requests,
        kept_alive=outcome.kept_alive,
        wall_s=outcome.wall_s,
        per_s=outcome.per_s,
        counted=account.requests,
        verdict=verdict_on(account, trial.elapsed_s),
        elapsed_s=trial.elapsed_s,
        client_busy=trial.client_busy,
        server_busy=trial.server_busy,
        others_busy=trial.others_busy,
        server_us=trial.server_cpu_s * 1e6 / requests if requests else 0.0,
        client_us=trial.client_cpu_us if requests else 0.0,
        bottleneck=WHO[bottleneck([trial])],
        failures=trial.failures,
    )


SHORT_OF_CPU = {
    "tool": "the tool",
    "server": "the server",
    "both": "both",
    "neither": "neither",
    "disturbed": "unknown, for others took CPU time,",
}
WHO = {"client": "tool", "server": "server", "both": "both", "neither": "neither", "disturbed": "disturbed"}


def table(lines: list[Line]) -> str:
    figures = [
        "answered",
        "kept alive",
        "seconds",
        "requests/s",
        "tared: requests",
        "tared: /s",
        "tool",
        "server",
        "others",
        "tool µs",
        "server µs",
    ]
    rendered = header(["keep-alive", "connections", "tool"], [*figures, "bottleneck", "remarks", "tared: verdict"])
    for each in lines:
        names = ["yes" if each.keeps_alive else "no", f"{each.connections:,}", each.tool]
        if each.skipped or each.fault:
            remark = f"not run: {each.skipped}" if each.skipped else f"**failed**: {each.fault}"
            rendered.append(line([*names, *[NONE] * (len(figures) + 1), remark, NONE]))
            continue
        rendered.append(
            line(
                [
                    *names,
                    f"{each.requests:,}",
                    NONE if each.kept_alive is None else f"{each.kept_alive:,}",
                    f"{each.wall_s:.2f}",
                    f"{each.per_s:,.0f}",
                    NONE if each.counted is None else f"{each.counted:,}",
                    NONE if each.counted is None or not each.wall_s else f"{each.counted / each.wall_s:,.0f}",
                    f"{each.client_busy:.0%}",
                    f"{each.server_busy:.0%}",
                    f"{each.others_busy:.0%}",
                    significant(each.client_us),
                    significant(each.server_us),
                    each.bottleneck,
                    "; ".join(remarks(each)) or NONE,
                    each.verdict or NONE,
                ]
            )
        )
    return "\n".join(rendered)


def remarks(each: Line) -> list[str]:
    found = list(each.failures)
    if each.differs_by is not None and each.differs_by > COUNTS_DIFFER:
        found.append(f"counts differ by {each.differs_by:.1%}")
    return found


NOTES = (
    "What the tool says: answered, kept alive, seconds, requests/s. What tared's own report says: "
    "the requests that it answered, how many those are in the seconds of the tool, its CPU (server, server µs), and "
    "its verdict, for which busy is of the time in which bytes moved. What the machine says: the share of its CPU that "
    "the tool used from its start to its end, and CPU of one request. The bottleneck is who was "
    "busy for at least 90 % of that; where it is neither, each waited for the other (as with one connection), or the "
    "tool's start and end were much of its life. wrk and autocannon are told a time, after which requests are on their "
    "way that they do not count; the others a number of requests. autocannon sends its next request even after "
    "`Connection: close`, and calls it an error that there is no answer."
)


def conclude(lines: list[Line]) -> str:
    ran = [each for each in lines if not each.skipped and not each.fault and each.requests]
    if not ran:
        return "Nothing could be measured."
    low, high = min(ran, key=lambda each: each.per_s), max(ran, key=lambda each: each.per_s)
    parts = [f"Of the same server the tools say from {told(low)} to {told(high)} requests per second"]
    counts = {sentence: sum(each.bottleneck == who for each in ran) for who, sentence in SHORT_OF_CPU.items()}
    limits = ", ".join(f"{sentence} in {count}" for sentence, count in counts.items() if count)
    parts.append(f"of {len(ran)} runs the bottleneck was {limits}")
    costs = {each.tool: each.client_us for each in ran if each.keeps_alive and each.connections == 100}
    if costs:
        cheap, dear = min(costs, key=costs.__getitem__), max(costs, key=costs.__getitem__)
        parts.append(
            f"with 100 kept connections a request costs {cheap} {significant(costs[cheap])} µs of its own CPU and "
            f"{dear} {significant(costs[dear])} µs"
        )
    compared = [each for each in ran if each.differs_by is not None]
    if compared:
        off = sorted({each.tool for each in compared if each.differs_by > COUNTS_DIFFER})
        parts.append(
            f"the counts of {', '.join(off)} differ somewhere from tared's by more than {COUNTS_DIFFER:.1%}"
            if off
            else f"no tool's count differs from tared's by more than {COUNTS_DIFFER:.1%}"
        )
    if crowd := [each for each in lines if each.connections == CROWD and not each.skipped]:
        parts.append(of_crowd(crowd))
    return "; ".join(parts) + "."


def of_crowd(crowd: list[Line]) -> str:
    if ended := [each.tool for each in crowd if each.fault]:
        return f"{CROWD:,} connections ended tared in {len(ended)} of {len(crowd)} runs ({', '.join(ended)})"
    missed = [each.tool for each in crowd if each.failures]
    answers = f"{', '.join(missed)} missed answers" if missed else "no tool missed an answer"
    return f"{CROWD:,} connections never ended tared in {len(crowd)} runs, in which {answers}"


def told(each: Line) -> str:
    persistence = "kept" if each.keeps_alive else "not kept"
    return f"{each.per_s:,.0f} ({each.tool}, {each.connections:,} connections, {persistence})"


def draw(lines: list[Line], pyplot):
    ran = [each for each in lines if not each.skipped and not each.fault and each.requests]
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for axis, keeps_alive in zip(axes, (True, False), strict=True):
        for tool in dict.fromkeys(each.tool for each in ran):
            shown = [each for each in ran if (each.tool, each.keeps_alive) == (tool, keeps_alive)]
            points = [(each.connections, each.per_s) for each in shown]
            colour = COLOURS.get(tool, OTHERS)
            axis.plot(*zip(*points, strict=True), color=colour, linewidth=1.2, label=tool)
            for each in shown:
                axis.plot(each.connections, each.per_s, color=colour, markersize=6, **MARKERS[each.bottleneck])
        axis.set_xscale("log")
        axis.set_xticks(CONNECTIONS, [f"{count:,}" for count in CONNECTIONS])
        axis.minorticks_off()
        axis.set_ylim(bottom=0)
        axis.set_xlabel("connections")
        title = "connections kept" if keeps_alive else "a connection per request"
        axis.set_title(f"requests/s as the tool says, {title}", loc="left", fontsize=9, fontweight="bold")
        axis.yaxis.set_major_formatter("{x:,.0f}")
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    for who in dict.fromkeys(each.bottleneck for each in ran):
        handles += pyplot.plot([], [], color="black", linestyle="none", **MARKERS[who])
        labels.append(f"bottleneck: {who}")
    figure.legend(handles, labels, loc="outside right center")
    return figure


COLOURS = {
    "ab": "#b45309",
    "siege": "#be123c",
    "httperf": "#7c3aed",
    "wrk": "#1d4ed8",
    "h2load": "#0e7490",
    "oha": "#15803d",
    "autocannon": "#64748b",
}
MARKERS = {
    "tool": {"marker": "o"},
    "server": {"marker": "s"},
    "both": {"marker": "D"},
    "neither": {"marker": "o", "markerfacecolor": "white"},
    "disturbed": {"marker": "x"},
}


def broken(lines: list[Line]) -> list[str]:
    """No tool ends tared, and no request that was answered is one that tared has not had."""
    faults = [f"{named(each)}: {each.fault}" for each in lines if each.fault]
    lost = [each for each in lines if each.counted is not None and each.counted < each.requests]
    return faults + [f"{named(each)}: {each.requests} answers to {each.counted} requests" for each in lost]


def named(each: Line) -> str:
    return f"{each.tool}, {each.connections} connections, {'kept' if each.keeps_alive else 'not kept'}"
