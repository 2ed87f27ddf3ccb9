"""What a server says of itself: asked in mid-run, read, and held to the kernel's clocks.

Only tared does: SIGUSR1 makes it write its report anew, whole or not at all, into the
file that it was started with. What it did in a run is the difference of two reports.
The verdict is the exception: it is of the server's whole life so far, in which silence
of more than a second does not count (src/usage.rs). So runs are kept that far apart,
and where a life held more traffic than the runs, its verdict is not theirs.

Being asked costs tared some 0.2 ms of CPU, which is in the difference: less than 0.1 %
of a run of 50,000 requests (AMD EPYC, 2026-11-30).
"""

import dataclasses
import json
import os
import pathlib
import signal
import time

from .console import Refusal
from .process import Server, last_words, why_ended

# It takes a millisecond or two; the bound is for a server that is stuck.
REPORT_BOUND_S = 5
POLL_INTERVAL_S = 0.001
# Whoever is asked again after this has been silent, as tared sees it. A tenth more than its second.
SILENCE_S = 1.1
CLOCKS_DIFFER = 0.03
# Of traffic that is no run: what is asked beforehand is some milliseconds of it.
STRAY_SHARE = 0.05


@dataclasses.dataclass(frozen=True)
class Account:
    """Since the server began, or since an earlier account."""

    requests: int
    cpu_s: float  # of all workers, and of nothing else
    user_s: float
    life_traffic_s: float  # always since it began, as is the verdict
    verdict: str

    @property
    def sys_s(self) -> float:
        return self.cpu_s - self.user_s

    def since(self, before: "Account") -> "Account":
        return dataclasses.replace(
            self,
            requests=self.requests - before.requests,
            cpu_s=self.cpu_s - before.cpu_s,
            user_s=self.user_s - before.user_s,
        )


def ask(server: Server) -> Account:
    """Returns when the report is there, and the thread that wrote it is gone: it takes
    CPU time that no request did."""
    pid, before = server.process.pid, identity(server.report)
    threads = threads_of(pid)
    server.process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + REPORT_BOUND_S
    while identity(server.report) == before or threads_of(pid) > threads:
        if ended := why_ended(server):
            raise Refusal("; ".join(ended))
        if time.monotonic() > deadline:
            raise Refusal(f"{server.name} gave no report within {REPORT_BOUND_S} s: {last_words(server.log)}")
        time.sleep(POLL_INTERVAL_S)
    return read(server.report.read_text())


def identity(path: pathlib.Path) -> tuple[int, int] | None:
    """Another one for each file that takes this name; None before there is one."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def threads_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def read(text: str) -> Account:
    report = json.loads(text)
    requests, cost = report["requests"]["total"], report["cost"]
    return Account(
        requests=requests,
        cpu_s=cost["cpu_seconds"],
        # Null before the first request; what the start took of it is next to nothing.
        user_s=(cost["cpu_user_us_per_request"] or 0.0) * requests / 1e6,
        life_traffic_s=report["window"]["traffic_seconds"],
        verdict=report["verdict"],
    )


def disagreement(own_s: float, least_s: float, most_s: float) -> str | None:
    """Between a server's own CPU time and the kernel's clocks, read within and without
    the two reports: those took some, and a server may be busy behind its client's end."""
    if least_s * (1 - CLOCKS_DIFFER) <= own_s <= most_s * (1 + CLOCKS_DIFFER):
        return None
    return (
        f"its own report says {own_s * 1e3:.1f} ms of CPU, the kernel's clocks {least_s * 1e3:.1f} to "
        f"{most_s * 1e3:.1f}: more than {CLOCKS_DIFFER:.0%} apart"
    )


def miscount(counted: int, answered: int) -> str | None:
    """It may have had requests on their way when the client stopped counting, but not fewer."""
    return f"{answered} answers to {counted} requests, as its own report says" if counted < answered else None


def verdict_on(life: Account, runs_s: float) -> str:
    """The server's own, if it is on runs that took so long, and on little else."""
    stray_s = life.life_traffic_s - runs_s
    if stray_s > runs_s * STRAY_SHARE:
        return (
            f"Its verdict is not on these runs alone: of {life.life_traffic_s:.1f} s of traffic {stray_s:.1f} s were "
            "before or between them."
        )
    return life.verdict
