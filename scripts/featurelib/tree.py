"""The files that all of them serve, made anew for each start of a server."""

import dataclasses
import gzip
import pathlib

PLAIN = b"".join(b"%07d\n" % number for number in range(512))
SECRET = b"from outside, or hidden: not to be seen\n"
INDEX = b"<!doctype html><title>index</title>the page of the root\n"
NOT_FOUND = b"<!doctype html><title>404</title>our own page for what is not there\n"
STYLE = b"".join(b".rule-%05d { color: inherit; margin: 0 auto }\n" % number for number in range(700))
# The bytes of a sibling are sent as they are, so that any will do, as long as no two are the same.
SIBLINGS = {
    "gzip": (".gz", gzip.compress(PLAIN, mtime=0)),
    "br": (".br", b"stands for what brotli made of it\n"),
    "zstd": (".zst", b"stands for what zstd made of it\n"),
}
# By size b, c, a; by name a, b, c: no order is by chance another one.
LISTED = {"a.txt": 10, "b.txt": 3000, "c.txt": 200}
# Above what the socket buffers of both sides hold together; a hole, which takes no room.
LARGE_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True)
class Tree:
    root: pathlib.Path
    log: pathlib.Path
    socket: pathlib.Path


def make_tree(scratch: pathlib.Path) -> Tree:
    """In a directory that workers of other users may read."""
    scratch.chmod(0o755)
    root = scratch / "root"
    for directory in (root, root / "list", root / "docs", root / "drop", scratch / "outside"):
        directory.mkdir()
    (root / "drop").chmod(0o777)
    for name, body in {
        "index.html": INDEX,
        "404.html": NOT_FOUND,
        "plain.txt": PLAIN,
        "style.css": STYLE,
        "model.own": PLAIN,
        ".hidden.txt": SECRET,
        "docs/guide.txt": PLAIN,
        "../outside/secret.txt": SECRET,
        "list/.hidden.txt": SECRET,
    }.items():
        (root / name).write_bytes(body)
    for name, size_bytes in LISTED.items():
        (root / "list" / name).write_bytes(b"x" * size_bytes)
    for suffix, body in SIBLINGS.values():
        # One name for each coding: nobody is to be kept from one by preferring another.
        coded = root / f"coded{suffix}.txt"
        coded.write_bytes(PLAIN)
        coded.with_name(coded.name + suffix).write_bytes(body)
    (root / "link.txt").symlink_to("../outside/secret.txt")
    with open(root / "large.bin", "wb") as large:
        large.truncate(LARGE_BYTES)
    return Tree(root, scratch / "access.log", scratch / "server.sock")
