"""Clients who ask at a steady rate, hold every answer to its document byte by byte, and clock it.

A load tool that sends a request when the last one is answered says little of a server that
stalls: each of its connections has one bad latency, and what was not asked meanwhile has none.
Here a request is due at its time whatever became of those before it, and its latency counts from
then. Nothing is asked twice: whatever is not answered in full, and rightly, is a failure.
"""

import collections
import dataclasses
import gc
import multiprocessing
import os
import re
import select
import signal
import socket
import time
from collections.abc import Sequence

from .console import Refusal
from .latency import Latency, summed

# An answer that takes longer is a failure.
ANSWER_BOUND_S = 10
# One request of so many is on a connection of its own, which ends with it.
ANEW_EVERY = 8
# select(2) takes descriptors below 1,024, but waits to the microsecond; epoll waits to the millisecond.
CONNECTIONS_MAX = 900
# Time between two looks for answers that are overdue.
LOOK_EVERY_S = 0.1
READ_BYTES = 256 * 1024
# For the process to answer to its orders, beyond what it waits for itself.
ORDER_BOUND_S = ANSWER_BOUND_S + 5


@dataclasses.dataclass(frozen=True)
class Page:
    path: str
    body: bytes

    def request(self, host: str, anew: bool) -> bytes:
        field = "Connection: close\r\n" if anew else ""
        return f"GET {self.path} HTTP/1.1\r\nHost: {host}\r\n{field}\r\n".encode()


@dataclasses.dataclass(frozen=True)
class Answer:
    is_whole: bool
    fault: str | None = None
    keeps: bool = True  # the connection


def judge(received: bytes, page: Page) -> Answer:
    """What has come so far. A length that is not the document's is wrong at once; a body is
    compared when all of it is there."""
    head, separator, body = received.partition(b"\r\n\r\n")
    if not separator:
        return Answer(False)
    lines = head.decode("latin-1").lower().split("\r\n")
    fields = dict(re.split(r":\s*", field, maxsplit=1) for field in lines[1:] if ":" in field)
    status = lines[0].partition(" ")[2][:3]
    if status != "200":
        return Answer(True, f"status {status}")
    if fields.get("content-length") != str(len(page.body)):
        return Answer(True, f"a length of {fields.get('content-length')} and not {len(page.body)}")
    if len(body) < len(page.body):
        return Answer(False)
    if body != page.body:
        return Answer(True, "another body")
    return Answer(True, keeps=fields.get("connection") != "close")


class Clients:
    """They ask from a process of their own, on CPUs of their own."""

    def __init__(self, address: tuple[str, int], pages: Sequence[Page], per_s: int, cpus: frozenset[int]):
        context = multiprocessing.get_context("fork")
        self.orders, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, address, pages, per_s, cpus), daemon=True)
        self.process.start()
        theirs.close()

    def begin(self, phase: str) -> None:
        """Requests due from now on count for this phase."""
        self.orders.send(phase)

    def end(self) -> dict[str, Latency]:
        """By phase, when the last answer is there."""
        self.orders.send(None)
        try:
            if not self.orders.poll(ORDER_BOUND_S):
                raise Refusal("the clients do not end")
            return self.orders.recv()
        except EOFError:
            raise Refusal("the clients have ended by themselves") from None
        finally:
            self.stop()

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def serve(orders, address: tuple[str, int], pages: Sequence[Page], per_s: int, cpus: frozenset[int]) -> None:
    # ^C is for the parent, who ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.sched_setaffinity(0, cpus)
    gc.disable()
    orders.send(Asking(address, pages, per_s).until_told(orders))


@dataclasses.dataclass(slots=True)
class Exchange:
    due_s: float
    phase: str
    page: Page
    anew: bool
    received: bytearray = dataclasses.field(default_factory=bytearray)


