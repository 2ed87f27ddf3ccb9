"""What is read out of an answer, a log or /proc. Nothing here asks anybody."""

import json
import re

# Common Log Format, and what Combined adds to it.
COMMON = re.compile(
    r'^\S+ \S+ \S+ \[\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4}\] "GET (?P<target>\S+) HTTP/1\.[01]" '
    r'(?P<status>\d{3}) (?:\d+|-)(?P<combined> "[^"]*" "[^"]*")?\s*$'
)
# How programs say that they do not know what they are told.
UNKNOWN = re.compile(
    r"unexpected argument|unknown (?:directive|flag|argument|option|subdirective)|unrecognized|not recognized|unknown shorthand"
    r"|module not registered|invalid value|unknown field|unsupported network type",
    re.IGNORECASE,
)


def is_refused(words: str) -> bool:
    """Whether a program that ended at its start did so since it does not know an option."""
    return bool(UNKNOWN.search(words))


def order_of(names: list[str], body: str) -> list[str]:
    """The names in the order in which a page names them first."""
    found = {name: body.find(name) for name in names}
    return sorted((name for name in names if found[name] >= 0), key=found.__getitem__)


def names_in(document) -> set[str]:
    """Every text in a JSON document, of whatever shape, without a directory's slash."""
    if isinstance(document, str):
        return {document.strip("/").rpartition("/")[2]}
    parts = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return {name for part in parts for name in names_in(part)}


def parse_json(text: str):
    """None if it is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def parts_of(content_type: str, body: bytes) -> list[tuple[str, bytes]]:
    """Content-Range and bytes of each part of multipart/byteranges (RFC 9110 §14.6); none if it is not that."""
    boundary = re.match(r'multipart/byteranges;.*\bboundary="?([^";]+)', content_type, re.IGNORECASE)
    if not boundary:
        return []
    parts = []
    for piece in (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode())[1:]:
        if piece.startswith(b"--"):
            break
        head, _, content = piece.partition(b"\r\n\r\n")
        told = re.search(rb"^content-range:\s*(.+?)\s*$", head, re.IGNORECASE | re.MULTILINE)
        parts.append((told[1].decode() if told else "", content))
    return parts


def logged(lines: list[str], target: str) -> str | None:
    """What kind of line tells of a request: combined, common, json or own; None if none does."""
    kinds = {kind_of(line) for line in lines if target in line}
    return next((kind for kind in ("combined", "common", "json", "own") if kind in kinds), None)


def kind_of(line: str) -> str:
    if found := COMMON.match(line):
        return "combined" if found["combined"] else "common"
    start = line.find("{")
    return "json" if start >= 0 and isinstance(parse_json(line[start:]), dict) else "own"


def directives(cache_control: str) -> dict[str, str]:
    """Of Cache-Control (RFC 9111 §5.2), by name."""
    pairs = (part.strip().partition("=") for part in cache_control.split(",") if part.strip())
    return {name.lower(): value.strip('"') for name, _, value in pairs}


def counts(text: str, total: int) -> bool:
    """Whether a text of counters has one about requests that is at so many."""
    numbers = re.findall(r"^[^#\n]*request[^\n]* (\d+(?:\.0+)?)$", text, re.IGNORECASE | re.MULTILINE)
    if any(float(number) == total for number in numbers):
        return True
    # nginx: three numbers below a line of three words, the last one of which is requests.
    return bool(re.search(rf"handled requests\s+\d+ \d+ {total}\b", text))


def status_field(status: str, name: str) -> list[str]:
    """The values of a line of /proc/PID/status."""
    found = re.search(rf"^{name}:\s*(.+)$", status, re.MULTILINE)
    return found[1].split() if found else []
