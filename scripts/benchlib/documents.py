"""The files that are asked for, made anew in the scratch directory of each run."""

import dataclasses
import gzip
import pathlib

from .places import FIXTURES

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclasses.dataclass(frozen=True)
class Document:
    name: str
    size_bytes: int


# An empty document, so that nothing is weighed but the request. Who answers the
# same to every path is asked for it, too: that makes the requests equal.
EMPTY = Document("0k.txt", 0)
SMALL = Document("4k.txt", 4 * KIB)
LIPSUM = Document("lipsum.html", 33 * KIB)
# Beside it, for who serves a sibling to those who take gzip.
LIPSUM_GZ = "lipsum.html.gz"
HELLO = Document("hello.txt", 12)
LARGE = Document("1m.txt", MIB)
# Sparse: a hole takes no room on the disk, and page cache as any other file does.
HUGE = Document("1g.txt", GIB)

GZIP_LEVEL = 9  # once, so it may take its time


def make_documents(directory: pathlib.Path) -> None:
    directory.mkdir()
    (directory / EMPTY.name).touch()
    (directory / SMALL.name).write_bytes(lines_of_text(SMALL.size_bytes))
    (directory / LIPSUM.name).write_bytes((FIXTURES / LIPSUM.name).read_bytes())
    (directory / LIPSUM_GZ).write_bytes(gzip.compress((FIXTURES / LIPSUM.name).read_bytes(), GZIP_LEVEL, mtime=0))
    (directory / HELLO.name).write_bytes((FIXTURES / HELLO.name).read_bytes())
    (directory / LARGE.name).write_bytes(lines_of_text(LARGE.size_bytes))
    with open(directory / HUGE.name, "wb") as huge:
        huge.truncate(HUGE.size_bytes)


def lines_of_text(size_bytes: int) -> bytes:
    """Numbered lines, so that a part sent twice or left out shows."""
    return b"".join(b"%015d\n" % number for number in range(size_bytes // 16))