class Asking:
    def __init__(self, address: tuple[str, int], pages: Sequence[Page], per_s: int):
        self.address, self.pages, self.interval_s = address, pages, 1 / per_s
        self.idle: collections.deque[socket.socket] = collections.deque()  # the longest unused first
        self.busy: dict[socket.socket, Exchange] = {}
        self.waiting: collections.deque[Exchange] = collections.deque()  # for one of CONNECTIONS_MAX
        self.asked = 0
        self.latencies_s: dict[str, list[float]] = {}
        self.failures: dict[str, list[str]] = {}

    def until_told(self, orders) -> dict[str, Latency]:
        phase, due_s = None, time.monotonic()
        look_s = due_s
        end_s = None
        while end_s is None or (self.busy or self.waiting) and time.monotonic() < end_s:
            now = time.monotonic()
            if phase is None:
                due_s = now + self.interval_s
            while end_s is None and due_s <= now:
                self.ask(due_s, phase)
                due_s += self.interval_s
            if now >= look_s:
                self.give_up_overdue(now)
                look_s = now + LOOK_EVERY_S
            watched = [orders, *self.busy, *self.idle]
            until_s = min(due_s if phase is not None and end_s is None else look_s, look_s)
            ready, _, _ = select.select(watched, [], [], max(0.0, until_s - time.monotonic()))
            for each in ready:
                if each is not orders:
                    self.hear(each)
                    continue
                phase = orders.recv()
                if phase is None:
                    end_s = time.monotonic() + ANSWER_BOUND_S
                else:
                    self.latencies_s[phase], self.failures[phase] = [], []
        for exchange in (*self.busy.values(), *self.waiting):
            self.fail(exchange, "no answer")
        return {phase: summed(self.latencies_s[phase], self.failures[phase]) for phase in self.latencies_s}

    def ask(self, due_s: float, phase: str) -> None:
        page, anew = self.pages[self.asked % len(self.pages)], self.asked % ANEW_EVERY == 0
        self.asked += 1
        exchange = Exchange(due_s, phase, page, anew)
        self.waiting.append(exchange)
        self.send_next()

    def send_next(self) -> None:
        """What has waited the longest, unless every connection is busy."""
        if not self.waiting or len(self.busy) == CONNECTIONS_MAX:
            return
        exchange = self.waiting.popleft()
        if exchange.anew and len(self.busy) + len(self.idle) == CONNECTIONS_MAX:
            self.idle.popleft().close()
        try:
            if self.idle and not exchange.anew:
                connection = self.idle.popleft()
            else:
                connection = socket.create_connection(self.address, ANSWER_BOUND_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.setblocking(False)
            # So little always fits.
            connection.send(exchange.page.request(f"{self.address[0]}:{self.address[1]}", exchange.anew))
        except OSError as error:
            self.fail(exchange, f"asking: {error.strerror or error}")
            return
        self.busy[connection] = exchange

    def hear(self, connection: socket.socket) -> None:
        exchange = self.busy.get(connection)
        try:
            received = connection.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            received, cause = b"", error.strerror or str(error)
        else:
            cause = "the connection ended"
        if exchange is None:
            # Idle: its end is its owner's right, and nobody's failure.
            self.idle.remove(connection)
            connection.close()
            if received:
                raise AssertionError(f"an answer that nobody asked for: {received[:80]!r}")
            return
        exchange.received += received
        answer = judge(bytes(exchange.received), exchange.page)
        fault = answer.fault
        if not answer.is_whole:
            if received:
                return
            fault = f"{cause} after {len(exchange.received)} bytes of an answer"
        del self.busy[connection]
        if fault:
            self.fail(exchange, fault)
        else:
            self.latencies_s[exchange.phase].append(time.monotonic() - exchange.due_s)
        if fault or exchange.anew or not answer.keeps:
            connection.close()
        else:
            self.idle.append(connection)
        self.send_next()

    def give_up_overdue(self, now: float) -> None:
        for connection, exchange in list(self.busy.items()):
            if now - exchange.due_s > ANSWER_BOUND_S:
                del self.busy[connection]
                connection.close()
                self.fail(exchange, f"no answer within {ANSWER_BOUND_S} s")

    def fail(self, exchange: Exchange, cause: str) -> None:
        self.failures[exchange.phase].append(cause)
