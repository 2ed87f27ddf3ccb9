"""A request, and what its answer may be."""

import collections
import dataclasses
import random
import re
from collections.abc import Callable

from . import content, site
from .wire import Answer

HOST = "Host: localhost\r\n"
MULTIPART = re.compile(r"multipart/byteranges; boundary=([0-9a-zA-Z]+)")
CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
UNSATISFIED = re.compile(r"bytes \*/(\d+)")
# One range, as (first, last), (first, None) or (None, length of a suffix).
Spec = tuple[int | None, int | None]

# Entity tags that are remembered, by path and as they were given.
KNOWN_MAX = 20_000

# How often each kind of request is made, in relation to the others.
KINDS = {
    "GET": 30,
    "GET, cut in place": 14,
    "GET, in a guise": 6,
    "HEAD": 6,
    "range": 10,
    "range, cut in place": 4,
    "ranges": 6,
    "If-Range": 5,
    "If-None-Match": 6,
    "If-Modified-Since": 3,
    "If-Match": 3,
    "404": 4,
    "redirect": 2,
    "OPTIONS": 1,
    "POST": 3,
    "POST, chunked": 3,
}


class Wrong(Exception):
    """What is wrong with an answer."""


@dataclasses.dataclass
class Exchange:
    kind: str
    request: bytes
    judge: Callable[[Answer], None]  # raises Wrong
    is_head: bool = False
    may_be_short: bool = False  # its file is cut while it is sent


