"""The features, and what shows each. A check starts the server as its setup says and concludes from answers."""

import base64
import contextlib
import dataclasses
import gzip
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

from benchlib.console import Refusal

from . import answers
from .running import ANSWER_BOUND_S, Answer, Certificate, Ended, Running, Unanswered, started, wait_for
from .setups import AUTH_PASSWORD, AUTH_USER, MAX_AGE_S, PLAIN, Setup, Subject
from .tree import INDEX, LARGE_BYTES, LISTED, NOT_FOUND, SECRET, SIBLINGS, STYLE
from .tree import PLAIN as PLAIN_BODY

YES, NO, PARTIAL, MANUAL, UNCHECKED = "yes", "no", "partial", "by its manual", "not checked"
OWN_FIELD = "X-Own"
# Requests, one after the other, while one configuration or process follows another.
ASKED_MEANWHILE = 200
H2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
H2_SETTINGS = 4
RELOAD_BOUND_S = 20
# Above the second that a date in HTTP tells apart, and that a kept file may be trusted.
AGE_S = 2.2


@dataclasses.dataclass(frozen=True)
class Outcome:
    verdict: str
    note: str = ""  # what has to be said with it
    evidence: str = ""  # what was seen, for who doubts it


def yes_if(condition: bool, evidence: str = "", note: str = "") -> Outcome:
    return Outcome(YES, note, evidence) if condition else Outcome(NO, evidence=evidence)


@dataclasses.dataclass(frozen=True)
class Trial:
    """One feature of one server."""

    subject: Subject
    feature: str
    certificate: Certificate

    @property
    def setup(self) -> Setup:
        return self.subject.setups.get(self.feature, PLAIN)

    @property
    def has_option(self) -> bool:
        return self.feature in self.subject.setups

    @contextlib.contextmanager
    def start(self, setup: Setup | None = None, listener: socket.socket | None = None) -> Iterator[Running]:
        with started(self.subject, setup or self.setup, self.certificate, listener) as server:
            yield server


Check = Callable[[Trial], Outcome]


@dataclasses.dataclass(frozen=True)
class Feature:
    id: str
    title: str
    check: Check


def conclude(trial: Trial, check: Check) -> Outcome:
    """A server that does not know its option, or does not speak as asked, has answered, too."""
    if trial.setup.root and os.geteuid() != 0:
        return Outcome(UNCHECKED, "only root may", "not run as root")
    try:
        outcome = check(trial)
    except Refusal as refusal:
        words = " ".join(str(refusal).split())
        return Outcome(NO if answers.is_refused(words) else UNCHECKED, evidence=words)
    except Ended as end:
        words = " ".join(str(end).split())
        return Outcome(NO if not trial.has_option or answers.is_refused(words) else UNCHECKED, evidence=words)
    except Unanswered as silence:
        return Outcome(NO if trial.setup.transport != "tcp" or not trial.has_option else UNCHECKED, evidence=str(silence))
    except (OSError, subprocess.SubprocessError) as trouble:
        return Outcome(UNCHECKED, evidence=str(trouble))
    if outcome.verdict != NO and trial.setup.note and not outcome.note:
        return dataclasses.replace(outcome, note=trial.setup.note)
    return outcome


def shown(answer: Answer) -> str:
    return f"{answer.status}, {len(answer.body)} bytes"


# ---- Listings ----------------------------------------------------------------------


def listing(trial: Trial) -> Outcome:
    with trial.start() as server:
        page = server.ask("/list/", {"Accept": "text/html"})
    named = set(answers.order_of(list(LISTED), page.text)) == set(LISTED)
    return yes_if(page.status == 200 and "html" in page.field("Content-Type") and named, shown(page))


def sorting(trial: Trial) -> Outcome:
    """By size, which is not the order of names."""
    rising = sorted(LISTED, key=LISTED.__getitem__)
    ask = trial.setup.ask or {"ascending": "?sort=size&order=asc", "descending": "?sort=size&order=desc"}
    with trial.start() as server:
        up, down = (server.ask(f"/list/{ask[way]}", {"Accept": "text/html"}) for way in ("ascending", "descending"))
    orders = answers.order_of(list(LISTED), up.text), answers.order_of(list(LISTED), down.text)
    return yes_if(orders == (rising, rising[::-1]), f"{orders}")


