"""The files, and the writer who changes them while they are served.

r/        replaced as a whole by renaming, so that they are always there
dir/      the same, as a directory's index file
s/        grown at their end and cut in place: the beginning of a stream
g/        guises: a file, a directory, links in and out, a FIFO, nothing
.hidden, link-out, and what it leads to outside: never to be served

Sizes are of all three kinds that the server tells apart, and at the edges between them.
"""

import dataclasses
import os
import pathlib
import random
import shutil

from . import content

KIB, MIB = 1024, 1024 * 1024
# Bytes, as in src/head.rs and src/files.rs: what stands behind its head, what is read, what is mapped.
INLINE_MAX, READ_MAX, SENDFILE_MIN = 2 * KIB, 64 * KIB, 768 * KIB
HEADER_ROOM = 128

# Together more than the 64 files that stay open, and than a small cache holds.
COUNTS = {"small": 40, "mapped": 56, "large": 16, "huge": 2}
SIZES = {
    "small": (HEADER_ROOM, READ_MAX),
    "mapped": (READ_MAX + 1, SENDFILE_MIN - 1),
    "large": (SENDFILE_MIN, 3 * MIB),
    # More than the buffers of two sockets hold.
    "huge": (7 * MIB, 9 * MIB),
}
EDGES = {
    "small": (INLINE_MAX, INLINE_MAX + 1, READ_MAX - 1, READ_MAX),
    "mapped": (READ_MAX + 1, SENDFILE_MIN - content.PAGE_BYTES, SENDFILE_MIN - 1),
    "large": (SENDFILE_MIN, SENDFILE_MIN + 1, MIB),
    "huge": (8 * MIB,),
}
STRETCHED_MAX = (READ_MAX, READ_MAX, 500 * KIB, 700 * KIB, 700 * KIB, 2 * MIB, 3 * MIB)
GUISES = 8

SECRET = "secret"
LINKED = "r/small-00"
INDEX = "dir/index.html"

# Changes by kind: how often each is made, in relation to the others.
CHANGES = {"replace": 10, "stretch": 6, "guise": 4}
CLASSES = {"small": 12, "mapped": 8, "large": 3, "huge": 1}


def replaced(kind: str) -> list[str]:
    return [f"r/{kind}-{number:02}" for number in range(COUNTS[kind])]


def stretched() -> list[str]:
    return [f"s/{number}" for number in range(len(STRETCHED_MAX))]


def guises() -> list[str]:
    return [f"g/{number}" for number in range(GUISES)]


def count() -> int:
    """Of all of them, the index file among them."""
    return sum(COUNTS.values()) + 1 + len(STRETCHED_MAX) + GUISES


def names_under(guise: str) -> set[str]:
    """Whose bytes may come under this guise's path."""
    return {guise, f"{guise}/index.html", LINKED}


@dataclasses.dataclass
class Writer:
    root: pathlib.Path
    outside: pathlib.Path
    seed: int
    rng: random.Random
    changes: int = 0

    def make(self) -> None:
        """Everything as it is at first."""
        for name in ("r", "s", "g", "dir", ".new"):
            (self.root / name).mkdir(parents=True)
        self.outside.mkdir()
        (self.outside / SECRET).write_bytes(content.version(self.seed, SECRET, 4 * KIB))
        (self.root / ".hidden").write_bytes(content.version(self.seed, SECRET, 4 * KIB))
        (self.root / "link-out").symlink_to(self.outside / SECRET)
        for kind in COUNTS:
            for name in replaced(kind):
                self.replace(name, self.length_of(kind))
        self.replace(INDEX, self.length_of("small"))
        for name, most in zip(stretched(), STRETCHED_MAX):
            (self.root / name).write_bytes(content.stream(self.seed, name, 0, most))
        for name in guises():
            self.disguise(name)
        self.changes = 0

    def change(self) -> None:
        """One more."""
        match self.rng.choices(list(CHANGES), CHANGES.values())[0]:
            case "replace":
                kind = self.rng.choices(list(CLASSES), CLASSES.values())[0]
                name = self.rng.choice([*replaced(kind), *([INDEX] if kind == "small" else [])])
                self.replace(name, self.length_of(kind))
            case "stretch":
                self.stretch(self.rng.randrange(len(STRETCHED_MAX)))
            case "guise":
                self.disguise(self.rng.choice(guises()))

    def length_of(self, kind: str) -> int:
        if self.rng.random() < 0.1:
            return self.rng.choice(EDGES[kind])
        least, most = SIZES[kind]
        return self.rng.randint(least, most)

    def replace(self, name: str, length: int) -> None:
        new = self.root / ".new" / "file"
        new.write_bytes(content.version(self.seed, name, length))
        new.rename(self.root / name)
        self.changes += 1

    def stretch(self, number: int) -> None:
        name, most = stretched()[number], STRETCHED_MAX[number]
        path = self.root / name
        length = path.stat().st_size
        if length == most or self.rng.random() < 0.3:
            # Half of the cuts are within the last page, which is where zeros would show.
            by = self.rng.randint(1, content.PAGE_BYTES) if self.rng.random() < 0.5 else self.rng.randint(0, length)
            os.truncate(path, max(length - by, 0))
        else:
            end = min(length + self.rng.choice([100, 10_000, 300_000]), most)
            with open(path, "ab", buffering=0) as file:
                file.write(content.stream(self.seed, name, length, end))
        self.changes += 1

    def disguise(self, name: str) -> None:
        path = self.root / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        kinds = ["file", "directory", "bare directory", "nothing", "fifo"]
        kinds += ["link", "absolute link", "link to directory", "link out", "dangling link", "looping link"]
        match self.rng.choice(kinds):
            case "file":
                self.replace(name, self.length_of(self.rng.choice(["small", "mapped", "large"])))
            case "directory":
                path.mkdir()
                self.replace(f"{name}/index.html", self.length_of("small"))
            case "bare directory":
                path.mkdir()
            case "fifo":
                os.mkfifo(path)
            case "link":
                path.symlink_to(f"../{LINKED}")
            case "absolute link":
                path.symlink_to(self.root / LINKED)
            case "link to directory":
                path.symlink_to("../dir")
            case "link out":
                path.symlink_to(self.outside / SECRET)
            case "dangling link":
                path.symlink_to("nowhere")
            case "looping link":
                path.symlink_to(path.name)
        self.changes += 1