@dataclasses.dataclass
class Client:
    """What a process full of clients knows of the site."""

    seed: int
    rng: random.Random
    counts: collections.Counter
    # By path, what was last said of it: its entity tag, Last-Modified and length.
    latest: dict[str, tuple[str, str, int]] = dataclasses.field(default_factory=dict)
    # How long is what has this path and tag.
    lengths: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)

    def exchange(self, kind: str | None = None) -> Exchange:
        kind = kind or self.rng.choices(list(KINDS), KINDS.values())[0]
        return getattr(self, MAKERS[kind])(kind)

    # ---- Requests ------------------------------------------------------------------

    def name(self) -> str:
        """Of a file that is always there."""
        kind = self.rng.choices(list(site.CLASSES), (60, 25, 8, 1))[0]
        return self.rng.choice(site.replaced(kind)) if self.rng.random() < 0.97 else site.INDEX

    def head(self, method: str, name: str, *lines: str) -> bytes:
        # A directory is asked for by its own name.
        target = "dir/" if name == site.INDEX else name
        return "\r\n".join([f"{method} /{target} HTTP/1.1", HOST + "\r\n".join([*lines, "", ""])]).encode()

    def get(self, kind: str, name: str | None = None) -> Exchange:
        name = name or self.name()
        return Exchange(kind, self.head("GET", name), lambda answer: self.judge_whole(name, answer))

    def get_cut(self, kind: str) -> Exchange:
        name = self.rng.choice(site.stretched())
        judge = lambda answer: self.judge_whole(name, answer)  # noqa: E731
        return Exchange(kind, self.head("GET", name), judge, may_be_short=True)

    def get_guise(self, kind: str) -> Exchange:
        guise = self.rng.choice(site.guises())
        target = guise + self.rng.choice(["", "", "/"])

        def judge(answer: Answer) -> None:
            expect(answer, 200, 301, 404)
            if answer.status == 200:
                allowed = site.names_under(guise) | {site.INDEX}
                self.verify(answer, content.trouble_with_version(self.seed, allowed, answer.body))
            elif answer.status == 301 and answer.fields.get("location") != f"/{guise}/":
                raise Wrong(f"a redirect of {guise} to {answer.fields.get('location')}")

        return Exchange(kind, self.head("GET", target), judge)

    def head_of(self, kind: str) -> Exchange:
        name = self.name()

        def judge(answer: Answer) -> None:
            expect(answer, 200)
            self.remember(name, answer, int(answer.fields.get("content-length", "-1")))

        return Exchange(kind, self.head("HEAD", name), judge, is_head=True)

    def range(self, kind: str, name: str | None = None, lines: tuple[str, ...] = ()) -> Exchange:
        name = name or self.name()
        spec, text = self.spec(name)
        judge = lambda answer: self.judge_part(name, spec, answer)  # noqa: E731
        return Exchange(kind, self.head("GET", name, f"Range: bytes={text}", *lines), judge)

    def range_cut(self, kind: str) -> Exchange:
        exchange = self.range(kind, self.rng.choice(site.stretched()))
        return dataclasses.replace(exchange, may_be_short=True)

    def ranges(self, kind: str) -> Exchange:
        name = self.name()
        specs = [self.spec(name) for _ in range(self.rng.randint(2, 6))]
        text = self.rng.choice([", ", ","]).join(text for _, text in specs)
        judge = lambda answer: self.judge_parts(name, [spec for spec, _ in specs], answer)  # noqa: E731
        return Exchange(kind, self.head("GET", name, f"Range: bytes={text}"), judge)

    def if_range(self, kind: str) -> Exchange:
        name, (tag, _, _) = self.known()
        spec, text = self.spec(name)

        def judge(answer: Answer) -> None:
            # RFC 9110 §13.1.5: a weak tag matches nothing.
            is_same = answer.fields.get("etag") == tag and not tag.startswith("W/")
            if answer.status == 206 and not is_same:
                raise Wrong(f"a part of {name} with ETag {answer.fields.get('etag')} to If-Range {tag}")
            if answer.status == 200 and is_same:
                raise Wrong(f"all of {name}, which is what If-Range names")
            self.judge_part(name, spec, answer, may_be_whole=True)

        return Exchange(kind, self.head("GET", name, f"Range: bytes={text}", f"If-Range: {tag}"), judge)

    def if_none_match(self, kind: str) -> Exchange:
        name, (tag, _, _) = self.known()

        def judge(answer: Answer) -> None:
            is_same = opaque(answer.fields.get("etag", "")) == opaque(tag)
            if is_same != (answer.status == 304):
                raise Wrong(f"a {answer.status} of {name} with ETag {answer.fields.get('etag')} to If-None-Match {tag}")
            if answer.status != 304:
                self.judge_whole(name, answer)

        line = "If-None-Match: " + self.rng.choice(["", '"x", ']) + tag
        return Exchange(kind, self.head("GET", name, line), judge)

    def if_modified_since(self, kind: str) -> Exchange:
        name, (_, date, _) = self.known()

        def judge(answer: Answer) -> None:
            expect(answer, 200, 304)
            if answer.status == 200:
                self.judge_whole(name, answer)

        return Exchange(kind, self.head("GET", name, f"If-Modified-Since: {date}"), judge)

    def if_match(self, kind: str) -> Exchange:
        name, (tag, _, _) = self.known()

        def judge(answer: Answer) -> None:
            expect(answer, 200, 412)
            if answer.status == 200:
                if answer.fields.get("etag") != tag:
                    raise Wrong(f"a 200 of {name} with ETag {answer.fields.get('etag')} to If-Match {tag}")
                self.judge_whole(name, answer)

        return Exchange(kind, self.head("GET", name, f"If-Match: {tag}"), judge)

    def nothing(self, kind: str) -> Exchange:
        names = ["none", "r/none", "r/small-00/none", ".hidden", "link-out", ".new/file", "%2ehidden", "none/../none"]
        request = self.head("GET", self.rng.choice(names))
        return Exchange(kind, request, lambda answer: expect(answer, 404))

    def redirect(self, kind: str) -> Exchange:
        def judge(answer: Answer) -> None:
            expect(answer, 301)
            if answer.fields.get("location") != "/dir/":
                raise Wrong(f"a redirect to {answer.fields.get('location')}")

        return Exchange(kind, self.head("GET", "dir"), judge)

    def options(self, kind: str) -> Exchange:
        return Exchange(kind, f"OPTIONS * HTTP/1.1\r\n{HOST}\r\n".encode(), lambda answer: expect(answer, 204))

    def post(self, kind: str) -> Exchange:
        body = b"x" * self.rng.choice([0, 1, 1000, 20_000, 200_000])
        head = self.head("POST", self.name(), f"Content-Length: {len(body)}")
        return Exchange(kind, head + body, lambda answer: expect(answer, 405))

    def post_chunked(self, kind: str) -> Exchange:
        sizes = [self.rng.choice([1, 10, 4096, 30_000]) for _ in range(self.rng.randint(0, 5))]
        chunks = b"".join(b"%x\r\n%s\r\n" % (size, b"x" * size) for size in sizes)
        head = self.head("POST", self.name(), "Transfer-Encoding: chunked")
        return Exchange(kind, head + chunks + b"0\r\n\r\n", lambda answer: expect(answer, 405))

    def known(self) -> tuple[str, tuple[str, str, int]]:
        """A file of which something was heard before, and what."""
        if not self.latest:
            return self.name(), ('"none"', "Sun, 06 Nov 1994 08:49:37 GMT", 0)
        name = self.rng.choice(list(self.latest))
        return name, self.latest[name]

    def spec(self, name: str) -> tuple[Spec, str]:
        """One range, and how it is said."""
        _, _, length = self.latest.get(name, ("", "", 0))
        length = length or 100_000
        first = self.rng.randrange(length)
        match self.rng.randrange(6):
            case 0:
                return (first, None), f"{first}-"
            case 1:
                return (None, first + 1), f"-{first + 1}"
            case 2:
                return (first, first), f"{first}-{first}"
            case 3:
                # Perhaps beyond the end of the next version.
                return (length + 10, length + 20), f"{length + 10}-{length + 20}"
            case _:
                last = min(first + self.rng.choice([100, 5_000, 100_000]), length - 1)
                return (first, last), f"{first}-{last}"

    # ---- Answers -------------------------------------------------------------------

    def judge_whole(self, name: str, answer: Answer) -> None:
        expect(answer, 200)
        self.remember(name, answer, answer.length)
        if name in STRETCHED:
            self.verify_stretched(name, answer, answer.body, 0, answer.length)
        elif not answer.missing:
            self.verify(answer, content.trouble_with_version(self.seed, {name}, answer.body))

    def judge_part(self, name: str, spec: Spec, answer: Answer, may_be_whole: bool = False) -> None:
        expect(answer, 200, 206, 416)
        if answer.status == 200:
            if not may_be_whole and answer.length:
                raise Wrong(f"all of {name} for {spec}")
            return self.judge_whole(name, answer)
        if answer.status == 416:
            found = UNSATISFIED.fullmatch(answer.fields.get("content-range", ""))
            if not found or span_of(spec, int(found[1])) is not None:
                raise Wrong(f"a 416 of {name} for {spec}, which has {answer.fields.get('content-range')}")
            return None
        first, end, total = content_range(answer.fields.get("content-range", ""))
        if span_of(spec, total) != (first, end):
            raise Wrong(f"bytes {first}-{end - 1} of {total} of {name} for {spec}")
        if answer.length != end - first:
            raise Wrong(f"Content-Length {answer.length} for {end - first} bytes of {name}")
        self.remember(name, answer, total)
        self.verify_part(name, answer, answer.body, first, total)

    def judge_parts(self, name: str, specs: list[Spec], answer: Answer) -> None:
        type_ = MULTIPART.fullmatch(answer.fields.get("content-type", ""))
        if answer.status == 206 and type_:
            if answer.missing:
                return
            got = split_parts(answer.body, type_[1].encode())
            totals = {total for _, _, total, _ in got}
            if len(totals) != 1:
                raise Wrong(f"parts of {name} of different lengths")
            self.remember(name, answer, totals.pop())
            for first, end, total, body in got:
                if len(body) != end - first:
                    raise Wrong(f"a part of {name} with {len(body)} bytes for {first}-{end - 1}")
                self.verify_part(name, answer, body, first, total)
            spans = [(first, end) for first, end, _, _ in got]
            self.check_cover(name, specs, spans, got[0][2])
            return
        if answer.status == 206:
            first, end, total = content_range(answer.fields.get("content-range", ""))
            self.remember(name, answer, total)
            self.check_cover(name, specs, [(first, end)], total)
            return self.verify_part(name, answer, answer.body, first, total)
        if answer.status == 416:
            for spec in specs:
                self.judge_part(name, spec, answer)
            return None
        # Overlaps that add up to more than all there is are answered with all of it.
        return self.judge_whole(name, answer)

    def check_cover(self, name: str, specs: list[Spec], spans: list[tuple[int, int]], total: int) -> None:
        asked = [span for span in (span_of(spec, total) for spec in specs) if span]
        for first, end in asked:
            if not any(start <= first and end <= stop for start, stop in spans):
                raise Wrong(f"no part of {name} with {first}-{end - 1} of {total} among {spans}")
        for start, stop in spans:
            if not any(start == first for first, _ in asked) or not any(stop == end for _, end in asked):
                raise Wrong(f"a part of {name}, {start}-{stop - 1} of {total}, that nobody asked for")

    def remember(self, name: str, answer: Answer, length: int) -> None:
        """One tag is of one state, which has one length."""
        tag = answer.fields.get("etag")
        if tag is None or length is None or length < 0:
            raise Wrong(f"a {answer.status} of {name} without ETag or length")
        if len(self.lengths) > KNOWN_MAX:
            self.lengths.clear()
        before = self.lengths.setdefault((name, opaque(tag)), length)
        if before != length:
            raise Wrong(f"{length} bytes of {name} under {tag}, which had {before}")
        if name not in STRETCHED:
            self.latest[name] = (tag, answer.fields.get("last-modified", ""), length)

    def verify_part(self, name: str, answer: Answer, body: bytes, first: int, total: int) -> None:
        if name in STRETCHED:
            return self.verify_stretched(name, answer, body, first, total)
        right = content.version(self.seed, name, total)[first : first + len(body)]
        self.verify(answer, None if body == right else f"wrong bytes of {name} from {first} on, of {total}", len(body))

    def verify_stretched(self, name: str, answer: Answer, body: bytes, first: int, total: int) -> None:
        """Zeros behind a cut are what the kernel makes of pages that it had been given to send: of a mapping
        those that were copied while the file was cut, of sendfile, which shares them, those that nobody had
        taken until then, and it may be in the midst of filling them again."""
        right = content.stream(self.seed, name, first, first + len(body))
        is_sendfile = total >= site.SENDFILE_MIN
        like = content.compare(body, right, first, is_shared=is_sendfile)
        if like == content.CLEARED and total > site.READ_MAX:
            by, end = "sendfile" if is_sendfile else "mapping", "short" if answer.missing else "complete"
            self.counts[f"cleared: by {by}, {end}"] += 1
            return
        trouble = None if like == content.RIGHT else f"{like} bytes of {name}, of {total}, from {first} on"
        self.verify(answer, trouble, len(body))

    def verify(self, answer: Answer, trouble: str | None, verified: int | None = None) -> None:
        if trouble:
            raise Wrong(trouble)
        self.counts["bytes verified"] += len(answer.body) if verified is None else verified
        self.counts["bodies verified"] += 1


