"""The files that are served, made anew for each run."""

import dataclasses
import os
import pathlib
import shutil

from benchlib.places import FIXTURES

from .files import FRAME_BYTES, FRAMES_PER_S, WAV_HEAD_BYTES, font, tone, wav_head

# What a script that gets out of a name would do.
ALARM = "document.title='run'"
LONG = "long-" + "x" * 246 + ".txt"
# Bytes of a name, and how it is to be read: control characters as their pictures, U+FFFD where
# it is not UTF-8.
HOSTILE = {
    b"\"quoted\" 'twice'.txt": "\"quoted\" 'twice'.txt",
    f"<img src=x onerror={ALARM}>.txt".encode(): f"<img src=x onerror={ALARM}>.txt",
    f"\" onmouseover=\"{ALARM}.txt".encode(): f"\" onmouseover=\"{ALARM}.txt",
    f"<script>{ALARM}<.txt".encode(): f"<script>{ALARM}<.txt",
    f"javascript:{ALARM}.txt".encode(): f"javascript:{ALARM}.txt",
    b"new\nline.txt": "new\u240aline.txt",
    b"not-\xff-utf-8.txt": "not-\ufffd-utf-8.txt",
    b"a?b#c%41&lt;.txt": "a?b#c%41&lt;.txt",
    b"  spaces  .txt": "  spaces  .txt",
    "\u202ereversed.txt".encode(): "\u202ereversed.txt",
    "grüße 你好.txt".encode(): "grüße 你好.txt",
    LONG.encode(): LONG,
}
HOSTILE_DIRECTORY = "<b>bold & \"co\""
HIDDEN = (".hidden.txt", ".git/config")
MANY = 2000
NESTED = ("one", "two", "three")

# By name, size and time in another order each, directories too: bytes, and minutes after MADE_S.
SORTED_FILES = {"alpha.txt": (300, 2), "Beta.txt": (10, 5), "gamma.txt": (2000, 1), "delta.txt": (45, 4)}
SORTED_DIRECTORIES = {"x": 9, "Y": 7, "z": 8}

RECORDING_S = 320
RECORDING_BYTES = WAV_HEAD_BYTES + RECORDING_S * FRAMES_PER_S * FRAME_BYTES

# For the screenshots: bytes, and days before MADE_S.
SHOWN_FILES = {
    "CHANGELOG.md": (7_412, 2),
    "checksums.txt": (1_186, 2),
    "field recording, dawn.flac": (48_730_112, 61),
    "grüße.txt": (30, 400),
    "LICENSE": (1_071, 1_130),
    "lecture-03.mp4": (734_003_200, 24),
    "report-2026.pdf": (2_411_724, 9),
    "tared-0.1.0-x86_64-linux.tar.gz": (634_211, 2),
    "tared-0.1.0.crate": (211_204, 2),
}
SHOWN_DIRECTORIES = {"datasets": 12, "photos": 88, "talks": 24}
SHOWN = "pub/releases"
MADE_S = 1_796_000_000  # in November 2026

FONT_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>page</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="page.css">
<p id="text">AAAA</p><script type="module" src="page.js"></script>
"""
FONT_STYLE = """@font-face { font-family: Square; src: url(square.ttf) }
#text { font: 16px Square; display: inline-block; color: rgb(1, 2, 3) }
"""
FONT_SCRIPT = """const { instance } = await WebAssembly.instantiateStreaming(fetch('add.wasm'));
await document.fonts.load('16px Square');
document.title = `sum ${instance.exports.add(20, 22)}`;
"""
MEDIA_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>media</title><link rel="icon" href="data:,">
<audio controls preload="metadata" src="long.wav"></audio>
"""
SPA_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>app</title><link rel="icon" href="data:,">
<a id="deep" href="/deep/route">deep</a><script src="/app.js"></script>
"""
SPA_SCRIPT = """const show = () => { document.title = `app at ${location.pathname}`; };
document.getElementById('deep').addEventListener('click', (event) => {
  event.preventDefault();
  history.pushState(null, '', '/deep/route');
  show();
});
show();
"""
ERROR_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>our own 404</title>
<link rel="icon" href="data:,"><p>There is no such page here.
"""


@dataclasses.dataclass(frozen=True)
class Tree:
    listed: pathlib.Path
    app: pathlib.Path  # a single-page application, and a page for what is not there


def make_tree(scratch: pathlib.Path) -> Tree:
    listed, app = scratch / "listed", scratch / "app"
    for name, shown in HOSTILE.items():
        write(listed / "names" / os.fsdecode(name), content_of(shown))
    write(listed / "names" / HOSTILE_DIRECTORY / "inside.txt", "inside")
    for name in HIDDEN:
        write(listed / "names" / name, "hidden")
    for number in range(MANY):
        write(listed / "many" / many_name(number), "")
    write(listed.joinpath("nested", *NESTED, "leaf.txt"), "leaf")
    make_dated(listed / "sorted", SORTED_FILES, SORTED_DIRECTORIES, 60)
    make_dated(listed / SHOWN, SHOWN_FILES, SHOWN_DIRECTORIES, -86_400)
    make_page(listed / "page")
    write(listed / "media/index.html", MEDIA_PAGE)
    make_recording(listed / "media/long.wav")
    for name, text in {"index.html": SPA_PAGE, "app.js": SPA_SCRIPT, "404.html": ERROR_PAGE}.items():
        write(app / name, text)
    return Tree(listed, app)


def many_name(number: int) -> str:
    return f"name-{number:05}.txt"


def content_of(shown: str) -> str:
    return f"This is the content of {len(shown)} characters' worth of name: {shown}"


def write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_dated(
    directory: pathlib.Path, files: dict[str, tuple[int, int]], directories: dict[str, int], unit_s: int
) -> None:
    """Files are holes: whatever their size, they take no room."""
    for name, (size, age) in files.items():
        write(directory / name, "")
        os.truncate(directory / name, size)
        os.utime(directory / name, (MADE_S + age * unit_s,) * 2)
    for name, age in directories.items():
        (directory / name).mkdir()
        os.utime(directory / name, (MADE_S + age * unit_s,) * 2)


def make_page(directory: pathlib.Path) -> None:
    for name, text in {"index.html": FONT_PAGE, "page.css": FONT_STYLE, "page.js": FONT_SCRIPT}.items():
        write(directory / name, text)
    shutil.copy(FIXTURES / "add.wasm", directory)
    (directory / "square.ttf").write_bytes(font())


def make_recording(path: pathlib.Path) -> None:
    """Silence, which is a hole, but for its first and its last second."""
    second = tone(440)
    with path.open("wb") as file:
        file.write(wav_head(RECORDING_S) + second)
        file.truncate(RECORDING_BYTES)
        file.seek(RECORDING_BYTES - len(second))
        file.write(second)