def json_listing(trial: Trial) -> Outcome:
    ask = trial.setup.ask
    with trial.start() as server:
        page = server.ask(f"/list/{ask.get('target', '')}", {"Accept": ask.get("accept", "application/json")})
    document = answers.parse_json(page.text)
    return yes_if(page.status == 200 and set(LISTED) <= answers.names_in(document), shown(page))


# ---- What is not to be seen -----------------------------------------------------------


def kept_from(*targets: str) -> Check:
    """Nothing at these targets is told; as it starts by itself, or else with its option."""

    def is_kept(trial: Trial, setup: Setup) -> tuple[bool, str]:
        with trial.start(setup) as server:
            told = {target: server.ask(target) for target in targets}
        seen = [target for target, answer in told.items() if SECRET in answer.body]
        return not seen, f"{', '.join(seen) or 'none'} told of {', '.join(targets)}"

    def check(trial: Trial) -> Outcome:
        kept, evidence = is_kept(trial, PLAIN)
        if kept or not trial.has_option:
            return yes_if(kept, evidence)
        kept, with_option = is_kept(trial, trial.setup)
        return Outcome(PARTIAL, f"with `{trial.setup.said}`", evidence) if kept else Outcome(NO, evidence=with_option)

    return check


# ---- Ranges and conditions ---------------------------------------------------------------


def single_range(trial: Trial) -> Outcome:
    with trial.start() as server:
        part = server.ask("/plain.txt", {"Range": "bytes=10-19"})
    right = part.field("Content-Range") == f"bytes 10-19/{len(PLAIN_BODY)}" and part.body == PLAIN_BODY[10:20]
    return yes_if(part.status == 206 and right, shown(part))


def several_ranges(trial: Trial) -> Outcome:
    with trial.start() as server:
        answer = server.ask("/plain.txt", {"Range": "bytes=0-9,200-219"})
    total = len(PLAIN_BODY)
    expected = [(f"bytes 0-9/{total}", PLAIN_BODY[:10]), (f"bytes 200-219/{total}", PLAIN_BODY[200:220])]
    return yes_if(answer.status == 206 and answers.parts_of(answer.field("Content-Type"), answer.body) == expected, shown(answer))


def etag(trial: Trial) -> Outcome:
    with trial.start() as server:
        tag = server.ask("/plain.txt").field("ETag")
    return Outcome(YES, "weak", tag) if tag.startswith("W/") else yes_if(bool(tag), tag or "none")


def if_none_match(trial: Trial) -> Outcome:
    with trial.start() as server:
        tag = server.ask("/plain.txt").field("ETag")
        again = server.ask("/plain.txt", {"If-None-Match": tag or '"none"'})
        other = server.ask("/plain.txt", {"If-None-Match": '"another"'})
    return yes_if(bool(tag) and (again.status, again.body, other.status) == (304, b"", 200), shown(again))


def if_modified_since(trial: Trial) -> Outcome:
    with trial.start() as server:
        date = server.ask("/plain.txt").field("Last-Modified")
        again = server.ask("/plain.txt", {"If-Modified-Since": date}) if date else None
    return yes_if(again is not None and (again.status, again.body) == (304, b""), shown(again) if again else "no date")


def if_range(trial: Trial) -> Outcome:
    """A part if the validator is that of the file, all of it if it is not (RFC 9110 §13.1.5). A weak tag
    never is, and a date or a tag may be weak as long as the file is new (§8.8.1): so that it is let to age."""
    with trial.start() as server:
        os.utime(server.tree.root / "plain.txt", (1_600_000_000, 1_600_000_000))
        time.sleep(AGE_S)
        first = server.ask("/plain.txt")
        validators = [first.field("ETag"), first.field("Last-Modified")]
        usable = [validator for validator in validators if validator and not validator.startswith("W/")]
        parts = [server.ask("/plain.txt", {"Range": "bytes=0-9", "If-Range": each}).status for each in usable]
        whole = server.ask("/plain.txt", {"Range": "bytes=0-9", "If-Range": '"another"'}).status
    evidence = f"{dict(zip(usable, parts, strict=True))}, another {whole}"
    if whole != 200 or 206 not in parts:
        return Outcome(NO, evidence=evidence)
    by_tag = [status for validator, status in zip(usable, parts, strict=True) if validator.startswith('"')]
    return Outcome(YES, evidence=evidence) if 206 in by_tag else Outcome(PARTIAL, "by date only", evidence)


# ---- Codings -----------------------------------------------------------------------------


