"""What clients saw in each phase of scripts/cluster, in a table, and whether it is as it should be."""

import dataclasses

from .latency import Latency
from .report import NONE, header, line, significant


@dataclasses.dataclass(frozen=True)
class Phase:
    title: str
    latency: Latency
    seconds: float
    answers: dict[str, int]  # by server, as HAProxy counts them, its checks apart
    sent_again: int
    haproxy_s: float  # of CPU
    servers_s: float | None  # of all of them; None where one ended, and what it spent with it
    note: str  # what HAProxy noticed

    @property
    def haproxy_us(self) -> float | None:
        return self.haproxy_s * 1e6 / self.latency.requests if self.latency.requests else None

    @property
    def servers_us(self) -> float | None:
        if self.servers_s is None or not self.latency.requests:
            return None
        return self.servers_s * 1e6 / self.latency.requests

    def share(self, server: str) -> float:
        return self.answers[server] / max(1, sum(self.answers.values()))


@dataclasses.dataclass(frozen=True)
class Run:
    name: str
    load: str
    phases: list[Phase]

    @property
    def failed(self) -> int:
        return sum(phase.latency.failed for phase in self.phases)

    @property
    def requests(self) -> int:
        return sum(phase.latency.requests for phase in self.phases)


CONTROL = "control"


def broken(runs: list[Run]) -> list[str]:
    """One sentence for each thing that is not as it should be."""
    troubles = []
    for run in runs:
        for phase in run.phases:
            due = run.name == CONTROL and phase.note != ""
            failed, causes = phase.latency.failed, "; ".join(phase.latency.causes)
            if due and not failed:
                unproved = "no request failed, though none was sent again: nothing is proved"
                troubles.append(f"{run.name}, {phase.title}: {unproved}")
            if failed and not due:
                troubles.append(f"{run.name}, {phase.title}: {failed} requests failed: {causes}")
            if not phase.latency.requests:
                troubles.append(f"{run.name}, {phase.title}: nothing was answered")
            if unused := [server for server in phase.answers if not phase.note and not phase.answers[server]]:
                troubles.append(f"{run.name}, {phase.title}: {', '.join(unused)} had no request")
    return troubles


def markdown(heading: dict[str, str], runs: list[Run], commands: list[str], troubles: list[str]) -> str:
    lines = ["# Three tared behind HAProxy", ""]
    lines += [f"- {name}: {value}" for name, value in heading.items()]
    lines += ["", conclusion(runs, troubles)]
    for run in runs:
        lines += ["", f"## {run.name}: {run.load}", "", *table(run)]
    lines += ["", NOTES, "", "### Commands", "", "```", *commands, "```"]
    return "\n".join(lines)


def conclusion(runs: list[Run], troubles: list[str]) -> str:
    if troubles:
        return f"**Not as it should be: {'; '.join(troubles)}.**"
    counted = [run for run in runs if run.name != CONTROL]
    requests = sum(run.requests for run in counted)
    control = sum(run.failed for run in runs if run.name == CONTROL)
    return (
        f"**Of {requests:,} requests none failed while one server was stopped, one killed, one restarted, and one "
        f"hung. Without retries, killing one cost {control:,} requests.**"
    )


def table(run: Run) -> list[str]:
    servers = list(run.phases[0].answers)
    figures = ["requests/s", "failed", "p50 ms", "p99 ms", "max ms", *servers]
    figures += ["sent again", "HAProxy µs", "tared µs"]
    lines = header(["phase"], figures)
    # What HAProxy noticed is text, and stands last.
    lines = [f"{lines[0]} HAProxy saw |", f"{lines[1]} --- |"]
    for phase in run.phases:
        latency = phase.latency
        times = [NONE if ms is None else f"{ms:.2f}" for ms in (latency.p50_ms, latency.p99_ms, latency.max_ms)]
        costs = [NONE if us is None else significant(us) for us in (phase.haproxy_us, phase.servers_us)]
        shares = [f"{phase.share(server):.0%}" for server in servers]
        per_s = f"{latency.requests / phase.seconds:,.0f}"
        failed = f"{latency.failed:,}"
        lines.append(line([phase.title, per_s, failed, *times, *shares, f"{phase.sent_again:,}", *costs, phase.note or NONE]))
    return lines


NOTES = (
    "Latency of the steady load counts from the moment at which a request was due, so that whoever had to wait is "
    "counted whether or not it could ask. `a`, `b` and `c` are the share of the answers that each server gave. "
    "`Sent again` is how often HAProxy had to ask another server for what the first did not answer. wrk adds to its "
    "latencies those of the requests that it did not send while it waited. "
    "CPU is of one request, user and system; the servers' is that of all three, and is not known where one "
    "of them ended. `HAProxy saw` is when its checks noticed. `c` is restarted without a gap: its successor has "
    "the same listening socket before it is told to end. A response of which a part has left when its server is "
    "killed cannot be saved by anybody in front; these are sent in one piece."
)
