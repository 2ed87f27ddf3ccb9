"""What stands in a file, and what is wrong with a body. Pure.

A file that is replaced as a whole holds a version: a line that names it, its length and a keyed
checksum of the rest, so that whoever receives all of it can tell that it is right, whichever
version it is. What follows is a function of (seed, name, length), so that a part can be told from
the whole's length alone.

A file that is cut and grown in place holds the beginning of its own endless stream, a function of
(seed, name): any length of it is right, and any other byte is wrong.
"""

import functools
import hashlib
import re

BLOCK_BYTES = 64 * 1024
PAGE_BYTES = 4096
DIGEST_BYTES = 16
HEADER = re.compile(rb"soak (\S+) (\d{10}) ([0-9a-f]{32})\n")

RIGHT, CLEARED, WRONG = "right", "cleared", "wrong"


@functools.lru_cache(maxsize=512)  # 32 MiB
def block(seed: int, label: str, index: int) -> bytes:
    return hashlib.shake_128(f"{seed} {label} {index}".encode()).digest(BLOCK_BYTES)


def stream(seed: int, label: str, start: int, end: int) -> bytes:
    """Bytes of it from `start` to before `end`."""
    first = start // BLOCK_BYTES
    blocks = [block(seed, label, index) for index in range(first, -(-end // BLOCK_BYTES))]
    return b"".join(blocks)[start - first * BLOCK_BYTES : end - first * BLOCK_BYTES]


def digest(seed: int, rest: bytes) -> str:
    return hashlib.blake2b(rest, digest_size=DIGEST_BYTES, key=str(seed).encode()).hexdigest()


def header(name: str, length: int, checksum: str) -> bytes:
    return f"soak {name} {length:010} {checksum}\n".encode()


@functools.lru_cache(maxsize=8)  # of 9 MiB at the most
def version(seed: int, name: str, length: int) -> bytes:
    """The one of this length, which has room for its header."""
    rest_bytes = length - len(header(name, length, "0" * 2 * DIGEST_BYTES))
    rest = stream(seed, f"{name} {length}", 0, rest_bytes)
    return header(name, length, digest(seed, rest)) + rest


def trouble_with_version(seed: int, names: set[str], body: bytes) -> str | None:
    """What is wrong with `body`, which is to be a whole version of one of `names`."""
    found = HEADER.match(body)
    if not found:
        return f"a body that begins with {body[:40]!r}"
    name, length, checksum = found[1].decode(), int(found[2]), found[3].decode()
    if name not in names:
        return f"the bytes of {name} under the name of {' or '.join(sorted(names))}"
    if length != len(body):
        return f"{len(body)} bytes of {name}, which says that it has {length}"
    if digest(seed, body[found.end() :]) != checksum:
        return f"a checksum of {name} that does not fit its {length} bytes"
    return None


def compare(got: bytes, expected: bytes, at: int, is_shared: bool) -> str:
    """Of the bytes from `at` on. CLEARED is said where all that differs are zeros, what is left of a file that was
    cut: behind right bytes up to the end of their page, or anywhere if the pages `is_shared` with the writer."""
    if got == expected:
        return RIGHT
    if len(got) != len(expected):
        return WRONG
    for page in range(at - at % PAGE_BYTES, at + len(got), PAGE_BYTES):
        start, end = max(page - at, 0), page + PAGE_BYTES - at
        mine, right = got[start:end], expected[start:end]
        if mine == right:
            continue
        kept = mine.rstrip(b"\0")
        is_tail = right.startswith(kept) and (kept or page < at)
        if not is_tail and not (is_shared and all(byte in (0, right[place]) for place, byte in enumerate(mine))):
            return WRONG
    return CLEARED