def precompressed(coding: str) -> Check:
    def check(trial: Trial) -> Outcome:
        suffix, body = SIBLINGS[coding]
        target = f"/coded{suffix}.txt"
        with trial.start() as server:
            coded = server.ask(target, {"Accept-Encoding": coding})
            plain = server.ask(target)
        sent = (coded.field("Content-Encoding"), coded.body) == (coding, body)
        return yes_if(sent and plain.body == PLAIN_BODY, f"{coded.field('Content-Encoding') or 'no coding'}, {shown(coded)}")

    return check


def compression(trial: Trial) -> Outcome:
    with trial.start() as server:
        coded = {coding: server.ask("/style.css", {"Accept-Encoding": coding}) for coding in ("gzip", "br", "zstd")}
    done = [
        coding
        for coding, answer in coded.items()
        if answer.field("Content-Encoding") == coding and len(answer.body) < len(STYLE)
    ]
    if "gzip" in done and gzip.decompress(coded["gzip"].body) != STYLE:
        return Outcome(NO, evidence="what is decompressed is not the file")
    return yes_if(bool(done), ", ".join(done) or "none", ", ".join(done))


# ---- Pages and fields ------------------------------------------------------------------------


def error_page(trial: Trial) -> Outcome:
    with trial.start() as server:
        answer = server.ask("/nothing-here")
    return yes_if((answer.status, answer.body.strip()) == (404, NOT_FOUND.strip()), shown(answer))


def spa(trial: Trial) -> Outcome:
    with trial.start() as server:
        route = server.ask("/some/route", {"Accept": "text/html"})
        file = server.ask("/plain.txt")
    return yes_if((route.status, route.body.strip(), file.body) == (200, INDEX.strip(), PLAIN_BODY), shown(route))


def header(trial: Trial) -> Outcome:
    with trial.start() as server:
        value = server.ask("/plain.txt").field(OWN_FIELD)
    return yes_if(value == "yes", value or "none")


def header_by_path(trial: Trial) -> Outcome:
    with trial.start() as server:
        there, elsewhere = (server.ask(target).field(OWN_FIELD) for target in ("/docs/guide.txt", "/plain.txt"))
    return yes_if((there, elsewhere) == ("yes", ""), f"{there!r} there, {elsewhere!r} elsewhere")


def content_type(trial: Trial) -> Outcome:
    with trial.start() as server:
        told = server.ask("/model.own").field("Content-Type")
    return yes_if(told == "application/x-own", told)


def expires(trial: Trial) -> Outcome:
    with trial.start() as server:
        answer = server.ask("/plain.txt")
    told = answers.directives(answer.field("Cache-Control"))
    evidence = f"Cache-Control: {answer.field('Cache-Control')}, Expires: {answer.field('Expires')}"
    if told.get("max-age") != str(MAX_AGE_S):
        return Outcome(NO, evidence=evidence)
    return Outcome(YES, evidence=evidence) if answer.field("Expires") else Outcome(PARTIAL, "max-age only, as a field", evidence)


def cors(trial: Trial) -> Outcome:
    origin = {"Origin": "http://elsewhere.example"}
    with trial.start() as server:
        shared = server.ask("/plain.txt", origin)
        asked = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "content-type"}
        preflight = server.ask("/plain.txt", origin | asked, "OPTIONS")
    field = "Access-Control-Allow-Origin"
    evidence = f"{field}: {shared.field(field)}; preflight {preflight.status}, {preflight.field(field)}"
    if shared.field(field) not in ("*", origin["Origin"]):
        return Outcome(NO, evidence=evidence)
    allowed = 200 <= preflight.status < 300 and bool(preflight.field(field))
    return Outcome(YES, evidence=evidence) if allowed else Outcome(PARTIAL, "no preflight", evidence)


# ---- Logs and figures ----------------------------------------------------------------------


def log_kind(trial: Trial) -> str | None:
    """Of the line about one request, in its log or in what it says."""
    with trial.start() as server:
        server.ask("/plain.txt", {"User-Agent": "features", "Referer": "http://elsewhere.example/"})
        said = server.end()
        lines = said.splitlines()
        if server.tree.log.exists():
            lines += server.tree.log.read_text(errors="replace").splitlines()
    return answers.logged(lines, "/plain.txt")


def log(trial: Trial) -> Outcome:
    kind = log_kind(trial)
    if kind in ("combined", "common"):
        return Outcome(YES, "" if kind == "combined" else "common", kind)
    return Outcome(PARTIAL, "in a format of its own", kind) if kind == "own" else Outcome(NO, evidence=kind or "no line")


