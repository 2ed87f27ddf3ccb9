"""A client for what no load tool can be pointed at: unix sockets. Over TCP as well, to be compared.

    asker.py CONNECTIONS REQUESTS URL      URL is http://… or unix:/PATH#TARGET

All connections ask, then all are read, so that the server has as many requests at once as
ab -k gives it. Every answer is to be as long as the first one, and to begin as it does.
"""

import socket
import sys
import time
import urllib.parse

ANSWER_BOUND_S = 10
HEAD_BYTES = 16384
ALIKE_BYTES = 15  # HTTP/1.1 200 OK


def main(connections: int, requests: int, url: str) -> None:
    request = f"GET {target_of(url)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    began_s = time.monotonic()
    opened = [connect(url) for _ in range(connections)]
    first, received = b"", 0
    left = requests
    while left:
        asking = opened[:left]
        for connection in asking:
            connection.sendall(request)
        for connection in asking:
            answer = connection.recv(len(first), socket.MSG_WAITALL) if first else read_first(connection)
            first = first or answer
            if len(answer) != len(first) or answer[:ALIKE_BYTES] != first[:ALIKE_BYTES]:
                sys.exit(f"another answer: {answer[:40]!r}")
            received += len(answer)
        left -= len(asking)
    took_us = int((time.monotonic() - began_s) * 1e6)
    print(f"requests={requests} bytes={received} duration_us={took_us}")


def target_of(url: str) -> str:
    return "/" + url.rpartition("#")[2] if url.startswith("unix:") else urllib.parse.urlsplit(url).path


def connect(url: str) -> socket.socket:
    if url.startswith("unix:"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(ANSWER_BOUND_S)
        connection.connect(url.removeprefix("unix:").partition("#")[0])
    else:
        parts = urllib.parse.urlsplit(url)
        connection = socket.create_connection((parts.hostname, parts.port), ANSWER_BOUND_S)
    # So that there is no poll before each call; whoever started us bounds the wait.
    connection.settimeout(None)
    return connection


def read_first(connection: socket.socket) -> bytes:
    """With its length, which is that of all that follow."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += (piece := connection.recv(HEAD_BYTES))
        if not piece:
            sys.exit(f"no whole head: {answer[:40]!r}")
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return answer + connection.recv(length - len(body), socket.MSG_WAITALL) if len(body) < length else answer


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
