"""One scenario after the other, into one report: JSON, Markdown, and a chart for each."""

import dataclasses
import json
import pathlib
import tempfile

from .. import machine
from ..chart import load_pyplot, save
from ..console import say
from ..documents import make_documents
from ..report import show_commands, write
from ..servers import Tared, compile_floor
from ..tools import CC
from . import proxy, raw, siege, tools
from .setting import Setting

SCENARIOS = {"raw": raw, "proxy": proxy, "siege": siege, "tools": tools}


@dataclasses.dataclass(frozen=True)
class Chapter:
    name: str
    lines: list
    commands: list[list[str]]

    @property
    def scenario(self):
        return SCENARIOS[self.name]


def run(wanted: list[str], tared: Tared, quick: bool, out: pathlib.Path | None) -> int:
    cpus = machine.choose_cpus()
    machine.raise_descriptors_max()
    with tempfile.TemporaryDirectory(prefix="tared-bench-") as directory:
        setting = Setting(tared, pathlib.Path(directory), cpus, quick)
        make_documents(setting.scratch / "documents")
        if not CC.missing:
            compile_floor(setting.scratch)
        heading = machine.describe(cpus) | {"command": command_line(wanted, tared, quick)}
        chapters = []
        for name in wanted:
            lines = SCENARIOS[name].measure(setting)
            chapters.append(Chapter(name, lines, setting.commands))
            setting.commands = []
            # What there is so far, for a run that does not get to its end.
            write_json(heading, chapters, out)
            say(f"{name}: {SCENARIOS[name].conclude(lines)}")
    heading["versions"] = ", ".join(sorted(setting.versions))
    if setting.skipped:
        heading["skipped"] = "; ".join(sorted(setting.skipped))
    if quick:
        heading["quick"] = "too short to quote; it shows that it works"
    publish(heading, chapters, setting, out)
    write_json(heading, chapters, out)
    broken = [
        f"{chapter.name}: {sentence}" for chapter in chapters for sentence in chapter.scenario.broken(chapter.lines)
    ]
    for sentence in broken:
        say(f"tared has not kept what it is to keep: {sentence}")
    return 1 if broken else 0


def command_line(wanted: list[str], tared: Tared, quick: bool) -> str:
    """What was typed, without what is of this machine only."""
    typed = ["scripts/bench", "all" if wanted == list(SCENARIOS) else wanted[0]]
    typed += ["--quick"] if quick else []
    typed += ["--tared PATH"] if tared.given else []
    return f"`{' '.join(typed)}`"


def publish(heading: dict[str, str], chapters: list[Chapter], setting: Setting, out: pathlib.Path | None) -> None:
    pyplot = load_pyplot() if out else None
    drawn = [chapter.name for chapter in chapters if chapter.lines] if pyplot else []
    text = markdown(heading, chapters, drawn, setting)
    print(text, end="")
    if out is None:
        return
    write(out / "report.md", text)
    for chapter in chapters:
        if chapter.name in drawn:
            save(pyplot, chapter.scenario.draw(chapter.lines, pyplot), out / f"{chapter.name}.svg")
    say(f"wrote report.json, report.md and {len(drawn)} charts into {out}")


def write_json(heading: dict[str, str], chapters: list[Chapter], out: pathlib.Path | None) -> None:
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    scenarios = {
        chapter.name: {
            "conclusion": chapter.scenario.conclude(chapter.lines),
            "lines": [dataclasses.asdict(each) for each in chapter.lines],
        }
        for chapter in chapters
    }
    results = {"heading": heading, "scenarios": scenarios}
    write(out / "report.json", json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def markdown(heading: dict[str, str], chapters: list[Chapter], drawn: list[str], setting: Setting) -> str:
    parts = ["# The four classic comparisons", "\n".join(f"- {label}: {text}" for label, text in heading.items())]
    for chapter in chapters:
        scenario = chapter.scenario
        parts += [f"## {chapter.name}: {scenario.TITLE}", scenario.STORY, f"**{scenario.conclude(chapter.lines)}**"]
        if chapter.name in drawn:
            parts.append(f"![{scenario.TITLE}]({chapter.name}.svg)")
        if chapter.lines:
            parts += [scenario.table(chapter.lines), scenario.NOTES]
            commands = [[hidden(word, setting) for word in command] for command in chapter.commands]
            parts += ["### Commands", show_commands(commands, setting.scratch)]
    return "\n\n".join(parts) + "\n"


def hidden(word: str, setting: Setting) -> str:
    """Where tared was built is nobody's business."""
    return "tared" if word == str(setting.tared.path) else word