def json_log(trial: Trial) -> Outcome:
    kind = log_kind(trial)
    return yes_if(kind == "json", kind or "no line")


def counters(trial: Trial) -> Outcome:
    """How many requests there were, asked of it while it runs."""
    asked = 7
    with trial.start() as server:
        for _ in range(asked):
            server.ask("/plain.txt")
        if report := server.fill(trial.setup.ask.get("report", "")):
            server.process.send_signal(signal.SIGUSR1)
            path = pathlib.Path(report)
            if not wait_for(path.exists):
                return Outcome(NO, evidence="no report")
            total = (answers.parse_json(path.read_text()) or {}).get("requests", {}).get("total")
            return yes_if(total == asked, f"{total} of {asked}", "SIGUSR1")
        answer = server.ask(trial.setup.ask.get("target", "/metrics"))
    # Being asked may count as one, too.
    told = answer.status == 200 and any(answers.counts(answer.text, number) for number in (asked, asked + 1))
    return yes_if(told, shown(answer), f"`{trial.setup.ask.get('target')}`")


def bottleneck(trial: Trial) -> Outcome:
    """What it says of a run when it ends."""
    with trial.start() as server:
        server.ask("/plain.txt")
        said = server.end()
    # Its sentence: who was the limit, or that a single request is too little to judge by.
    found = re.search(r"^.*\b(?:was the limit|bottleneck|too little traffic to judge)\b.*$", said, re.MULTILINE)
    return yes_if(found is not None, found[0].strip() if found else "nothing of the kind")


# ---- Listening ---------------------------------------------------------------------------------


def answers_there(trial: Trial) -> Outcome:
    """Over the transport that the setup names, with the file."""
    with trial.start() as server:
        answer = server.ask("/plain.txt")
    return yes_if(answer.body == PLAIN_BODY, shown(answer))


def tls(trial: Trial) -> Outcome:
    """Also spoken to those who have no option for it."""
    with trial.start() as server:
        answer = speaking_tls(server).ask("/plain.txt")
    return yes_if(answer.body == PLAIN_BODY, shown(answer))


def speaking_tls(server: Running) -> Running:
    return dataclasses.replace(server, setup=dataclasses.replace(server.setup, transport="tls"))


def unix_socket(trial: Trial) -> Outcome:
    return answers_there(trial) if trial.has_option else Outcome(NO, evidence="no option")


def activation(trial: Trial) -> Outcome:
    if trial.has_option:
        outcome = answers_there(trial)
        said = trial.setup.said
        return dataclasses.replace(outcome, note=f"with `{said}`") if outcome.verdict == YES and said else outcome
    with trial.start(Setup(transport="inherited")) as server:
        try:
            return yes_if(server.ask("/plain.txt").body == PLAIN_BODY)
        except Unanswered as silence:
            return Outcome(NO, evidence=str(silence))


def http2(trial: Trial) -> Outcome:
    """It takes h2 by ALPN, and its first frame is SETTINGS (RFC 9113 §3.4)."""
    with trial.start() as server, speaking_tls(server).connect(["h2"]) as connection:
        if connection.selected_alpn_protocol() != "h2":
            return Outcome(NO, evidence=f"ALPN {connection.selected_alpn_protocol()}")
        connection.sendall(H2_PREFACE)
        frame = connection.recv(9)
    return yes_if(len(frame) == 9 and frame[3] == H2_SETTINGS, frame.hex())


# ---- What changes files, or lets in -----------------------------------------------------------


def auth(trial: Trial) -> Outcome:
    told = base64.b64encode(f"{AUTH_USER}:{AUTH_PASSWORD}".encode()).decode()
    with trial.start() as server:
        without = server.ask("/plain.txt")
        with_it = server.ask("/plain.txt", {"Authorization": f"Basic {told}"})
    right = without.status == 401 and "basic" in without.field("WWW-Authenticate").lower() and with_it.body == PLAIN_BODY
    return yes_if(right, f"{without.status} without, {with_it.status} with")


