"""One client against one server, or a chain of them, and what each of them spent."""

import dataclasses
import os
import resource
import time

from .claims import Outcome
from .console import Refusal
from .loads import Load, run_client
from .machine import Cpus, busy_s
from .process import Clocks, Server, Spent, read_clocks, why_ended
from .reports import Account, ask, disagreement

# Of our CPUs: above this, what strangers took is more than housekeeping.
DISTURBED_SHARE = 0.05


@dataclasses.dataclass(frozen=True)
class Trial:
    outcome: Outcome
    elapsed_s: float = 0.0  # of the whole life of the client, by our clock
    spent: dict[str, Spent] = dataclasses.field(default_factory=dict)  # by server; none if one ended or miscounts
    accounts: dict[str, Account] = dataclasses.field(default_factory=dict)  # by server, of those who give one
    clocks_s: dict[str, float] = dataclasses.field(default_factory=dict)  # by server, what the kernel says of its CPU
    client_cpu_s: float = 0.0
    others_busy: float = 0.0  # share of our CPUs that went to neither: above a few percent the machine was not ours
    failures: list[str] = dataclasses.field(default_factory=list)  # if any, the figures say nothing

    @property
    def server_cpu_s(self) -> float:
        return sum(spent.total_s for spent in self.spent.values())

    @property
    def server_busy(self) -> float:
        return self.server_cpu_s / self.elapsed_s

    @property
    def client_busy(self) -> float:
        return self.client_cpu_s / self.elapsed_s

    @property
    def client_cpu_us(self) -> float:
        return self.client_cpu_s * 1e6 / self.outcome.requests

    def cpu_us(self, server: str) -> float:
        return self.spent[server].total_s * 1e6 / self.outcome.requests


def attempt(load: Load, url: str, servers: list[Server], seconds: int, cpus: Cpus) -> Trial:
    """`servers` are all who are clocked; the client goes to `url`, which is of one of them."""
    if ended := why_any_ended(servers):
        return Trial(Outcome(0, 0.0, []), failures=ended)
    try:
        before = {server.name: read_mark(server) for server in servers}
    except Refusal as refusal:
        return Trial(Outcome(0, 0.0, []), failures=[str(refusal)])
    client_before_s = ended_children_cpu_s()
    # Nothing of ours between these: reading the clocks of a few dozen processes is
    # a disturbance of its own to a short run.
    busy_before_s, began_s = busy_s(cpus), time.monotonic()
    outcome = run_client(load, url, seconds, cpus.client)
    elapsed_s, meanwhile_s = time.monotonic() - began_s, busy_s(cpus) - busy_before_s
    client_cpu_s = ended_children_cpu_s() - client_before_s
    trial = Trial(outcome, elapsed_s, client_cpu_s=client_cpu_s)
    if ended := why_any_ended(servers):
        return dataclasses.replace(trial, failures=[*outcome.failures, *ended])
    try:
        after = {server.name: read_mark(server) for server in servers}
    except Refusal as refusal:
        return dataclasses.replace(trial, failures=[*outcome.failures, str(refusal)])
    stretches = {name: Stretch(before[name], after[name]) for name in before}
    if wrong := [f"{name}: {fault}" for name, stretch in stretches.items() if (fault := stretch.disagreement)]:
        return dataclasses.replace(trial, failures=[*outcome.failures, *wrong])
    clocks_s = {name: stretch.within.total_s for name, stretch in stretches.items()}
    others_s = meanwhile_s - client_cpu_s - sum(clocks_s.values())
    available_s = elapsed_s * len(cpus.server | cpus.client)
    return dataclasses.replace(
        trial,
        spent={name: stretch.spent for name, stretch in stretches.items()},
        accounts={name: account for name, stretch in stretches.items() if (account := stretch.account)},
        clocks_s=clocks_s,
        others_busy=max(0.0, others_s / available_s),
        failures=list(outcome.failures) if outcome.requests else [*outcome.failures, "no request was answered"],
    )


# ---- From one moment to another, by the kernel's clocks and by a server's own account ----


@dataclasses.dataclass(frozen=True)
class Mark:
    """A moment. A report takes some CPU time itself, so clocks are read before and behind it."""

    early: Clocks
    account: Account | None  # of servers that give one
    late: Clocks


def read_mark(server: Server) -> Mark:
    early = read_clocks(server.process.pid)
    if server.report is None:
        return Mark(early, None, early)
    account = ask(server)
    return Mark(early, account, read_clocks(server.process.pid))


@dataclasses.dataclass(frozen=True)
class Stretch:
    before: Mark
    after: Mark

    @property
    def within(self) -> Spent:
        """By the kernel's clocks, without what the reports took."""
        return self.after.early.since(self.before.late)

    @property
    def account(self) -> Account | None:
        return self.after.account.since(self.before.account) if self.before.account and self.after.account else None

    @property
    def spent(self) -> Spent:
        """As the server says, if it does. How often it slept only the kernel knows."""
        account, within = self.account, self.within
        return Spent(account.user_s, account.sys_s, within.sleeps) if account else within

    @property
    def disagreement(self) -> str | None:
        without = self.after.late.since(self.before.early)
        return disagreement(self.account.cpu_s, self.within.total_s, without.total_s) if self.account else None


def why_any_ended(servers: list[Server]) -> list[str]:
    return [sentence for server in servers for sentence in why_ended(server)]


def ended_children_cpu_s() -> float:
    """Of the children that were waited for: between two calls here, the client."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Watch:
    """What strangers take of our CPUs while this process is at work with those whom it starts."""

    def __init__(self, cpus: Cpus):
        self.cpus, self.began_s, self.before_s = cpus, time.monotonic(), strangers_cpu_s(cpus)

    def __str__(self) -> str:
        available_s = (time.monotonic() - self.began_s) * len(self.cpus.server | self.cpus.client)
        share = max(0.0, (strangers_cpu_s(self.cpus) - self.before_s) / available_s)
        return f"strangers took {share:.0%} of our CPUs" + ("" if share < DISTURBED_SHARE else ": not to be quoted")


def strangers_cpu_s(cpus: Cpus) -> float:
    return busy_s(cpus) - read_clocks(os.getpid()).total_s - ended_children_cpu_s()
