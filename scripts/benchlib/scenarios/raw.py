"""A raw baseline against nginx, with ab: what 2012 asked, with the floor beside it.

The shape is one row of the floor suite, and is measured as such.
"""

import dataclasses
import statistics

from .. import peers
from ..chart import FLOOR, OTHERS, OURS
from ..documents import EMPTY
from ..loads import Load
from ..report import NONE, account_of, header, line, significant, with_range
from ..rounds import RowResult, measure_row
from ..rows import Row
from ..servers import floor
from ..tools import AB
from ..verdicts import bottleneck, clean_runs
from .setting import Setting

TITLE = "The raw baseline against nginx"
STORY = (
    "In 2012 a node program that bypassed node's http module, with two precomputed responses of 214 bytes, stood "
    "against nginx 0.7 with an empty file: `ab -k -c 20 -n 50000`. Here tared --fixed and the raw node server send "
    "the same fields as that program; nginx has the settings of then, but for timeouts and limits that a run "
    "of 50,000 requests does not reach."
)

CONNECTIONS = 20
REQUESTS, REQUESTS_QUICK = 50_000, 5_000
ROUNDS = 5

# The fields of then beside those that tared sends by itself.
FIELDS_2012 = ("Server: raw-baseline", "Last-Modified: Sun, 01 Jan 2012 00:00:00 GMT", "Accept-Ranges: bytes")

THE_FLOOR, OURS_FIXED, NGINX, NODE_RAW = "floor fixed", "tared --fixed", "nginx 2012", "node net"
PER_S_2012 = {NODE_RAW: 27_450.96, NGINX: 47_543.16}
MS_2012 = {NODE_RAW: 0.729, NGINX: 0.421}


@dataclasses.dataclass(frozen=True)
class Line:
    server: str
    per_s: float = 0.0
    ms: float = 0.0
    kept_alive: int = 0  # the fewest of any round
    server_us: list[float] = dataclasses.field(default_factory=list)  # by round
    client_us: float = 0.0
    by_floor: list[float] = dataclasses.field(default_factory=list)  # by round
    bottleneck: str = ""
    account: str = ""  # what the server says of itself; of tared
    fault: str = ""  # why there are no figures


def measure(setting: Setting) -> list[Line]:
    if not setting.can_run("raw", AB):
        return []
    load = Load("ab -k", AB, CONNECTIONS, requests=REQUESTS_QUICK if setting.quick else REQUESTS)
    fields = [word for field in FIELDS_2012 for word in ("--header", field)]
    tared = setting.tared
    everybody = (
        floor("fixed"),
        tared.fixed(*fields),
        tared.files(),
        peers.NGINX_2012,
        peers.NODE_RAW,
        peers.NODE_HTTP,
    )
    contenders = [contender for contender in everybody if not setting.lacks(contender)]
    row = Row("raw", TITLE, EMPTY, load, everybody, ())
    rounds = 1 if setting.quick else ROUNDS
    result = measure_row(row, contenders, setting.scratch, setting.cpus, rounds, seconds=1)
    setting.versions.update(result.versions.values())
    setting.commands += result.commands.values()
    return [line_of(contender.name, load, result) for contender in contenders]


def line_of(server: str, load: Load, result: RowResult) -> Line:
    if server in result.absent:
        return Line(server, fault=result.absent[server])
    runs = clean_runs(result, load.name, server)
    if not runs:
        faults = [fault for run in result.runs if run.contender == server for fault in run.failures]
        return Line(server, fault="; ".join(dict.fromkeys(faults)))
    beneath = clean_runs(result, load.name, THE_FLOOR)
    per_s = statistics.median(run.requests_per_s for run in runs)
    return Line(
        server,
        per_s,
        CONNECTIONS / per_s * 1e3,
        min(run.kept_alive for run in runs),
        [run.cpu_us for run in runs],
        statistics.median(run.client_us for run in runs),
        [run.cpu_us / other.cpu_us for run, other in zip(runs, beneath, strict=True)] if beneath else [],
        bottleneck(runs),
        account_of(server, runs) if runs[0].account else "",
    )


