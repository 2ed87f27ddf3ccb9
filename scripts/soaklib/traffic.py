"""What clients do, well and badly, and a process full of them."""

import asyncio
import collections
import contextlib
import dataclasses
import random
import signal
import time
from multiprocessing.connection import Connection

from . import site
from .exchanges import HOST, Client, Exchange, Wrong, expect
from .wire import Pace, Unreadable, Wire

# Of one process. The quick ones ask and are answered, the slow ones wait for one thing or another.
QUICK_TASKS = 8
SLOW_TASKS = 32
# Between two doings of a quick task: this is about change under load, and not about speed.
PAUSE_MAX_S = 0.02
CROWD = 150
CROWD_EVERY_S = 5.0
CROWD_STAYS_S = 2.5

# Beyond every deadline that a server has set; an answer that takes longer is lost.
DOING_BOUND_S = 40.0
# What clients wait for a server's deadline at the most.
PATIENCE_MAX_S = 25.0
# A request whose connection ended before its answer began is asked again, where the connection was not new.
TRIES_MAX = 4
FAULTS_MAX = 20
REPORT_EVERY_S = 1.0


@dataclasses.dataclass(frozen=True)
class Target:
    """A server, as its clients know it."""

    port: int
    head_s: float
    body_s: float
    idle_s: float
    write_s: float


