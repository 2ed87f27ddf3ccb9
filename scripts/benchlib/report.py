"""The result for people, in Markdown, and for machines, in JSON."""

import dataclasses
import json
import pathlib
import shlex
import statistics

from .console import Refusal
from .figures import Figure
from .places import CACHE, REPOSITORY
from .reports import verdict_on
from .rounds import RowResult, Run
from .rows import Row
from .verdicts import DISTURBED_SHARE, Verdict, bottleneck, cheapest, clean_runs, floor_of, judge, median_cpu_us

NONE = "-"

FLOOR_AT_BAR = (
    "The floor at a bar is what the better floor measures there: it has no parser and no heads to choose from, so that "
    "where it misses a bar the kernel's part of a request alone does, here and today."
)


@dataclasses.dataclass(frozen=True)
class Report:
    heading: dict[str, str]
    rounds: int
    rows: list[tuple[Row, RowResult]]
    figures: list[Figure]
    scratch: pathlib.Path  # is gone when somebody reads the commands
    left_out: list[str] = dataclasses.field(default_factory=list)  # where tared itself has no figure, and why

    @property
    def failed(self) -> list[Run]:
        return [run for _, result in self.rows for run in result.runs if run.failures]

    @property
    def disturbed(self) -> str | None:
        runs = [run for _, result in self.rows for run in result.runs if not run.failures]
        count = sum(run.others_busy >= DISTURBED_SHARE for run in runs)
        if not count:
            return None
        return (
            f"in {count} of {len(runs)} runs strangers took {DISTURBED_SHARE:.0%} or more of our CPUs: not to be quoted"
        )

    @property
    def agreement(self) -> str | None:
        """How far a server's own figures are from those of the kernel, which hold for everybody."""
        runs = [run for _, result in self.rows for run in result.runs if run.account and run.clocks_s]
        if not runs:
            return None
        apart = [abs(run.account.cpu_s / run.clocks_s - 1) for run in runs]
        return (
            f"tared's own CPU time and that of the kernel's clocks, in {len(runs)} runs: "
            f"{statistics.median(apart):.2%} apart, {max(apart):.2%} at the most"
        )

    @property
    def verdicts(self) -> list[Verdict]:
        return [verdict for row, result in self.rows for verdict in judge(row, result)]