def table(lines: list[Line]) -> str:
    figures = ["requests/s", "ms", "kept alive", "server µs", "client µs", "× floor", "bottleneck", "2012: /s", "ms"]
    rendered = header(["server"], figures)
    for each in lines:
        if each.fault:
            rendered.append(line([each.server, f"failed: {each.fault}", *[NONE] * (len(figures) - 1)]))
            continue
        rendered.append(
            line(
                [
                    each.server,
                    f"{each.per_s:,.0f}",
                    f"{each.ms:.3f}",
                    f"{each.kept_alive:,}",
                    with_range(each.server_us),
                    significant(each.client_us),
                    with_range(each.by_floor) if each.by_floor else NONE,
                    each.bottleneck,
                    f"{PER_S_2012[each.server]:,.2f}" if each.server in PER_S_2012 else NONE,
                    f"{MS_2012[each.server]:.3f}" if each.server in MS_2012 else NONE,
                ]
            )
        )
    accounts = [f"- {each.account}" for each in lines if each.account]
    return "\n".join([*rendered, *([""] if accounts else []), *accounts])


NOTES = (
    "CPU is of one request, user and system, on a CPU of its own for server and client each; medians of all rounds "
    "(lowest–highest), and × floor is the server's CPU by that of the floor in the same round. The bottleneck is who "
    "was busy for at least 90 % of the time: where it is the client, requests/s are ab's figure and not the server's. "
    "tared's CPU is of its own report, as is what it says last: its verdict on all of its rounds."
)


def conclude(lines: list[Line]) -> str:
    clean = {each.server: each for each in lines if not each.fault}
    parts = []
    costs = [
        f"{each.server} {significant(statistics.median(each.by_floor))}"
        for each in clean.values()
        if each.by_floor and each.server != THE_FLOOR
    ]
    if costs:
        parts.append(f"Of the CPU time that the floor spends on a request, the others spend: {', '.join(costs)} times")
    if NODE_RAW in clean and NGINX in clean:
        now = clean[NODE_RAW].per_s / clean[NGINX].per_s
        then = PER_S_2012[NODE_RAW] / PER_S_2012[NGINX]
        parts.append(
            f"the raw node server makes {now:.2f} of nginx's requests per second, where it made {then:.2f} in 2012"
        )
    limited = [each.server for each in clean.values() if each.bottleneck in ("client", "both")]
    if limited:
        parts.append(
            f"but ab itself was short of CPU with {len(limited)} of {len(clean)} servers ({', '.join(limited)}), whose "
            "requests per second therefore say little about them"
        )
    elif clean:
        parts.append("and ab had CPU to spare with all of them")
    return "; ".join(parts) + "." if parts else "Nothing could be measured."


def draw(lines: list[Line], pyplot):
    clean = [each for each in lines if not each.fault]
    figure, (costs, rates) = pyplot.subplots(1, 2, figsize=(9, 2.8), layout="constrained", sharey=True)
    colours = [OURS if "tared" in each.server else FLOOR if each.server == THE_FLOOR else OTHERS for each in clean]
    names = [each.server for each in clean]
    panels = (
        (costs, [statistics.median(each.server_us) for each in clean], "CPU of the server per request, µs"),
        (rates, [each.per_s for each in clean], "requests per second; ◇: in 2012"),
    )
    for axis, values, title in panels:
        bars = axis.barh(names, values, color=colours)
        axis.bar_label(bars, [significant(value) for value in values], padding=3)
        axis.set_title(title, loc="left", fontsize=9, fontweight="bold")
        axis.margins(x=0.2)
        axis.set_xticks([])
        axis.tick_params(length=0)
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    then = [(PER_S_2012[name], name) for name in names if name in PER_S_2012]
    if then:
        rates.scatter(*zip(*then, strict=True), marker="D", color="white", edgecolor="black", s=22, zorder=3)
    costs.invert_yaxis()
    return figure


def broken(lines: list[Line]) -> list[str]:
    return [f"{each.server}: {each.fault}" for each in lines if each.fault and "tared" in each.server]
