"""Each server's answer, checked once before it is measured: the cheapest correct
one is what is looked for, and an answer that is wrong is cheap.

Asks as the row's client will ask (ab speaks HTTP/1.0), and checks the status, the
length, every byte of the body, and that the connection is kept or ended as asked.
"""

import gzip
import pathlib
import re
import socket
import urllib.parse
import zlib

from .loads import Load
from .process import Server

GATE_BOUND_S = 20
END_BOUND_S = 3
CHUNK_BYTES = 1 << 20
HEAD_BYTES_MAX = 16384


class Wrong(Exception):
    """What is wrong with an answer."""


def check(server: Server, load: Load, expected: pathlib.Path) -> str | None:
    """What is wrong with the server for this load, if something is."""
    parts = urllib.parse.urlsplit(server.url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    asked = persistence_asked(load) + ("Accept-Encoding: gzip\r\n" if load.gzip else "")
    request = f"GET {target} {load.speaks}\r\nHost: {parts.netloc}\r\n{asked}\r\n".encode()
    try:
        with socket.create_connection((parts.hostname, parts.port), GATE_BOUND_S) as connection:
            stream = connection.makefile("rb")
            # Twice: the second is the one that shows that the connection was kept.
            for _ in range(2 if load.keeps_alive else 1):
                connection.sendall(request * load.pipelined)
                for _ in range(load.pipelined):
                    check_answer(stream, load, expected)
            if not load.keeps_alive:
                check_end(connection, stream)
    except (Wrong, OSError, EOFError, zlib.error) as error:
        return str(error)
    return None


def persistence_asked(load: Load) -> str:
    """Only where it differs from what that version does by itself."""
    if load.keeps_alive == (load.speaks == "HTTP/1.1"):
        return ""
    return "Connection: Keep-Alive\r\n" if load.keeps_alive else "Connection: close\r\n"


def check_end(connection: socket.socket, stream) -> None:
    connection.settimeout(END_BOUND_S)
    try:
        if stream.read(1):
            raise Wrong("bytes after the body")
    except TimeoutError:
        raise Wrong(f"does not close a connection that is not to be kept, within {END_BOUND_S} s") from None


def check_answer(stream, load: Load, expected: pathlib.Path) -> None:
    fields = read_head(stream)
    if "content-length" not in fields:
        raise Wrong("no Content-Length")
    if load.keeps_alive and load.speaks == "HTTP/1.0" and fields.get("connection", "").lower() != "keep-alive":
        raise Wrong("does not tell an HTTP/1.0 client that it keeps the connection")
    length = int(fields["content-length"])
    if fields.get("content-encoding", "identity") != ("gzip" if load.gzip else "identity"):
        raise Wrong(f"Content-Encoding is {fields.get('content-encoding', 'missing')}")
    if load.gzip:
        # No two libraries compress to the same bytes; what counts is what comes out.
        if gzip.decompress(stream.read(length)) != expected.read_bytes():
            raise Wrong("the body is not the document, compressed")
        return
    with open(expected, "rb") as body:
        size_bytes = expected.stat().st_size
        if length != size_bytes:
            raise Wrong(f"Content-Length is {length}, the document has {size_bytes} bytes")
        while chunk := body.read(CHUNK_BYTES):
            if stream.read(len(chunk)) != chunk:
                raise Wrong("the body is not the document")


def read_head(stream) -> dict[str, str]:
    status = stream.readline(HEAD_BYTES_MAX).decode("latin-1").strip()
    if not re.match(r"HTTP/1\.[01] 200( |$)", status):
        raise Wrong(f"answers with {status!r}" if status else "closes instead of answering")
    fields = {}
    while line := stream.readline(HEAD_BYTES_MAX).decode("latin-1").strip():
        name, _, value = line.partition(":")
        fields[name.lower()] = value.strip()
    return fields
