"""The clients: what they are told, and what they say happened."""

import contextlib
import dataclasses
import pathlib
import re
import select
import socket
import subprocess
import urllib.parse
from collections.abc import Callable, Iterator

from .machine import pin_to
from .tools import AB, WRK, Tool

# Far above what is needed unless something is stuck.
CLIENT_GRACE_S = 60
# An answer that takes longer is a failure. 1 GiB takes most of a second.
ANSWER_BOUND_S = 10

WRK_SCRIPT = pathlib.Path(__file__).with_name("wrk.lua")


@dataclasses.dataclass(frozen=True)
class Load:
    name: str
    tool: Tool
    connections: int
    keeps_alive: bool = True
    pipelined: int = 1
    idle: int = 0  # connections that are open beside those and say nothing
    threads: int = 1
    requests: int = 0  # of ab, which counts requests; wrk counts seconds

    @property
    def speaks(self) -> str:
        return "HTTP/1.0" if self.tool is AB else "HTTP/1.1"


@dataclasses.dataclass(frozen=True)
class Outcome:
    command: list[str]
    requests: int
    received_bytes: int  # heads and bodies
    wall_s: float
    failures: list[str]


def run_client(load: Load, url: str, seconds: int, cpus: frozenset[int]) -> Outcome:
    argv = wrk_argv(load, url, seconds) if load.tool is WRK else ab_argv(load, url)
    bound_s = seconds + CLIENT_GRACE_S
    try:
        ended = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=bound_s,
            preexec_fn=pin_to(cpus),
        )
    except subprocess.TimeoutExpired:
        return Outcome(argv, 0, 0, bound_s, [f"no end after {bound_s} s"])
    if ended.returncode != 0:
        last_line = ended.stdout.strip().rpartition("\n")[2]
        return Outcome(argv, 0, 0, 0.0, [f"ended with status {ended.returncode}: {last_line}"])
    return read_wrk(argv, ended.stdout) if load.tool is WRK else read_ab(argv, load, ended.stdout)


def wrk_argv(load: Load, url: str, seconds: int) -> list[str]:
    told = [f"-t{load.threads}", f"-c{load.connections}", f"-d{seconds}", "--timeout", f"{ANSWER_BOUND_S}s"]
    return [WRK.path, *told, "-s", str(WRK_SCRIPT), url, "--", str(load.pipelined)]


def read_wrk(argv: list[str], output: str) -> Outcome:
    figures = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", output)}
    failures = [
        f"{kind} errors: {figures[kind]}" for kind in ("connect", "read", "write", "status", "timeout") if figures[kind]
    ]
    return Outcome(argv, figures["requests"], figures["bytes"], figures["duration_us"] / 1e6, failures)


def ab_argv(load: Load, url: str) -> list[str]:
    persistence = ["-k"] if load.keeps_alive else []
    return [AB.path, *persistence, "-q", "-c", str(load.connections), "-n", str(load.requests), url]


def read_ab(argv: list[str], load: Load, output: str) -> Outcome:
    failures = [
        f"{label}: {count}"
        for label in ("Failed requests", "Write errors", "Non-2xx responses")
        if (count := number(rf"{label}: +(\d+)", output))
    ]
    # A server that does not do keep-alive for HTTP/1.0, which is what ab speaks,
    # answers every request and is another benchmark.
    for label in ("Complete requests", *(["Keep-Alive requests"] if load.keeps_alive else [])):
        if (count := number(rf"{label}: +(\d+)", output)) != load.requests:
            failures.append(f"{label}: {count} of {load.requests}")
    taken = re.search(r"Time taken for tests: +([\d.]+)", output)
    return Outcome(
        argv,
        number(r"Complete requests: +(\d+)", output),
        number(r"Total transferred: +(\d+)", output),
        float(taken[1]) if taken else 0.0,
        failures,
    )


def number(pattern: str, output: str) -> int:
    """The number on a line that may not be there, which means 0."""
    found = re.search(pattern, output)
    return int(found[1]) if found else 0


# ---- A crowd: open connections that had an answer, and ask for nothing more --------

# From 127.0.0.2 on, 1,000 each, so that no address runs out of ports even while
# those of an earlier crowd are still in TIME_WAIT.
CROWD_ADDRESS_FIRST = 2
CONNECTIONS_PER_ADDRESS = 1000


class Crowd:
    """Every connection has made one request, so that the server has taken it up
    and holds what it holds between two requests."""

    def __init__(self, url: str):
        parts = urllib.parse.urlsplit(url)
        self.server = (parts.hostname, parts.port)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        self.request = f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
        self.connections: list[socket.socket] = []

    def grow(self, to: int) -> None:
        while len(self.connections) < to:
            address = CROWD_ADDRESS_FIRST + len(self.connections) // CONNECTIONS_PER_ADDRESS
            connection = socket.create_connection(self.server, ANSWER_BOUND_S, (f"127.0.0.{address}", 0))
            self.connections.append(connection)
            connection.sendall(self.request)
            answer = connection.recv(4096)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise ConnectionError(f"connection {len(self.connections)} got {answer[:40]!r}")

    def ended(self) -> int:
        """How many the server has closed, or has more to say to: none is to."""
        poll = select.poll()
        for connection in self.connections:
            poll.register(connection, select.POLLIN | select.POLLRDHUP)
        return len(poll.poll(0))

    def disperse(self) -> None:
        for connection in self.connections:
            connection.close()


@contextlib.contextmanager
def crowd_of(count: int, url: str) -> Iterator[Callable[[], list[str]]]:
    """Yields what is to be asked afterwards: which of them failed."""
    crowd = Crowd(url)
    trouble: list[str] = []
    try:
        try:
            crowd.grow(count)
        except OSError as error:
            trouble.append(f"of {count} idle connections, {len(crowd.connections)} could be opened: {error}")
        yield lambda: trouble + ([f"idle connections ended: {ended}"] if (ended := crowd.ended()) else [])
    finally:
        crowd.disperse()
