"""A B A B, and the CPU time of it.

All servers of a row are up at once, and each round loads them one after the
other. Who waits costs nothing.
"""

import contextlib
import dataclasses
import pathlib
import time
import urllib.parse

from .console import Refusal, say
from .gate import check
from .loads import Load, crowd_of
from .machine import Cpus
from .process import Server, Stage, why_ended
from .reports import SILENCE_S, Account, miscount
from .rows import Row
from .trials import attempt


@dataclasses.dataclass(frozen=True)
class Run:
    """One client against one server, in one round."""

    row: str
    load: str
    contender: str
    round: int
    requests: float = 0.0  # of the row's unit: requests, or so many bytes; as the client says it, for all alike
    wall_s: float = 0.0
    elapsed_s: float = 0.0  # of the whole life of the client, by our clock
    user_s: float = 0.0
    sys_s: float = 0.0
    client_cpu_s: float = 0.0
    sleeps: int = 0  # of the server
    others_busy: float = 0.0  # share of our CPUs that went to neither: above a few percent the machine was not ours
    kept_alive: int | None = None  # requests, as the client says it
    answered: int = 0  # requests, as the client says it
    account: Account | None = None  # the server's own, of those who give one; user_s and sys_s are of it
    clocks_s: float = 0.0  # CPU of the server by the kernel's clocks
    failures: list[str] = dataclasses.field(default_factory=list)  # if any, the figures say nothing

    @property
    def user_us(self) -> float:
        return self.user_s * 1e6 / self.requests

    @property
    def sys_us(self) -> float:
        return self.sys_s * 1e6 / self.requests

    @property
    def cpu_us(self) -> float:
        return (self.user_s + self.sys_s) * 1e6 / self.requests

    @property
    def client_us(self) -> float:
        return self.client_cpu_s * 1e6 / self.requests

    @property
    def sleeps_per_request(self) -> float:
        return self.sleeps / self.requests

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.wall_s

    @property
    def server_busy(self) -> float:
        return (self.user_s + self.sys_s) / self.wall_s

    @property
    def client_busy(self) -> float:
        return self.client_cpu_s / self.wall_s


@dataclasses.dataclass(frozen=True)
class RowResult:
    row: str
    runs: list[Run]
    absent: dict[str, str]  # contender: why it was not measured
    versions: dict[str, str]  # contender: what it says it is
    commands: dict[str, list[str]]  # contender or load: how it was run


def measure_row(row: Row, contenders: list, scratch: pathlib.Path, cpus: Cpus, rounds: int, seconds: int) -> RowResult:
    cpus = cpus.shared if row.cpus_shared else cpus
    result = RowResult(row.id, [], {}, {}, {})
    with contextlib.ExitStack() as running:
        stage = Stage(scratch, running, cpus.server)
        servers = [server for contender in contenders if (server := take_in(row, contender, stage, result))]
        silent_since_s = {server.name: time.monotonic() for server in servers}
        for round_number in range(1, rounds + 1):
            for server in rotated(servers, round_number - 1):
                for load in filter(None, (row.alone, row.load)):
                    if server.report:
                        # Its verdict tells runs apart by the silence between them.
                        time.sleep(max(0.0, silent_since_s[server.name] + SILENCE_S - time.monotonic()))
                    run = measure(row, load, server, round_number, max(seconds, row.seconds_min), cpus, result)
                    silent_since_s[server.name] = time.monotonic()
                    result.runs.append(run)
                    outcome = "; ".join(run.failures) or f"{run.cpu_us:.2f} µs"
                    say(f"{row.id}, round {round_number} of {rounds}, {load.name}, {server.name}: {outcome}")
    return result


def rotated(servers: list[Server], by: int) -> list[Server]:
    """Everyone begins a round in turn, so that none is always the one after the pause."""
    start = by % len(servers) if servers else 0
    return servers[start:] + servers[:start]


def take_in(row: Row, contender, stage: Stage, result: RowResult) -> Server | None:
    """Starts and checks. Who fails in either is left out of the row, with the reason."""
    try:
        server = contender.start(stage, row.document)
        wrong = check(server, row.load, stage.documents / row.document.name)
    except Refusal as refusal:
        wrong = str(refusal)
    if wrong:
        say(f"{row.id}: {contender.name} is left out: {wrong}")
        result.absent[contender.name] = wrong
        return None
    result.versions[server.name] = server.version
    result.commands[server.name] = without_port(server.command, server)
    return server


def measure(
    row: Row, load: Load, server: Server, round_number: int, seconds: int, cpus: Cpus, result: RowResult
) -> Run:
    run = Run(row.id, load.name, server.name, round_number)
    if ended := why_ended(server):
        return dataclasses.replace(run, failures=ended)
    with crowd_of(load.idle, server.url) as what_failed_in_crowd:
        trial = attempt(load, server.url, [server], seconds, cpus)
        result.commands.setdefault(load.name, without_port(trial.outcome.command, server))
        failures = [*trial.failures, *what_failed_in_crowd()]
    if server.name not in trial.spent:
        return dataclasses.replace(run, failures=failures)
    spent, outcome, account = trial.spent[server.name], trial.outcome, trial.accounts.get(server.name)
    if account and (wrong := miscount(account.requests, outcome.requests)):
        failures.append(wrong)
    # Of 1 GiB, a part is as good a measure: the gate has seen the whole.
    requests = outcome.received_bytes / row.per_bytes if row.per_bytes else outcome.requests
    return dataclasses.replace(
        run,
        requests=requests,
        wall_s=outcome.wall_s,
        elapsed_s=trial.elapsed_s,
        user_s=spent.user_s,
        sys_s=spent.sys_s,
        client_cpu_s=trial.client_cpu_s,
        sleeps=spent.sleeps,
        others_busy=trial.others_busy,
        kept_alive=outcome.kept_alive,
        answered=outcome.requests,
        account=account,
        clocks_s=trial.clocks_s[server.name],
        failures=failures,
    )


def without_port(command: list[str], server: Server) -> list[str]:
    """The same for every start of a server, but for the port that it got."""
    port = str(urllib.parse.urlsplit(server.url).port)
    return [word.replace(port, "PORT") for word in command]
