"""The clients: what they are told. What they then say happened is read by claims."""

import contextlib
import dataclasses
import pathlib
import select
import socket
import string
import subprocess
import urllib.parse
from collections.abc import Callable, Iterator

from . import claims
from .claims import Outcome
from .machine import pin_to
from .places import SETTINGS
from .tools import AB, AUTOCANNON, H2LOAD, HTTPERF, OHA, PYTHON, SIEGE, WRK, Tool

# Far above what is needed unless something is stuck.
CLIENT_GRACE_S = 60
# An answer that takes longer is a failure. 1 GiB takes most of a second.
ANSWER_BOUND_S = 10

# Above what it can keep up with: all connections are to be open at once.
HTTPERF_RATE_PER_S = 20_000

WRK_SCRIPT = pathlib.Path(__file__).with_name("wrk.lua")
ASKER = pathlib.Path(__file__).with_name("asker.py")


@dataclasses.dataclass(frozen=True)
class Load:
    name: str
    tool: Tool
    connections: int
    keeps_alive: bool = True
    pipelined: int = 1
    idle: int = 0  # connections that are open beside those and say nothing
    threads: int = 1
    requests: int = 0  # of those who count requests; wrk and autocannon count seconds
    gzip: bool = False  # asks for it
    fields: tuple[str, ...] = ()  # of each request, beside the client's own; of ab
    refused: bool = False  # each answer is to be a refusal; of ab
    settings: pathlib.Path | None = None  # of siege, which needs a file of them

    @property
    def speaks(self) -> str:
        return "HTTP/1.0" if self.tool is AB else "HTTP/1.1"


def run_client(load: Load, url: str, seconds: int, cpus: frozenset[int]) -> Outcome:
    client = CLIENTS[load.tool]
    argv = client.argv(load, url, seconds)
    bound_s = seconds + CLIENT_GRACE_S
    try:
        ended = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=bound_s,
            preexec_fn=pin_to(cpus),
        )
    except subprocess.TimeoutExpired:
        return Outcome(0, bound_s, [f"no end after {bound_s} s"], command=argv)
    if ended.returncode != 0:
        last_line = ended.stdout.strip().rpartition("\n")[2]
        return Outcome(0, 0.0, [f"ended with status {ended.returncode}: {last_line}"], command=argv)
    try:
        return dataclasses.replace(client.read(load, ended.stdout), command=argv)
    except (LookupError, ValueError, StopIteration):
        return Outcome(0, 0.0, [f"says what nobody here reads: {ended.stdout.strip()[-200:]!r}"], command=argv)


# ---- How each is told --------------------------------------------------------------


def ab_argv(load: Load, url: str, _seconds: int) -> list[str]:
    persistence = ["-k"] if load.keeps_alive else []
    fields = [word for field in load.fields for word in ("-H", field)]
    return [AB.path, *persistence, *fields, "-q", "-c", str(load.connections), "-n", str(load.requests), url]


def wrk_argv(load: Load, url: str, seconds: int) -> list[str]:
    told = [f"-t{load.threads}", f"-c{load.connections}", f"-d{seconds}", "--timeout", f"{ANSWER_BOUND_S}s"]
    persistence = [] if load.keeps_alive else ["-H", "Connection: close"]
    return [WRK.path, *told, *persistence, "-s", str(WRK_SCRIPT), url, "--", str(load.pipelined)]


def siege_argv(load: Load, url: str, _seconds: int) -> list[str]:
    """Each user makes as many requests as every other. What siege cannot be told
    here is in its settings, and it would put some of its own into the user's HOME."""
    told = ["-R", str(load.settings), "-c", str(load.connections), "-r", str(load.requests // load.connections)]
    return ["env", f"HOME={load.settings.parent}", SIEGE.path, *told, url]


def siege_settings(scratch: pathlib.Path, *, keeps_alive: bool, gzip: bool) -> pathlib.Path:
    connection, coding = "keep-alive" if keeps_alive else "close", "gzip" if gzip else "identity"
    template = string.Template((SETTINGS / "siege.rc").read_text())
    filled = scratch / f"siege-{connection}-{coding}.rc"
    filled.write_text(template.substitute(connection=connection, coding=coding))
    return filled


def httperf_argv(load: Load, url: str, _seconds: int) -> list[str]:
    """It opens connections at a rate, each of which makes its calls and closes. Fast
    enough for all of them to be open at once; without a rate, one after the other."""
    parts = urllib.parse.urlsplit(url)
    where = ["--hog", "--server", parts.hostname, "--port", str(parts.port), "--uri", parts.path]
    bound = ["--timeout", str(ANSWER_BOUND_S)]
    if load.keeps_alive:
        calls = load.requests // load.connections
        told = ["--num-conns", str(load.connections), "--num-calls", str(calls), "--rate", str(HTTPERF_RATE_PER_S)]
    else:
        told = ["--num-conns", str(load.requests), "--num-calls", "1"]
    return [HTTPERF.path, *where, *bound, *told]


def h2load_argv(load: Load, url: str, _seconds: int) -> list[str]:
    persistence = [] if load.keeps_alive else ["-H", "Connection: close"]
    return [H2LOAD.path, "--h1", "-n", str(load.requests), "-c", str(load.connections), *persistence, url]


def oha_argv(load: Load, url: str, _seconds: int) -> list[str]:
    persistence = [] if load.keeps_alive else ["--disable-keepalive"]
    told = ["--no-tui", "--output-format", "json", "-n", str(load.requests), "-c", str(load.connections)]
    return [OHA.path, *told, *persistence, url]


def autocannon_argv(load: Load, url: str, seconds: int) -> list[str]:
    """By time: it rounds what a number of requests took up to a whole second. Its own
    way of ending a connection after each request, -D 1, resets it before it has counted the answer."""
    persistence = [] if load.keeps_alive else ["-H", "Connection=close"]
    told = ["--json", "-c", str(load.connections), "-d", str(seconds), "-t", str(ANSWER_BOUND_S)]
    return [AUTOCANNON.path, *told, *persistence, url]


def asker_argv(load: Load, url: str, _seconds: int) -> list[str]:
    return [PYTHON.path, str(ASKER), str(load.connections), str(load.requests), url]


@dataclasses.dataclass(frozen=True)
class Client:
    argv: Callable[[Load, str, int], list[str]]
    read: Callable[[Load, str], Outcome]


CLIENTS = {
    AB: Client(ab_argv, lambda load, output: claims.read_ab(output, load.requests, load.keeps_alive, load.refused)),
    PYTHON: Client(asker_argv, lambda _load, output: claims.read_asker(output)),
    WRK: Client(wrk_argv, lambda _load, output: claims.read_wrk(output)),
    SIEGE: Client(siege_argv, lambda _load, output: claims.read_siege(output)),
    HTTPERF: Client(httperf_argv, lambda _load, output: claims.read_httperf(output)),
    H2LOAD: Client(h2load_argv, lambda _load, output: claims.read_h2load(output)),
    OHA: Client(oha_argv, lambda _load, output: claims.read_oha(output)),
    AUTOCANNON: Client(autocannon_argv, lambda _load, output: claims.read_autocannon(output)),
}


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
