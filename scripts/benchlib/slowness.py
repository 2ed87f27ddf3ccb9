"""What slow clients are told in scripts/slow, and what normal ones beside them may have to wait."""

import dataclasses
import statistics

from .claims import Held
from .latency import Latency
from .report import NONE, header, line

CONNECTIONS = 400

# A server that one slow client can stop makes others wait for seconds; one that is only busier makes
# them wait a little longer. Ten times as long as before is between the two, and so is 50 ms where
# that is more: a few turns of a CPU that is shared.
TIMES_MAX = 10
ALLOWED_MS = 50


@dataclasses.dataclass(frozen=True)
class Mode:
    title: str
    options: tuple[str, ...]
    holds: bool = True  # its connections until it ends; else they are answered and over


MODES = (
    # A field a second, and never the last.
    Mode("slow heads (-H)", ("-H", "-i", "1")),
    # 4,096 bytes of a body, of which a few come each second.
    Mode("slow bodies (-B)", ("-B", "-i", "1")),
    # More than a thousand ranges in one head. By default it asks with HEAD, for which ranges mean nothing.
    Mode("many ranges (-R)", ("-R", "-t", "GET"), holds=False),
    # Three requests for 1 MiB at once, of which 32 bytes a second are read, with a small window.
    Mode("slow readers (-X)", ("-X", "-k", "3", "-n", "1", "-w", "512", "-y", "1024", "-z", "32")),
)


@dataclasses.dataclass(frozen=True)
class Round:
    mode: str
    number: int
    before: Latency
    during: Latency
    busy: float  # share of its CPU that tared took during
    claim: Held


def broken(rounds: list[Round]) -> list[str]:
    """One sentence for each thing that is not as it should be."""
    troubles = []
    held = {mode.title: mode.holds for mode in MODES}
    for each in rounds:
        where = f"{each.mode}, round {each.number}"
        for when, latency in (("before", each.before), ("during", each.during)):
            if latency.failed:
                troubles.append(f"{where}: {latency.failed} normal requests failed {when}: {'; '.join(latency.causes)}")
            if not latency.requests:
                troubles.append(f"{where}: no normal request was answered {when}")
        if not each.claim.available:
            troubles.append(f"{where}: slowhttptest says that the service was not available")
        if held[each.mode] and each.claim.connected_max < CONNECTIONS:
            troubles.append(f"{where}: slowhttptest held {each.claim.connected_max} connections and not {CONNECTIONS}")
    return troubles + [trouble for of_mode in by_mode(rounds) if (trouble := too_long(of_mode))]


def too_long(of_mode: list[Round]) -> str | None:
    """By the medians: a stranger who takes a CPU for a second spoils one round."""
    before = [each.before.p99_ms for each in of_mode if each.before.requests]
    during = [each.during.p99_ms for each in of_mode if each.during.requests]
    if not before or not during:
        return None
    bound_ms, p99_ms = max(ALLOWED_MS, TIMES_MAX * statistics.median(before)), statistics.median(during)
    return f"{of_mode[0].mode}: p99 was {p99_ms:.1f} ms, and may be {bound_ms:.1f} ms" if p99_ms > bound_ms else None


def by_mode(rounds: list[Round]) -> list[list[Round]]:
    return [[each for each in rounds if each.mode == mode] for mode in dict.fromkeys(each.mode for each in rounds)]


def markdown(heading: dict[str, str], rounds: list[Round], commands: list[str], troubles: list[str]) -> str:
    lines = [f"# Normal clients beside {CONNECTIONS} slow ones", ""]
    lines += [f"- {name}: {value}" for name, value in heading.items()]
    lines += ["", conclusion(rounds, troubles), "", *table(rounds), "", NOTES, "", "### Commands", "", "```"]
    return "\n".join([*lines, *commands, "```"])


def conclusion(rounds: list[Round], troubles: list[str]) -> str:
    if troubles:
        return f"**Not as it should be: {'; '.join(troubles)}.**"
    requests = sum(each.during.requests for each in rounds)
    return (
        f"**Of {requests:,} normal requests beside slow clients none failed, and slowhttptest always found the service "
        "available.**"
    )


def table(rounds: list[Round]) -> list[str]:
    figures = ["p50 ms before", "during", "p99 ms before", "during", "max ms before", "during", "tared busy", "failed"]
    figures += ["held", "service available"]
    lines = header(["slow clients"], figures)
    for of_mode in by_mode(rounds):
        times = [
            median_of(getattr(getattr(each, when), f"{figure}_ms") for each in of_mode)
            for figure in ("p50", "p99", "max")
            for when in ("before", "during")
        ]
        busy = f"{statistics.median(each.busy for each in of_mode):.0%}"
        failed = f"{sum(each.before.failed + each.during.failed for each in of_mode):,}"
        held = f"{min(each.claim.connected_max for each in of_mode)}"
        available = "YES" if all(each.claim.available for each in of_mode) else "NO"
        lines.append(line([of_mode[0].mode, *times, busy, failed, held, available]))
    return lines


def median_of(values) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.2f}" if known else NONE


NOTES = (
    "Latency of normal requests counts from the moment at which each was due; medians of all rounds. `Held` is the most "
    "slow connections that were open at a time, in the round that had the fewest; those with many ranges are "
    "answered at once and end. A run fails if a normal request fails, or if the p99 during is more than "
    f"{TIMES_MAX} times that before, and more than {ALLOWED_MS} ms. slowhttptest shares its CPU with the normal "
    "clients, so that a part of the difference is theirs and not the server's."
)
