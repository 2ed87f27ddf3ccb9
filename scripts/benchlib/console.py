"""What is told to people while it runs: one sentence a line, on stderr."""

import pathlib
import sys

PROGRAM = pathlib.Path(sys.argv[0]).name


class Refusal(Exception):
    """A sentence about why there is no result."""


def say(sentence: str) -> None:
    print(f"{PROGRAM}: {sentence}", file=sys.stderr, flush=True)


def skip(name: str, why: str, said: set[str]) -> None:
    """Each reason once."""
    if why not in said:
        said.add(why)
        say(f"skipping {name}: {why}")