def upload(trial: Trial) -> Outcome:
    content = b"uploaded\n"
    with trial.start() as server:
        if form := trial.setup.ask.get("form"):
            body = (
                b'--edge\r\nContent-Disposition: form-data; name="path"; filename="new.txt"\r\n'
                b"Content-Type: application/octet-stream\r\n\r\n" + content + b"\r\n--edge--\r\n"
            )
            answer = server.ask(form, {"Content-Type": "multipart/form-data; boundary=edge"}, "POST", body)
        else:
            answer = server.ask("/drop/new.txt", method="PUT", body=content)
        new = server.tree.root / "drop/new.txt"
        arrived = new.is_file() and new.read_bytes() == content
    return yes_if(arrived, shown(answer))


# ---- The process -------------------------------------------------------------------------------


def user(trial: Trial) -> Outcome:
    with trial.start() as server:
        server.ask("/plain.txt")
        effective = [answers.status_field(status, "Uid")[1] for status in server.statuses()]
    given_up = [uid != "0" for uid in effective]
    evidence = f"effective user of each process: {', '.join(effective)}"
    if all(given_up):
        return Outcome(YES, evidence=evidence)
    return Outcome(YES, "its workers", evidence) if any(given_up) else Outcome(NO, evidence=evidence)


def sandbox(trial: Trial) -> Outcome:
    """chroot and seccomp show in /proc. Landlock does not: whoever promises not to serve without it is
    taken at the word of its manual."""
    promise = trial.setup.ask.get("promise")
    try:
        with trial.start() as server:
            server.ask("/plain.txt")
            statuses = server.statuses()
            roots = [os.readlink(f"/proc/{pid}/root") for pid in server.family()]
    except Refusal as refusal:
        if promise and not answers.is_refused(str(refusal)):
            return Outcome(MANUAL, f"{promise}; this kernel has none", str(refusal))
        raise
    modes = [answers.status_field(status, "Seccomp") for status in statuses]
    privileges = [answers.status_field(status, "NoNewPrivs") for status in statuses]
    evidence = f"root {', '.join(roots)}; Seccomp {modes}; NoNewPrivs {privileges}"
    if any(root != "/" for root in roots):
        return Outcome(YES, "chroot", evidence)
    if any(mode not in ([], ["0"]) for mode in modes):
        return Outcome(YES, "seccomp", evidence)
    return Outcome(MANUAL, promise, evidence) if promise else Outcome(NO, evidence=evidence)


def graceful(trial: Trial) -> Outcome:
    if finishes(trial, signal.SIGTERM):
        return Outcome(YES, evidence="SIGTERM")
    if trial.setup.ended_by != signal.SIGTERM and finishes(trial, trial.setup.ended_by):
        return Outcome(PARTIAL, f"on {trial.setup.ended_by.name}, while SIGTERM cuts it", trial.setup.ended_by.name)
    return Outcome(NO, evidence="the response was cut")


