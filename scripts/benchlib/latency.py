"""What a number of requests took, in a few figures. Nothing here is measured."""

import dataclasses
import math
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Latency:
    """Of the requests that fell due in one phase."""

    requests: int  # answered as they should be
    failed: int
    p50_ms: float | None = None  # of those answered; None if none was
    p99_ms: float | None = None
    max_ms: float | None = None
    causes: tuple[str, ...] = ()  # of failures, each once


def summed(latencies_s: Sequence[float], failures: Sequence[str]) -> Latency:
    causes = tuple(dict.fromkeys(failures))
    if not latencies_s:
        return Latency(0, len(failures), causes=causes)
    ordered = sorted(latencies_s)
    p50_ms, p99_ms, max_ms = (percentile(ordered, share) * 1e3 for share in (0.5, 0.99, 1.0))
    return Latency(len(ordered), len(failures), p50_ms, p99_ms, max_ms, causes)


def percentile(ordered: Sequence[float], share: float) -> float:
    """By nearest rank: the least value that is no less than `share` of all of them."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
