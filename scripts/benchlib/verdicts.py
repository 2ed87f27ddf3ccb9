"""Ratios within a round, and whether the bar is kept.

The floor and the others run within seconds of each other: machines drift by more
than what we want to see, and drift for all alike. Where there are two to choose
from, the one with the lower median is compared with in all rounds: taking the
lower one of each round would make a third one that is cheaper than both.
"""

import dataclasses
import statistics

from .documents import LARGE
from .rounds import RowResult, Run
from .rows import Bar, Row
from .trials import DISTURBED_SHARE

# Above this share of a CPU, waiting for it is what the run did.
BUSY_SHARE = 0.9
# Above this ratio of its dearest round to its cheapest, the machine has changed beneath the floor.
STEADY_MAX = 1.2


@dataclasses.dataclass(frozen=True)
class Verdict:
    row: str
    contender: str
    bar: str
    compared_with: str
    ratios: list[float]  # one for each round; none if there is nothing to divide
    kept: bool | None
    why_not: str  # why there is no ratio


def judge(row: Row, result: RowResult) -> list[Verdict]:
    held = [contender.name for contender in row.contenders if contender.family == "tared"]
    return [
        judge_one(row, result, bar, contender)
        for contender in held
        for bar in row.bars
        if not bar.holds or contender in bar.holds
    ]


def judge_one(row: Row, result: RowResult, bar: Bar, contender: str) -> Verdict:
    runs = clean_runs(result, row.load.name, contender)
    if bar.against:
        compared_with = cheapest(row, result, bar.against)
        others = clean_runs(result, row.load.name, compared_with) if compared_with else []
    else:
        compared_with = f"{contender}, {row.alone.name}"
        others = clean_runs(result, row.alone.name, contender)
    if not runs or not others:
        lacking = contender if not runs else " or ".join(bar.against) or compared_with
        return Verdict(row.id, contender, bar.sentence, compared_with or "", [], None, f"no clean run of {lacking}")
    ratios = [value_of(run, bar) / value_of(other, bar) for run, other in zip(runs, others, strict=True)]
    kept = bar.kept_by(statistics.median(ratios))
    return Verdict(row.id, contender, bar.sentence, compared_with, ratios, kept, "")


def floor_moved(row: Row, result: RowResult) -> str | None:
    """By how much the floor did, if that is more than its own. A large file's cost moves by itself."""
    if row.document.size_bytes >= LARGE.size_bytes:
        return None
    floor = cheapest(row, result, tuple(each.name for each in row.contenders if each.family == "floor"))
    costs = [run.cpu_us for run in clean_runs(result, row.load.name, floor)] if floor else []
    if not costs or max(costs) <= min(costs) * STEADY_MAX:
        return None
    return f"the floor's cost went from {min(costs):.2f} to {max(costs):.2f} µs"


def floor_of(row: Row, result: RowResult, verdict: Verdict) -> list[float]:
    """What the floor would have measured at the bar: below this nobody comes."""
    floors = tuple(contender.name for contender in row.contenders if contender.family == "floor")
    if verdict.compared_with in floors or verdict.compared_with not in (each.name for each in row.contenders):
        return []
    lowest = cheapest(row, result, floors)
    runs = clean_runs(result, row.load.name, lowest) if lowest else []
    others = clean_runs(result, row.load.name, verdict.compared_with)
    bar = next(bar for bar in row.bars if bar.sentence == verdict.bar)
    return [value_of(run, bar) / value_of(other, bar) for run, other in zip(runs, others, strict=True)] if runs and others else []


def value_of(run: Run, bar: Bar) -> float:
    return run.requests_per_s if bar.throughput else run.cpu_us


def clean_runs(result: RowResult, load: str, contender: str) -> list[Run]:
    """All of them, or none if a request failed in any."""
    runs = [run for run in result.runs if (run.load, run.contender) == (load, contender)]
    return [] if any(run.failures for run in runs) else runs


def cheapest(row: Row, result: RowResult, names: tuple[str, ...]) -> str | None:
    costs = {name: cost for name in names if (cost := median_cpu_us(result, row.load.name, name)) is not None}
    return min(costs, key=costs.__getitem__, default=None)


def median_cpu_us(result: RowResult, load: str, contender: str) -> float | None:
    runs = clean_runs(result, load, contender)
    return statistics.median(run.cpu_us for run in runs) if runs else None


def bottleneck(runs: list[Run]) -> str:
    """Who had no CPU time to spare. Where strangers took some, nobody can tell."""
    if statistics.median(run.others_busy for run in runs) >= DISTURBED_SHARE:
        return "disturbed"
    server_busy = statistics.median(run.server_busy for run in runs) >= BUSY_SHARE
    client_busy = statistics.median(run.client_busy for run in runs) >= BUSY_SHARE
    return {
        (True, True): "both",
        (True, False): "server",
        (False, True): "client",
        (False, False): "neither",
    }[server_busy, client_busy]
