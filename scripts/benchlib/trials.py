"""One client against one server, or a chain of them, and what each of them spent."""

import dataclasses
import resource
import time

from .claims import Outcome
from .loads import Load, run_client
from .machine import Cpus, busy_s
from .process import Server, Spent, read_clocks, why_ended


@dataclasses.dataclass(frozen=True)
class Trial:
    outcome: Outcome
    elapsed_s: float = 0.0  # of the whole life of the client, by our clock
    spent: dict[str, Spent] = dataclasses.field(default_factory=dict)  # by server; none if one ended
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
    clocks_before = {server.name: read_clocks(server.process.pid) for server in servers}
    client_before_s = ended_children_cpu_s()
    # Nothing of ours between these: reading the clocks of a few dozen processes is
    # a disturbance of its own to a short run.
    busy_before_s, began_s = busy_s(cpus), time.monotonic()
    outcome = run_client(load, url, seconds, cpus.client)
    elapsed_s, meanwhile_s = time.monotonic() - began_s, busy_s(cpus) - busy_before_s
    client_cpu_s = ended_children_cpu_s() - client_before_s
    if ended := why_any_ended(servers):
        return Trial(outcome, elapsed_s, client_cpu_s=client_cpu_s, failures=[*outcome.failures, *ended])
    spent = {server.name: read_clocks(server.process.pid).since(clocks_before[server.name]) for server in servers}
    others_s = meanwhile_s - client_cpu_s - sum(each.total_s for each in spent.values())
    available_s = elapsed_s * len(cpus.server | cpus.client)
    failures = list(outcome.failures) if outcome.requests else [*outcome.failures, "no request was answered"]
    return Trial(outcome, elapsed_s, spent, client_cpu_s, max(0.0, others_s / available_s), failures)


def why_any_ended(servers: list[Server]) -> list[str]:
    return [sentence for server in servers for sentence in why_ended(server)]


def ended_children_cpu_s() -> float:
    """Of the children that were waited for: between two calls here, the client."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
