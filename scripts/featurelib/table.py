"""The result for people, in Markdown, and for machines, in JSON."""

import dataclasses
import json

from benchlib.report import line

from .checks import FEATURES, MANUAL, NO, PARTIAL, UNCHECKED, YES, Feature, Outcome

LEGEND = (
    "Each cell is what the server did when it was asked, set up with options of its own; where it has none for that, as "
    "it starts by itself. A program or a module beside it does not count. \"By its manual\" was read and not seen. "
    "Caddy is its `file_server` with a Caddyfile; the command `caddy file-server` has options for the listing and the log only."
)
DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


@dataclasses.dataclass(frozen=True)
class Column:
    server: str
    version: str
    outcomes: dict[str, Outcome]  # by the id of the feature
    options: dict[str, str]


def markdown(heading: dict[str, str], columns: list[Column], features: list[Feature] = FEATURES) -> str:
    parts = [
        "# What each server can do by itself",
        "\n".join(f"- {label}: {text}" for label, text in heading.items()),
        table(columns, features),
        LEGEND,
        "## Options",
        options_table(columns, features),
    ]
    return "\n\n".join(parts) + "\n"


def table(columns: list[Column], features: list[Feature] = FEATURES) -> str:
    """With its notes below it, each once."""
    notes: list[str] = []
    lines = [line(["", *(column.server for column in columns)]), line(["---"] * (len(columns) + 1))]
    for feature in features:
        lines.append(line([feature.title, *(cell(column.outcomes[feature.id], notes) for column in columns)]))
    if notes:
        lines += ["", "; ".join(f"{raised(number)} {note}" for number, note in enumerate(notes, 1)) + "."]
    return "\n".join(lines)


def cell(outcome: Outcome, notes: list[str]) -> str:
    """Adds its note to the notes, if it is a new one."""
    word = {YES: "yes", NO: "–", PARTIAL: "partial", MANUAL: "by its manual", UNCHECKED: "not checked"}[outcome.verdict]
    if not outcome.note:
        return word
    if outcome.note not in notes:
        notes.append(outcome.note)
    return word + raised(notes.index(outcome.note) + 1)


def raised(number: int) -> str:
    return "".join(DIGITS[int(digit)] for digit in str(number))


def options_table(columns: list[Column], features: list[Feature]) -> str:
    lines = [line(["", *(column.server for column in columns)]), line(["---"] * (len(columns) + 1))]
    for feature in features:
        said = [column.options.get(feature.id, "") for column in columns]
        if any(said):
            lines.append(line([feature.title, *(code(text) for text in said)]))
    return "\n".join(lines)


def code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""


def as_json(heading: dict[str, str], columns: list[Column]) -> str:
    servers = [
        {
            "server": column.server,
            "version": column.version,
            "features": {
                feature: dataclasses.asdict(outcome) | {"options": column.options.get(feature, "")}
                for feature, outcome in column.outcomes.items()
            },
        }
        for column in columns
    ]
    return json.dumps({"heading": heading, "servers": servers}, indent=1, ensure_ascii=False) + "\n"