def finishes(trial: Trial, signum: signal.Signals) -> bool:
    """Whether a response arrives whole that is under way when the signal comes, and the server ends then."""
    with trial.start() as server, server.connect() as connection:
        connection.sendall(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, _, body = read_until(connection, b"\r\n\r\n").partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise Unanswered(f"GET /large.bin: {head[:60]!r}")
        os.kill(server.process.pid, signum)
        # Until it has heeded the signal; a listener that stays open would be no fault of its own.
        wait_for(lambda: server.process.poll() is not None or refuses(server.address), 0.5)
        received = len(body)
        with contextlib.suppress(OSError):
            while received < LARGE_BYTES and (chunk := connection.recv(1 << 20)):
                received += len(chunk)
        return received == LARGE_BYTES and wait_for(lambda: server.process.poll() is not None, 15)


def read_until(connection: socket.socket, end: bytes) -> bytes:
    read = b""
    while end not in read and len(read) < 1 << 16:
        try:
            chunk = connection.recv(4096)
        except OSError as trouble:
            raise Unanswered(str(trouble)) from None
        if not chunk:
            raise Unanswered("the connection ended before a head")
        read += chunk
    return read


def refuses(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, ANSWER_BOUND_S).close()
    except ConnectionRefusedError:
        return True
    return False


def reload(trial: Trial) -> Outcome:
    """Another configuration, while somebody asks without pause: nobody is refused, and it takes effect."""
    if trial.setup.ask.get("handover"):
        return hand_over(trial)
    changed = trial.subject.setups.get("header", PLAIN)
    with trial.start() as server:
        how = trial.subject.reload
        if how is None:
            server.process.send_signal(signal.SIGHUP)
        else:
            trial.subject.argv(changed, server.place)
            if isinstance(how, signal.Signals):
                server.process.send_signal(how)
            else:
                command = [str(word) for word in how(server.place)]
                subprocess.run(command, check=True, capture_output=True, timeout=RELOAD_BOUND_S,
                               env={"HOME": str(server.place.scratch), "PATH": os.environ.get("PATH", os.defpath)})
        try:
            values = [server.ask("/plain.txt").field(OWN_FIELD) for _ in range(ASKED_MEANWHILE)]
        except Unanswered as silence:
            return Outcome(NO, evidence=str(silence))
        took_effect = values[-1] == "yes" or wait_for(lambda: server.ask("/plain.txt").field(OWN_FIELD) == "yes", 2)
        return yes_if(took_effect and server.process.poll() is None, f"{len(values)} requests answered meanwhile")


def hand_over(trial: Trial) -> Outcome:
    """One process after the other on a socket that is held by neither."""
    added = trial.subject.setups["header"]
    after = dataclasses.replace(trial.setup, options=trial.setup.options + added.options, block=added.block)
    with contextlib.ExitStack() as running:
        listener = running.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        old = running.enter_context(trial.start(listener=listener))
        if old.ask("/plain.txt").body != PLAIN_BODY:
            return Outcome(NO, evidence="does not take the socket")
        new = running.enter_context(trial.start(after, listener))
        if not wait_for(lambda: old.ask("/plain.txt").field(OWN_FIELD) == "yes"):
            return Outcome(NO, evidence="the second one does not answer")
        old.process.terminate()
        try:
            values = [old.ask("/plain.txt").field(OWN_FIELD) for _ in range(ASKED_MEANWHILE)]
        except Unanswered as silence:
            return Outcome(NO, evidence=str(silence))
        ended = wait_for(lambda: old.process.poll() is not None, 15)
        took_effect = values[-1] == "yes" and new.process.poll() is None
    evidence = f"{len(values)} requests answered meanwhile"
    if not (ended and took_effect):
        return Outcome(NO, evidence=evidence)
    return Outcome(PARTIAL, "a second process on the same inherited socket", evidence)


def fixed(trial: Trial) -> Outcome:
    with trial.start() as server:
        one, another = server.ask("/plain.txt"), server.ask("/no/such/file")
    same = one.body == another.body == b"fixed" and one.status == another.status == 200
    return yes_if(same, f"{shown(one)}; {shown(another)}")


FEATURES = [
    Feature("listing", "directory listing", listing),
    Feature("sorting", "sorted as the client asks", sorting),
    Feature("json-listing", "listing as JSON", json_listing),
    Feature("hidden", "hidden names not served by default", kept_from("/.hidden.txt", "/list/.hidden.txt")),
    Feature("link", "no link followed out of the directory by default", kept_from("/link.txt")),
    Feature("range", "a range", single_range),
    Feature("ranges", "several ranges", several_ranges),
    Feature("etag", "ETag", etag),
    Feature("if-none-match", "If-None-Match: 304", if_none_match),
    Feature("if-modified-since", "If-Modified-Since: 304", if_modified_since),
    Feature("if-range", "If-Range", if_range),
    *(Feature(coding, f"precompressed {coding}", precompressed(coding)) for coding in SIBLINGS),
    Feature("compression", "compression on the fly", compression),
    Feature("error-page", "own error page", error_page),
    Feature("spa", "one-page site (index for what is not there)", spa),
    Feature("header", "own field", header),
    Feature("header-by-path", "own field by path", header_by_path),
    Feature("type", "own type by extension", content_type),
    Feature("expires", "Expires and max-age", expires),
    Feature("cors", "CORS", cors),
    Feature("log", "access log, common or combined", log),
    Feature("json-log", "access log as JSON", json_log),
    Feature("counters", "counters to ask for", counters),
    Feature("bottleneck", "report: who was the bottleneck", bottleneck),
    Feature("fixed", "fixed response, as a target of benchmarks", fixed),
    Feature("unix", "unix socket", unix_socket),
    Feature("activation", "socket of systemd (LISTEN_FDS)", activation),
    Feature("tls", "TLS", tls),
    Feature("http2", "HTTP/2", http2),
    Feature("auth", "basic authentication", auth),
    Feature("upload", "uploads", upload),
    Feature("user", "gives up root", user),
    Feature("sandbox", "sandbox of its own", sandbox),
    Feature("graceful", "responses in flight finish on SIGTERM", graceful),
    Feature("reload", "new settings without a refused request", reload),
]