STRETCHED = frozenset(site.stretched())
MAKERS = {
    "GET": "get",
    "GET, cut in place": "get_cut",
    "GET, in a guise": "get_guise",
    "HEAD": "head_of",
    "range": "range",
    "range, cut in place": "range_cut",
    "ranges": "ranges",
    "If-Range": "if_range",
    "If-None-Match": "if_none_match",
    "If-Modified-Since": "if_modified_since",
    "If-Match": "if_match",
    "404": "nothing",
    "redirect": "redirect",
    "OPTIONS": "options",
    "POST": "post",
    "POST, chunked": "post_chunked",
}


def expect(answer: Answer, *statuses: int) -> None:
    if answer.status not in statuses:
        raise Wrong(f"a {answer.status} where {' or '.join(map(str, statuses))} is right")


def opaque(tag: str) -> str:
    return tag.removeprefix("W/")


def span_of(spec: Spec, total: int) -> tuple[int, int] | None:
    """What a range comes to (RFC 9110 §14.1.2), its end exclusive; None if nothing is there."""
    first, last = spec
    if first is None:
        return (max(total - last, 0), total) if total and last else None
    end = total if last is None else min(last + 1, total)
    return (first, end) if first < total else None


def content_range(text: str) -> tuple[int, int, int]:
    """First byte, end (exclusive) and whole length."""
    found = CONTENT_RANGE.fullmatch(text)
    if not found:
        raise Wrong(f"a 206 with Content-Range {text!r}")
    first, last, total = map(int, found.groups())
    if not first <= last < total:
        raise Wrong(f"Content-Range {text!r}")
    return first, last + 1, total


def split_parts(body: bytes, boundary: bytes) -> list[tuple[int, int, int, bytes]]:
    """The parts of multipart/byteranges, each with its Content-Range. What stands between two boundaries
    is as long as that says: no byte of it is looked at for the next boundary."""
    parts, at = [], 0
    while True:
        opening = (b"\r\n" if parts else b"") + b"--" + boundary
        if not body.startswith(opening, at):
            raise Wrong(f"{body[at : at + 40]!r} where a boundary is due")
        at += len(opening)
        if body[at:] == b"--\r\n" and parts:
            return parts
        end = body.find(b"\r\n\r\n", at)
        lines = body[at:end].decode("latin-1").split("\r\n") if end >= 0 else []
        ranges = [line.partition(": ")[2] for line in lines if line.lower().startswith("content-range: ")]
        if len(ranges) != 1:
            raise Wrong(f"a part with the head {lines}")
        first, stop, total = content_range(ranges[0])
        at = end + 4
        parts.append((first, stop, total, body[at : at + stop - first]))
        at += stop - first