@dataclasses.dataclass
class Doings:
    """One process's clients of one server."""

    target: Target
    client: Client
    counts: collections.Counter
    faults: list[str]

    @property
    def rng(self) -> random.Random:
        return self.client.rng

    def fault(self, kind: str, sentence: str) -> None:
        self.counts[kind] += 1
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(f"{kind}: {sentence}")

    async def open(self, receive_bytes: int | None = None) -> Wire:
        return await Wire.open(self.target.port, self.counts, receive_bytes)

    # ---- What is done ----------------------------------------------------------------

    async def ask(self) -> None:
        """One request after the other."""
        wire = None
        for _ in range(self.rng.randint(1, 40)):
            wire = await self.exchange(wire, self.client.exchange())
        if wire:
            await self.leave(wire)

    async def pipeline(self) -> None:
        """Several at once."""
        wire = await self.open()
        batch = [self.client.exchange() for _ in range(self.rng.randint(2, 24))]
        self.counts["requests"] += len(batch)
        sending = asyncio.create_task(wire.send(b"".join(exchange.request for exchange in batch)))
        unanswered = collections.deque(batch)
        while unanswered:
            exchange = unanswered.popleft()
            answer = await wire.answer(exchange.is_head)
            if answer is None:
                # Only the first is certain to have been read before the connection ended.
                if exchange is batch[0]:
                    self.fault("lost", f"no answer to a pipelined {exchange.kind}")
                self.counts["asked again"] += 1
                unanswered.appendleft(exchange)
                break
            self.judge(exchange, answer)
            if answer.closes or answer.missing:
                break
        await sending
        wire.close()
        again = None
        for exchange in unanswered:
            again = await self.exchange(again, exchange)
        if again:
            again.close()

    async def ask_once(self) -> None:
        """A connection for one request, of which the server is told in one way or another."""
        exchange = self.client.exchange(self.rng.choice(["GET", "GET, cut in place", "range", "404"]))
        version, line = self.rng.choice([("1.1", "Connection: close\r\n"), ("1.0", ""), ("1.1", None)])
        request = exchange.request.replace(b"HTTP/1.1\r\n", f"HTTP/{version}\r\n{line or ''}".encode(), 1)
        wire = await self.open()
        self.counts["requests"] += 1
        await wire.send(request)
        if line is None:
            wire.end_input()
        await self.last_answer(wire, exchange)

    async def abort(self) -> None:
        """Leaves in the midst of a response."""
        wire = await self.open()
        exchange = self.client.get("GET", self.rng.choice([*site.replaced("large"), *site.replaced("huge")]))
        self.counts["requests"] += 1
        await wire.send(exchange.request)
        if self.rng.random() < 0.8:
            await wire.answer(most=self.rng.choice([0, 1, 100_000, 1_000_000]))
        self.leave_somehow(wire)

    async def read_slowly(self) -> None:
        """All of a large file, at some megabytes a second through a small window. Much less would not do where the
        server's patience is short: the kernel tells it that there is room again when a third of all its buffer is
        free, which is a megabyte."""
        kind = self.rng.choice(["huge", "huge", "large", "cut"])
        if kind == "cut":
            exchange = self.client.get_cut("GET, cut in place")
        else:
            exchange = self.client.get("GET", self.rng.choice(site.replaced(kind)))
        wire = await self.open(receive_bytes=32 * 1024)
        self.counts["requests"] += 1
        await wire.send(exchange.request)
        await self.last_answer(wire, exchange, Pace(64 * 1024, self.rng.choice([0.01, 0.03])))

    async def vanish(self) -> None:
        """Asks for much and takes nothing, until the server has had enough."""
        wire = await self.open(receive_bytes=8 * 1024)
        self.counts["requests"] += 1
        await wire.send(self.client.get("GET", self.rng.choice(site.replaced("huge"))).request)
        await asyncio.sleep(self.patience_s(self.target.write_s))
        self.leave_somehow(wire)

    async def stay_silent(self) -> None:
        wire = await self.open()
        with contextlib.suppress(asyncio.TimeoutError):
            if rest := await asyncio.wait_for(wire.rest(), self.patience_s(self.target.idle_s)):
                self.fault("wrong", f"{rest[:40]!r} to a client that said nothing")
        self.leave_somehow(wire)

    async def stop_in_head(self) -> None:
        request = self.client.get("GET").request
        wire = await self.open()
        self.counts["requests"] += 1
        await wire.send(request[: self.rng.randint(1, len(request) - 1)])
        await self.expect_last(wire, "a head that stops", 408)

    async def stop_in_body(self) -> None:
        wire = await self.open()
        self.counts["requests"] += 1
        await wire.send(self.client.head("POST", "r/small-00", "Content-Length: 1000") + b"x" * 400)
        if self.target.body_s > PATIENCE_MAX_S:
            await asyncio.sleep(self.patience_s(self.target.body_s))
            self.leave_somehow(wire)
        else:
            await self.expect_last(wire, "a body that stops", 408)

    async def drip(self) -> None:
        """A head in small pieces, within the time for it."""
        exchange = self.client.get("GET")
        wire = await self.open()
        self.counts["requests"] += 1
        for at in range(0, len(exchange.request), 4):
            await wire.send(exchange.request[at : at + 4])
            await asyncio.sleep(0.01)
        wire.end_input()
        await self.last_answer(wire, exchange)

    async def expect_continue(self) -> None:
        """Waits for leave to send a body, which is not given."""
        wire = await self.open()
        self.counts["requests"] += 1
        lines = ["Content-Length: 100000", "Expect: 100-continue"]
        await wire.send(self.client.head("POST", "r/small-00", *lines))
        await self.expect_last(wire, "Expect: 100-continue", 405)

    async def send_too_much(self) -> None:
        """A body that is too large to be skipped."""
        wire = await self.open()
        self.counts["requests"] += 1
        await wire.send(self.client.head("POST", "r/small-00", "Content-Length: 20000000") + b"x" * 300_000)
        await self.expect_last(wire, "a body that is too large", 405, 413)

    async def break_grammar(self) -> None:
        statuses, request = self.rng.choice(MALFORMED)
        wire = await self.open()
        self.counts["requests"] += 1
        await wire.send(request)
        await self.expect_last(wire, f"{request[:40]!r}", *statuses)

    async def crowd(self) -> None:
        """Many connections at once that ask for one thing and then for nothing."""
        wires: list[Wire] = []
        try:
            for _ in range(CROWD):
                wire = await self.open()
                wires.append(wire)
                self.counts["requests"] += 1
                exchange = self.client.get("GET", self.rng.choice(site.replaced("small")))
                await wire.send(exchange.request)
                answer = await wire.answer()
                if answer is None:
                    self.fault("lost", "no answer to a new connection of a crowd")
                else:
                    self.judge(exchange, answer)
            await asyncio.sleep(CROWD_STAYS_S)
        finally:
            for wire in wires:
                self.leave_somehow(wire)

    # ---- Parts of it -------------------------------------------------------------------

    async def exchange(self, wire: Wire | None, exchange: Exchange) -> Wire | None:
        """Asks on this connection or a new one; returns it, if it is still good."""
        for _ in range(TRIES_MAX):
            is_new = wire is None
            wire = wire or await self.open()
            self.counts["requests"] += 1
            await wire.send(exchange.request)
            answer = await wire.answer(exchange.is_head)
            if answer is not None:
                self.judge(exchange, answer)
                if not answer.closes and not answer.missing:
                    return wire
                await self.leave(wire)
                return None
            wire.close()
            if is_new:
                break
            # It was closed for room, or in silence, while the request was on its way.
            wire = None
            self.counts["asked again"] += 1
        self.fault("lost", f"no answer to {exchange.kind} on a new connection")
        return None

    def judge(self, exchange: Exchange, answer) -> None:
        self.counts[f"asked: {exchange.kind}"] += 1
        if answer.missing:
            if exchange.may_be_short:
                self.counts["short"] += 1
            else:
                missing = f"{answer.missing} of {answer.length} bytes of {exchange.request[:40]!r} are missing"
                self.fault("lost", missing)
        try:
            exchange.judge(answer)
        except Wrong as wrong:
            self.fault("wrong", f"{wrong} ({exchange.kind}, {exchange.request.partition(HOST[:4].encode())[0]!r})")

    async def last_answer(self, wire: Wire, exchange: Exchange, pace: Pace | None = None) -> None:
        """Then the server is to end the connection, and to say nothing more."""
        answer = await wire.answer(exchange.is_head, pace)
        if answer is None:
            self.fault("lost", f"no answer to {exchange.kind} on a new connection")
        else:
            self.judge(exchange, answer)
            if answer.closes:
                await self.leave(wire)
        wire.close()

    async def expect_last(self, wire: Wire, what: str, *statuses: int) -> None:
        answer = await wire.answer()
        if answer is None:
            self.fault("lost", f"no answer to {what}")
        else:
            self.counts[f"refused: {answer.status}"] += 1
            try:
                expect(answer, *statuses)
            except Wrong as wrong:
                self.fault("wrong", f"{wrong} ({what})")
            if not answer.closes:
                self.fault("wrong", f"the connection is to go on behind {what}")
            await self.leave(wire)
        wire.close()

    async def leave(self, wire: Wire) -> None:
        """Nothing is to come that was not asked for."""
        wire.end_input()
        if rest := await wire.rest():
            self.fault("wrong", f"{rest[:40]!r} behind the last answer")
        wire.close()

    def patience_s(self, deadline_s: float) -> float:
        """Longer than the server's, where that is no minute; then the client is the first to lose it."""
        return deadline_s + 3 if deadline_s <= PATIENCE_MAX_S else 5

    def leave_somehow(self, wire: Wire) -> None:
        self.rng.choice([wire.close, wire.reset])()


