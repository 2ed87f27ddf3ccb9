"""Which CPU is whose, how many descriptors there may be, and what machine this is."""

import dataclasses
import datetime
import os
import pathlib
import platform
import re
import resource
from collections.abc import Callable

from .console import Refusal

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Cpus:
    server: frozenset[int]
    client: frozenset[int]
    one_core: bool  # hyperthreads of the same core, for want of a second one

    @property
    def shared(self) -> "Cpus":
        """Two of them for everybody: where what is asked is what two cores do."""
        both = self.server | self.client
        return Cpus(both, both, self.one_core)


def choose_cpus() -> Cpus:
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise Refusal("needs two CPUs, one for the server and one for the client, and may use only one")
    server, *others = allowed
    siblings = hyperthreads_of_core(server)
    apart = [cpu for cpu in others if cpu not in siblings]
    return Cpus(frozenset({server}), frozenset({(apart or others)[0]}), one_core=not apart)


def hyperthreads_of_core(cpu: int) -> set[int]:
    """Reads a list such as `0,8` or `0-1`. Where the kernel keeps none, every CPU is a core."""
    listed = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    if not listed.exists():
        return {cpu}
    siblings: set[int] = set()
    for span in listed.read_text().strip().split(","):
        first, _, last = span.partition("-")
        siblings.update(range(int(first), int(last or first) + 1))
    return siblings


def pin_to(cpus: frozenset[int]) -> Callable[[], None]:
    """For preexec_fn: pins the child before its program begins."""
    return lambda: os.sched_setaffinity(0, cpus)


def raise_descriptors_max() -> int:
    """As many as the system lets us have, for us and everybody whom we start."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def busy_s(cpus: Cpus) -> float:
    """CPU time spent so far on our CPUs, by anybody, and by the hypervisor on others."""
    ours = {f"cpu{cpu}" for cpu in cpus.server | cpus.client}
    lines = [line.split() for line in pathlib.Path("/proc/stat").read_text().splitlines()]
    return sum(busy_ticks(line) for line in lines if line[0] in ours) / TICKS_PER_S


def busy_ticks(line: list[str]) -> int:
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, line[1:9])
    return user + nice + system + irq + softirq + steal


def describe(cpus: Cpus) -> dict[str, str]:
    sharing = " (hyperthreads of one core!)" if cpus.one_core else ""
    placing = f"server on CPU {min(cpus.server)}, client on CPU {min(cpus.client)}{sharing}"
    return {
        "machine": f"{cpu_model()}, {os.cpu_count()} CPUs; {placing}",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}, {congestion_control()}",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def congestion_control() -> str:
    """What TCP paces itself by: on loopback it decides what a file of a megabyte costs."""
    return pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()


def cpu_model() -> str:
    found = re.search(r"^model name\s*: (.+)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else "CPU of unknown model"