def write_json(report: Report, path: pathlib.Path) -> None:
    results = {
        "heading": report.heading,
        "rounds": report.rounds,
        "rows": [dataclasses.asdict(result) for _, result in report.rows],
        "verdicts": [dataclasses.asdict(verdict) for verdict in report.verdicts],
        "figures": [dataclasses.asdict(figure) | {"kept": figure.kept} for figure in report.figures],
    }
    write(path, json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def write(path: pathlib.Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise Refusal(f"cannot write a result: {error}") from None


def markdown(report: Report) -> str:
    parts = ["# What a request costs", "\n".join(f"- {label}: {text}" for label, text in report.heading.items())]
    if report.rows:
        parts += ["## The bar", render_bars(report)]
        parts += ["## CPU per request by server and shape, µs", render_matrix(report)]
    if report.figures:
        parts += ["## What is not CPU time", render_figures(report)]
    if report.rows:
        parts += ["## Every row", explain(report)]
        parts += [part for row, result in report.rows for part in render_row(row, result)]
        parts += ["## Commands", render_commands(report)]
    if report.failed or report.left_out:
        parts += ["## Failures", "These get no figure:", render_failures(report)]
    return "\n\n".join(parts) + "\n"


# ---- The bar -------------------------------------------------------------------


def render_bars(report: Report) -> str:
    lines = header(["row", "work", "server", "bar"], ["measured", "", "the floor at it", "cheapest correct one"])
    for row, result in report.rows:
        best = cheapest_served(row, result)
        for verdict in judge(row, result):
            measured = with_range(verdict.ratios) if verdict.ratios else verdict.why_not
            kept = kept_or_missed(verdict.kept)
            lowest = floor_of(row, result, verdict)
            floor = with_range(lowest) if lowest else NONE
            lines.append(line([row.id, row.title, verdict.contender, verdict.bar, measured, kept, floor, best]))
    lines += ["", FLOOR_AT_BAR]
    return "\n".join(lines)


def cheapest_served(row: Row, result: RowResult) -> str:
    families = {contender.name: contender.family for contender in row.contenders if contender.family != "floor"}
    best = cheapest(row, result, tuple(families))
    return NONE if best is None else best if families[best] == "tared" else f"**{best}**"


def kept_or_missed(kept: bool | None) -> str:
    return {True: "kept", False: "**missed**", None: NONE}[kept]


# ---- By server and shape ---------------------------------------------------------


def render_matrix(report: Report) -> str:
    everyone = {contender.name: contender.family for row, _ in report.rows for contender in row.contenders}
    families = list(dict.fromkeys(everyone.values()))
    servers = sorted(everyone, key=lambda name: families.index(everyone[name]))
    lines = header(["server"], [row.id for row, _ in report.rows])
    for server in servers:
        lines.append(line([server, *(matrix_cell(row, result, server) for row, result in report.rows)]))
    if any(row.per_bytes for row, _ in report.rows):
        lines += ["", "1g: µs for each GiB."]
    return "\n".join(lines)


def matrix_cell(row: Row, result: RowResult, server: str) -> str:
    cost = median_cpu_us(result, row.load.name, server)
    if cost is not None:
        return significant(cost)
    ran = any(run.contender == server for run in result.runs)
    return "failed" if ran else "left out" if server in result.absent else NONE


# ---- One row ---------------------------------------------------------------------

FIGURE_COLUMNS = [
    "CPU µs",
    "user",
    "sys",
    "× floor",
    "sleeps",
    "per second",
    "server busy",
    "client µs",
    "client busy",
    "others",
    "bottleneck",
]


def render_row(row: Row, result: RowResult) -> list[str]:
    floors = tuple(contender.name for contender in row.contenders if contender.family == "floor")
    floor = cheapest(row, result, floors)
    lines = header(["client", "server"], FIGURE_COLUMNS)
    for load in filter(None, (row.alone, row.load)):
        beneath = clean_runs(result, load.name, floor) if floor else []
        for server in dict.fromkeys(run.contender for run in result.runs):
            runs = clean_runs(result, load.name, server)
            cells = render_runs(runs, beneath) if runs else ["failed"] + [NONE] * (len(FIGURE_COLUMNS) - 1)
            lines.append(line([load.name, server, *cells]))
    unit = "GiB" if row.per_bytes else "request"
    notes = [f"- {name} is left out: {why}" for name, why in result.absent.items()]
    notes += [f"- {sentence}" for sentence in accounts_of(result.runs)]
    return [f"### {row.id}: {row.title}, per {unit}", "\n".join(lines), *(["\n".join(notes)] if notes else [])]


def accounts_of(runs: list[Run]) -> list[str]:
    """What servers say of themselves on a row, beside what the clients counted."""
    by_server: dict[str, list[Run]] = {}
    for run in runs:
        if run.account:
            by_server.setdefault(run.contender, []).append(run)
    return [account_of(server, of_server) for server, of_server in by_server.items()]


def account_of(server: str, runs: list[Run]) -> str:
    counted, answered = sum(run.account.requests for run in runs), sum(run.answered for run in runs)
    verdict = verdict_on(runs[-1].account, sum(run.elapsed_s for run in runs))
    return f"{server}, of {counted:,} requests as it counted them, {answered:,} as the client did: {verdict}"


def render_runs(runs: list[Run], beneath: list[Run]) -> list[str]:
    ratios = [run.cpu_us / other.cpu_us for run, other in zip(runs, beneath, strict=True)] if beneath else []
    return [
        with_range([run.cpu_us for run in runs]),
        significant(statistics.median(run.user_us for run in runs)),
        significant(statistics.median(run.sys_us for run in runs)),
        with_range(ratios) if ratios else NONE,
        significant(statistics.median(run.sleeps_per_request for run in runs)),
        significant(statistics.median(run.requests_per_s for run in runs)),
        f"{statistics.median(run.server_busy for run in runs):.0%}",
        significant(statistics.median(run.client_us for run in runs)),
        f"{statistics.median(run.client_busy for run in runs):.0%}",
        f"{statistics.median(run.others_busy for run in runs):.0%}",
        bottleneck(runs),
    ]


def explain(report: Report) -> str:
    rounds = f"Medians of {report.rounds} rounds (lowest–highest)"
    if report.rounds < 5:
        rounds = f"{report.rounds} rounds, too few to quote" if report.rounds > 1 else "One round, too few to quote"
    return (
        f"{rounds}; × floor, the better one where there are two, is taken within each round. CPU is user + sys of "
        "the server, all threads and children: as tared's own report says it of itself, held to the kernel's clocks, "
        "and as those say it of the others; by the requests that the client counted, for all alike. Client µs is the "
        "client's CPU for the same: on loopback a large file costs who receives it, too. Sleeps is how often the "
        "server went to wait, per request: one that falls behind takes several at a time, and each is cheaper. Busy is CPU time by wall time; the "
        "bottleneck is who was busy for at least 90 %: where it is the client, the figure per second is the "
        "client's. Others is the share of both CPUs that went to neither; from 5 % on the run counts as disturbed. "
        "Below a table stands tared's own verdict on all of its runs there."
    )


# ---- Figures, commands, failures ---------------------------------------------------


def render_figures(report: Report) -> str:
    lines = header(["row", "server", "what"], ["measured", "bar", ""])
    for figure in report.figures:
        bar = f"≤ {figure.limit:,.0f} {figure.unit}" if figure.limit is not None else NONE
        verdict = NONE if figure.limit is None else kept_or_missed(figure.kept)
        measured = f"{significant(figure.value)} {figure.unit}"
        lines.append(line([figure.row, figure.contender, figure.what, measured, bar, verdict]))
    return "\n".join(lines)


def render_commands(report: Report) -> str:
    return show_commands([argv for _, result in report.rows for argv in result.commands.values()], report.scratch)


def show_commands(commands: list[list[str]], scratch: pathlib.Path) -> str:
    """Each once, and without what is of this machine only."""
    lines = [
        shlex.join(argv).replace(str(scratch), "SCRATCH").replace(f"{REPOSITORY}/", "").replace(str(CACHE), "CACHE")
        for argv in commands
    ]
    return "\n".join(["```", *dict.fromkeys(lines), "```"])


def render_failures(report: Report) -> str:
    failed = [
        f"{run.row}, {run.load}, {run.contender}, round {run.round}: {'; '.join(run.failures)}" for run in report.failed
    ]
    return "\n".join(f"- {sentence}" for sentence in failed + report.left_out)


def header(names: list[str], figures: list[str]) -> list[str]:
    return [line(names + figures), line(["---"] * len(names) + ["---:"] * len(figures))]


def line(cells: list[str]) -> str:
    # What a program said when it failed may have several lines.
    return f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |"


def with_range(values: list[float]) -> str:
    middle = significant(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({significant(min(values))}–{significant(max(values))})"


def significant(value: float) -> str:
    """As many digits as there may be something behind."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 20 else f"{value:.2f}"