CHUNKED = f"POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n".encode()
MALFORMED = [
    ((400,), b"nonsense\r\n\r\n"),
    ((400,), b"GET / HTTP/1.1\r\n\r\n"),
    ((400,), f"GET / HTTP/1.1\r\n{HOST}{HOST}\r\n".encode()),
    ((400,), f"GET / HTTP/1.1\r\n{HOST}Two words: x\r\n\r\n".encode()),
    ((400,), f"GET / HTTP/1.1\r\n{HOST}Content-Length: x\r\n\r\n".encode()),
    ((400,), CHUNKED + b"Content-Length: 3\r\n\r\n0\r\n\r\n"),
    ((400,), CHUNKED + b"\r\nx\r\n"),
    ((400,), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    ((414,), b"GET /" + b"a" * 20_000),
    ((431,), f"GET / HTTP/1.1\r\n{HOST}X: ".encode() + b"a" * 20_000),
    ((505,), f"GET / HTTP/2.0\r\n{HOST}\r\n".encode()),
]

QUICK = {"ask": 60, "pipeline": 20, "ask_once": 30, "abort": 6, "break_grammar": 4}
QUICK |= {"expect_continue": 2, "send_too_much": 1}
SLOW = {"read_slowly": 6, "vanish": 1, "stay_silent": 3, "stop_in_head": 3, "stop_in_body": 2, "drip": 3}


# ---- A process full of them --------------------------------------------------------------


def run(targets: list[Target], seed: int, number: int, until_s: float, report: Connection) -> None:
    """Of this process, until the monotonic clock says so; then what they are at is finished."""
    heed_none_but_the_parent()
    rng = random.Random(f"{seed} clients {number}")
    crews = []
    for target in targets:
        counts: collections.Counter = collections.Counter()
        crews.append(Doings(target, Client(seed, rng, counts), counts, []))
    asyncio.run(run_all(crews, rng, until_s, report))


def heed_none_but_the_parent() -> None:
    """Who ends us by SIGTERM, which nothing is to catch here; ^C is for it, too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


async def run_all(crews: list[Doings], rng: random.Random, until_s: float, report: Connection) -> None:
    async def work(doings_of: dict[str, int], pause_max_s: float) -> None:
        while time.monotonic() < until_s:
            await do(rng.choice(crews), rng.choices(list(doings_of), doings_of.values())[0])
            await asyncio.sleep(rng.uniform(0, pause_max_s))

    async def gather(crew: Doings) -> None:
        while time.monotonic() < until_s:
            await do(crew, "crowd")
            await asyncio.sleep(CROWD_EVERY_S - CROWD_STAYS_S)

    async def tell() -> None:
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            report.send([(dict(crew.counts), crew.faults) for crew in crews])

    telling = asyncio.create_task(tell())
    tasks = [work(QUICK, PAUSE_MAX_S) for _ in range(QUICK_TASKS)]
    tasks += [work(SLOW, 0.5) for _ in range(SLOW_TASKS)]
    tasks += [gather(crew) for crew in crews]
    await asyncio.gather(*tasks)
    telling.cancel()
    report.send([(dict(crew.counts), crew.faults) for crew in crews])
    report.send(None)


async def do(crew: Doings, name: str) -> None:
    """One doing, to its end; what goes wrong with it is a fault, and ends nobody else."""
    crew.counts[f"did: {name}"] += 1
    try:
        await asyncio.wait_for(getattr(crew, name)(), DOING_BOUND_S)
    except asyncio.TimeoutError:
        crew.fault("lost", f"{name} had not ended after {DOING_BOUND_S:.0f} s")
    except Unreadable as unreadable:
        crew.fault("wrong", f"{unreadable} ({name})")
    except OSError as error:
        crew.fault("lost", f"{name}: {error}")
