"""The floor and tared: the two that this repository builds.

A contender is a way of setting up a server. It begins with `start`, which
returns the server with the URL at which it answers with the document.
"""

import dataclasses
import functools
import json
import pathlib
import re
import subprocess
from collections.abc import Callable

from .console import Refusal, say
from .documents import Document
from .places import REPOSITORY
from .process import Server, Stage, start_announcing
from .tools import CC, VERSION_BOUND_S, version_of

BUILD_BOUND_S = 1200

Start = Callable[[Stage, Document], Server]


@dataclasses.dataclass(frozen=True)
class Contender:
    name: str
    family: str  # what --servers chooses by
    start: Start
    missing: Callable[[], str | None] = lambda: None  # why it cannot run here


# ---- The floor -----------------------------------------------------------------


def compile_floor(scratch: pathlib.Path) -> None:
    argv = [CC.path, "-O2", "-o", scratch / "floor", REPOSITORY / "scripts/floor.c"]
    if subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=BUILD_BOUND_S).returncode != 0:
        raise Refusal("cannot compile scripts/floor.c, see above")


def floor(mode: str, *, file: bool = False) -> Contender:
    name = f"floor {mode}"

    def start(stage: Stage, document: Document) -> Server:
        argv = [stage.scratch / "floor", mode, *([stage.documents / document.name] if file else [])]
        server, _ = start_announcing(stage, name, argv, r"^floor on (?P<url>http://\S+/)$")
        return dataclasses.replace(server, version=CC.version, url=server.url + document.name)

    return Contender(name, "floor", start, lambda: CC.missing)


# ---- tared ---------------------------------------------------------------------


class Tared:
    """The program that is measured, and its ways of being run. It is built when it is first needed."""

    def __init__(self, given: pathlib.Path | None):
        self.given = given

    @functools.cached_property
    def path(self) -> pathlib.Path:
        return self.given or build_tared()

    @functools.cached_property
    def help(self) -> str:
        argv = [self.path, "--help"]
        return subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=VERSION_BOUND_S, check=True).stdout

    @functools.cached_property
    def version(self) -> str:
        return version_of(self.path, "tared", "--version", r"^tared (\S+)")

    @property
    def has_workers(self) -> bool:
        return "--workers" in self.help

    def fixed(self, *options: str) -> Contender:
        return Contender("tared --fixed", "tared", self.start("tared --fixed", "--fixed", *options))

    def files(self, *options: str, name: str = "tared DIR", path: str | None = None) -> Contender:
        """At `path`, or where the document is."""
        return Contender(name, "tared", self.start(name, *options, path=path))

    def workers(self, count: int) -> Contender:
        name = f"tared --workers {count}"
        start = self.start(name, "--fixed", "--pin", "--workers", str(count))
        return Contender(name, "tared", start, lambda: None if self.has_workers else "tared has no --workers")

    def start(self, name: str, *options: str, path: str | None = None) -> Start:
        def start(stage: Stage, document: Document) -> Server:
            at = document.name if path is None else path
            directory = [] if "--fixed" in options else [stage.documents]
            report = stage.scratch / f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}.json"
            # One of an earlier server of that name is not to be taken for its first.
            report.unlink(missing_ok=True)
            reporting = ["--report", "json", "--report-file", report]
            argv = [self.path, "--listen", "127.0.0.1:0", *reporting, *options, *directory]
            server, line = start_announcing(
                stage, name, argv, r"^(?P<version>tared \S+) .* on (?P<url>http://127\.0\.0\.1:\d+/)"
            )
            return dataclasses.replace(server, version=line["version"], url=server.url + at, report=report)

        return start


def build_tared() -> pathlib.Path:
    # Asked for JSON, cargo says where the program is, whatever the target directory.
    argv = ["cargo", "build", "--release", "--bin", "tared", "--message-format=json-render-diagnostics"]
    say("cargo build --release")
    try:
        built = subprocess.run(
            argv,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=BUILD_BOUND_S,
        )
    except FileNotFoundError:
        raise Refusal("cannot build tared without cargo; see https://rustup.rs, or give --tared PATH") from None
    if built.returncode != 0:
        raise Refusal("cannot build tared, see above")
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    return pathlib.Path(next(message["executable"] for message in messages if message.get("executable")))
