"""One connection, as a client has it: what is sent, and the answers that come."""

import asyncio
import collections
import dataclasses
import re
import socket
import struct

PIECE_BYTES = 64 * 1024
STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*")
BODILESS = (204, 304)


class Unreadable(Exception):
    """What came is no answer."""


@dataclasses.dataclass
class Answer:
    status: int
    fields: dict[str, str]  # names in lower case
    body: bytes
    length: int | None  # as it is announced

    @property
    def missing(self) -> int:
        """Bytes of the body that did not come; there are none of HEAD."""
        return 0 if self.length is None else self.length - len(self.body)

    @property
    def closes(self) -> bool:
        return self.fields.get("connection", "").lower() == "close"


@dataclasses.dataclass
class Pace:
    """How slowly a body is read."""

    piece_bytes: int
    pause_s: float


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counts: collections.Counter):
        self.reader, self.writer, self.counts = reader, writer, counts
        self.was_answered = False

    @classmethod
    async def open(cls, port: int, counts: collections.Counter, receive_bytes: int | None = None) -> "Wire":
        endpoint = socket.socket()
        endpoint.setblocking(False)
        if receive_bytes is not None:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        try:
            await asyncio.get_running_loop().sock_connect(endpoint, ("127.0.0.1", port))
            reader, writer = await asyncio.open_connection(sock=endpoint)
        except BaseException:
            endpoint.close()
            raise
        counts["connected"] += 1
        return cls(reader, writer, counts)

    async def send(self, data: bytes) -> None:
        """What cannot be sent since the server has ended the connection shows in the answer."""
        self.counts["bytes sent"] += len(data)
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError:
            pass

    def end_input(self) -> None:
        try:
            self.writer.write_eof()
        except OSError:
            pass

    async def answer(self, is_head: bool = False, pace: Pace | None = None, most: int | None = None) -> Answer | None:
        """The next one, of whose body no more than `most` bytes are read; None if the connection ended first."""
        try:
            text = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as short:
            self.counts["bytes received"] += len(short.partial)
            if short.partial:
                raise Unreadable(f"a head that ends after {short.partial[-40:]!r}") from None
            return None
        except ConnectionError:
            return None
        except asyncio.LimitOverrunError:
            raise Unreadable("a head without an end") from None
        self.counts["bytes received"] += len(text)
        answer = parse_head(text)
        self.counts["answers"] += 1
        self.counts[f"{answer.status // 100}xx"] += 1
        if not self.was_answered:
            self.was_answered = True
            self.counts["connections answered"] += 1
        if is_head or answer.status in BODILESS:
            answer.length = None
        elif answer.length is None:
            raise Unreadable(f"a {answer.status} without Content-Length")
        else:
            answer.body = await self.body(answer.length if most is None else min(most, answer.length), pace)
        return answer

    async def body(self, length: int, pace: Pace | None) -> bytes:
        body = bytearray()
        while len(body) < length:
            try:
                wanted = min(length - len(body), pace.piece_bytes if pace else PIECE_BYTES)
                piece = await self.reader.read(wanted)
            except ConnectionError:
                break
            if not piece:
                break
            self.counts["bytes received"] += len(piece)
            body += piece
            if pace:
                await asyncio.sleep(pace.pause_s)
        return bytes(body)

    async def rest(self) -> bytes:
        """What comes until the server ends the connection."""
        try:
            rest = await self.reader.read(PIECE_BYTES)
        except ConnectionError:
            return b""
        self.counts["bytes received"] += len(rest)
        return rest

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        endpoint = self.writer.get_extra_info("socket")
        if endpoint is not None and endpoint.fileno() >= 0:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def parse_head(text: bytes) -> Answer:
    line, *lines = text.removesuffix(b"\r\n\r\n").split(b"\r\n")
    status = STATUS_LINE.fullmatch(line)
    pairs = [other.partition(b": ") for other in lines]
    if not status or not all(colon for _, colon, _ in pairs):
        raise Unreadable(f"a head that is {text[:80]!r}")
    fields = {name.decode("latin-1").lower(): value.decode("latin-1") for name, _, value in pairs}
    length = fields.get("content-length")
    if length is not None and not length.isdecimal():
        raise Unreadable(f"Content-Length {length!r}")
    return Answer(int(status[1]), fields, b"", None if length is None else int(length))
