"""Where things are: in the repository, and outside of it what is installed for bench only."""

import os
import pathlib

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
FIXTURES = REPOSITORY / "fixtures"
# What the others are set up with, and programs of ours that they run.
SETTINGS = REPOSITORY / "scripts/peers"
RESULTS = REPOSITORY / "scripts/results"

# What is not of Debian: in bin/ what `cargo install --root` puts there, in npm/
# what npm does, and in venv/ what pip does. scripts/setup fills it.
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tared-bench"
NODE_MODULES = CACHE / "npm/node_modules"
