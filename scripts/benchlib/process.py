"""How a server is started, watched, clocked and ended.

Every wait is bounded, and whatever is started here is ended here, by its pid,
when the `running` of its stage closes: after a failure and ^C, too.
"""

import contextlib
import ctypes
import dataclasses
import functools
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable

from .console import Refusal
from .machine import pin_to

START_BOUND_S = 30  # valgrind takes seconds, the others milliseconds
STOP_BOUND_S = 2
POLL_INTERVAL_S = 0.01
# Losing the race for a free port once is rare; three times is something else.
PORT_TRIES_MAX = 3


@dataclasses.dataclass(frozen=True)
class Server:
    name: str
    version: str
    process: subprocess.Popen  # the one that answers, or the parent of those that do
    log: pathlib.Path  # its stdout and stderr
    command: list[str]
    url: str
    report: pathlib.Path | None = None  # where it puts one when SIGUSR1 asks


@dataclasses.dataclass
class Stage:
    """What a server is started with; all of them are ended when `running` closes."""

    scratch: pathlib.Path
    running: contextlib.ExitStack
    cpus: frozenset[int]
    under: list[str] = dataclasses.field(default_factory=list)  # a program that runs the server, as valgrind does

    @property
    def documents(self) -> pathlib.Path:
        return self.scratch / "documents"

    def launch(
        self, argv: list, stdin: int | socket.socket = subprocess.DEVNULL
    ) -> tuple[subprocess.Popen, pathlib.Path]:
        descriptor, log = tempfile.mkstemp(suffix=".log", dir=self.scratch)
        with open(descriptor, "wb") as sink:
            process = subprocess.Popen(
                [*self.under, *argv],
                stdin=stdin,
                stdout=sink,
                stderr=subprocess.STDOUT,
                preexec_fn=pin_to(self.cpus),
            )
        self.running.callback(stop, process)
        return process, pathlib.Path(log)


def start_announcing(stage: Stage, name: str, argv: list, pattern: str) -> tuple[Server, re.Match]:
    """A server that takes port 0 and says which one it got: `pattern` finds its URL in `url`."""
    process, log = stage.launch(argv)
    line = wait_until_ready(name, process, log, lambda: re.search(pattern, log.read_text(), re.MULTILINE))
    return Server(name, "", process, log, [str(word) for word in argv], line["url"]), line


def start_on_free_port(stage: Stage, name: str, version: str, argv_for: Callable[[int], list], path: str) -> Server:
    """A server that has to be told its port."""
    for _ in range(PORT_TRIES_MAX):
        port = find_free_port()
        argv = argv_for(port)
        process, log = stage.launch(argv)
        try:
            wait_until_ready(name, process, log, functools.partial(listens_on, process.pid, port))
        except Refusal:
            if "in use" not in log.read_text():
                raise
            continue
        return Server(name, version, process, log, [str(word) for word in argv], f"http://127.0.0.1:{port}/{path}")
    raise Refusal(f"{name} lost the race for a free port {PORT_TRIES_MAX} times")


def find_free_port() -> int:
    """This one was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens_on(pid: int, port: int) -> bool:
    """Asks the kernel whose socket it is: a connection would also be fooled by a stranger's."""
    # local address, state 0A (listening), and the inode in the tenth column
    listening = rf"^ *\d+: [0-9A-F]+:{port:04X} \S+ 0A (?:\S+ +){{5}}(\d+)"
    inodes = re.findall(listening, pathlib.Path("/proc/net/tcp").read_text(), re.MULTILINE)
    sockets = {f"socket:[{inode}]" for inode in inodes}
    held = set()
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            held.add(os.readlink(descriptor))
    return bool(sockets & held)


def wait_until_ready(name: str, process: subprocess.Popen, log: pathlib.Path, ready: Callable):
    """Returns what `ready` finds, once it finds something."""
    deadline = time.monotonic() + START_BOUND_S
    while time.monotonic() < deadline:
        if found := ready():
            return found
        if process.poll() is not None:
            raise Refusal(f"{name} ended with status {process.returncode} at its start: {last_words(log)}")
        time.sleep(POLL_INTERVAL_S)
    raise Refusal(f"{name} was not ready after {START_BOUND_S} s: {last_words(log)}")


def why_ended(server: Server) -> list[str]:
    """Nothing while it runs."""
    if server.process.poll() is None:
        return []
    return [f"the server ended by itself with status {server.process.returncode}: {last_words(server.log)}"]


def last_words(log: pathlib.Path) -> str:
    return log.read_text(errors="replace").strip()[-500:] or "it said nothing"


def stop(process: subprocess.Popen) -> None:
    """Twice at most: by SIGTERM, and if that does not end it in time, by SIGKILL."""
    process.terminate()
    try:
        process.wait(STOP_BOUND_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_BOUND_S)


# ---- CPU time of a server, with all its threads and children -------------------


@dataclasses.dataclass(frozen=True)
class Spent:
    user_s: float
    sys_s: float
    sleeps: int  # times that a thread went to wait: 1 for each wake-up that found nothing more to do

    @property
    def total_s(self) -> float:
        return self.user_s + self.sys_s


@dataclasses.dataclass(frozen=True)
class Clocks:
    total_s: float
    user_ticks: int
    sys_ticks: int
    sleeps: int

    def since(self, before: "Clocks") -> Spent:
        """The sum by the clock that counts nanoseconds, shared out as the ticks say.

        The kernel does the same to fill in utime and stime, only in ticks of
        10 ms, of which a run of ab has a few dozen.
        """
        total_s = self.total_s - before.total_s
        user, system = self.user_ticks - before.user_ticks, self.sys_ticks - before.sys_ticks
        user_s = total_s * user / (user + system) if user + system else 0.0
        return Spent(user_s, total_s - user_s, self.sleeps - before.sleeps)


def read_clocks(pid: int) -> Clocks:
    """What a process, its threads (ended ones, too) and its children have used so far."""
    family = [pid, *descendants_of(pid)]
    ticks = [ticks_of(member) for member in family]
    return Clocks(
        total_s=sum(time.clock_gettime(cpu_clock_of(member)) for member in family),
        user_ticks=sum(user for user, _ in ticks),
        sys_ticks=sum(system for _, system in ticks),
        sleeps=sum(sleeps_of(member) for member in family),
    )


LIBC = ctypes.CDLL(None, use_errno=True)


def cpu_clock_of(pid: int) -> int:
    clock = ctypes.c_int()
    trouble = LIBC.clock_getcpuclockid(pid, ctypes.byref(clock))
    if trouble:
        raise Refusal(f"cannot find the CPU clock of process {pid}: {os.strerror(trouble)}")
    return clock.value


def ticks_of(pid: int) -> tuple[int, int]:
    fields = stat_fields(pid)
    return int(fields[11]), int(fields[12])


def sleeps_of(pid: int) -> int:
    """Of all of its threads; one that has ended is not worth a trouble."""
    sleeps = 0
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            sleeps += int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)$", status.read_text(), re.MULTILINE)[1])
    return sleeps


def descendants_of(pid: int) -> list[int]:
    children = [child for child, parent in parents().items() if parent == pid]
    return [member for child in children for member in (child, *descendants_of(child))]


def parents() -> dict[int, int]:
    """Every process and its parent; the kernel need not keep the list of children."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # ended since it was listed
            found[int(entry.name)] = int(stat_fields(int(entry.name))[1])
    return found


def stat_fields(pid: int) -> list[str]:
    """/proc/PID/stat from its third field on: the second, the name, may hold
    anything but ends with the last parenthesis."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
