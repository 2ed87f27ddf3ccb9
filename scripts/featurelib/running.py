"""One server, started as a setup says, and asked. Loopback and unix sockets only.

Every wait is bounded, and every server is ended when its `with` is left.
"""

import contextlib
import dataclasses
import grp
import http.client
import os
import pathlib
import pwd
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping

from benchlib.console import Refusal
from benchlib.process import (
    POLL_INTERVAL_S,
    Stage,
    descendants_of,
    find_free_port,
    last_words,
    listens_on,
    wait_until_ready,
)

from .setups import Place, Setup, Subject
from .tree import Tree, make_tree

ANSWER_BOUND_S = 5
END_BOUND_S = 15
BACKLOG = 64
CERTIFICATE_BOUND_S = 30

# As systemd hands a socket down: descriptor 3, and the process named that is to take it.
HANDS_DOWN = 'exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=http exec "$@"'


class Unanswered(Exception):
    """Why there was no answer of HTTP."""


class Ended(Unanswered):
    """Since the server has ended, with its last words."""


@dataclasses.dataclass(frozen=True)
class Certificate:
    certificate: pathlib.Path
    key: pathlib.Path


def make_certificate(directory: pathlib.Path) -> Certificate:
    made = Certificate(directory / "certificate.pem", directory / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", made.key, "-out", made.certificate]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=CERTIFICATE_BOUND_S)
    except (OSError, subprocess.SubprocessError) as trouble:
        raise Refusal(f"cannot make a certificate: {trouble}; apt-get install openssl") from None
    return made


@dataclasses.dataclass(frozen=True)
class Answer:
    status: int
    fields: http.client.HTTPMessage
    body: bytes

    def field(self, name: str) -> str:
        """Empty if there is none."""
        return self.fields.get(name, "")

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")


@dataclasses.dataclass(frozen=True)
class Running:
    setup: Setup
    place: Place
    tree: Tree
    process: subprocess.Popen
    log: pathlib.Path
    address: tuple[str, int] | str
    fill: Callable[[str], str]

    def connect(self, protocols: list[str] | None = None) -> socket.socket:
        try:
            if isinstance(self.address, str):
                raw = socket.socket(socket.AF_UNIX)
                raw.settimeout(ANSWER_BOUND_S)
                raw.connect(self.address)
            else:
                raw = socket.create_connection(self.address, ANSWER_BOUND_S)
            if self.setup.transport != "tls":
                return raw
            # The certificate is our own of a minute ago; what is asked is whether TLS is spoken.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            context.set_alpn_protocols(protocols or ["http/1.1"])
            return context.wrap_socket(raw, server_hostname="localhost")
        except OSError as trouble:
            raise self.silence(f"no connection: {trouble}") from None

    def ask(
        self, target: str, fields: Mapping[str, str] | None = None, method: str = "GET", body: bytes | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("localhost", timeout=ANSWER_BOUND_S)
        connection.sock = self.connect()
        try:
            connection.request(method, target, body, dict(fields or {}))
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException) as trouble:
            raise self.silence(f"{method} {target}: {type(trouble).__name__} {trouble}") from None
        finally:
            connection.close()

    def silence(self, what: str) -> Unanswered:
        if self.process.poll() is None:
            return Unanswered(what)
        return Ended(f"{what}; it ended with status {self.process.returncode}: {last_words(self.log)}")

    def family(self) -> list[int]:
        return [self.process.pid, *descendants_of(self.process.pid)]

    def statuses(self) -> list[str]:
        """/proc/PID/status of it and its children."""
        return [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in self.family()]

    def end(self) -> str:
        """All that it said, once it has ended in order."""
        self.process.send_signal(self.setup.ended_by)
        try:
            self.process.wait(END_BOUND_S)
        except subprocess.TimeoutExpired:
            raise Unanswered(f"it did not end within {END_BOUND_S} s") from None
        return self.log.read_text(errors="replace")


def wait_for(found: Callable[[], bool], bound_s: float = ANSWER_BOUND_S) -> bool:
    deadline = time.monotonic() + bound_s
    while not found():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True


@contextlib.contextmanager
def started(subject: Subject, setup: Setup, certificate: Certificate, listener: socket.socket | None = None) -> Iterator[Running]:
    """With a tree of its own. `listener` is what is handed down, if there is one already."""
    with tempfile.TemporaryDirectory(prefix="tared-features-") as directory, contextlib.ExitStack() as running:
        scratch = pathlib.Path(directory)
        tree = make_tree(scratch)
        place, fill = place_of(scratch, tree, certificate)
        for name, text in setup.files.items():
            place.write(name, text)
        yield launch(subject, setup, place, tree, fill, running, listener)


def place_of(scratch: pathlib.Path, tree: Tree, certificate: Certificate) -> tuple[Place, Callable[[str], str]]:
    port = find_free_port()
    known = {
        "root": tree.root,
        "scratch": scratch,
        "port": port,
        "log": tree.log,
        "socket": tree.socket,
        "certificate": certificate.certificate,
        "key": certificate.key,
        "nobodys": grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name,
    }

    def fill(text: str) -> str:
        for name, value in known.items():
            text = text.replace(f"@{name}@", str(value))
        return text

    return Place(scratch, tree.root, port, fill), fill


def launch(
    subject: Subject,
    setup: Setup,
    place: Place,
    tree: Tree,
    fill: Callable[[str], str],
    running: contextlib.ExitStack,
    listener: socket.socket | None = None,
) -> Running:
    # Settings of whoever runs this are not the servers'.
    alone = ["env", "-i", f"PATH={os.environ.get('PATH', os.defpath)}", f"HOME={place.scratch}"]
    stage = Stage(place.scratch, running, frozenset(os.sched_getaffinity(0)), alone)
    handed = subprocess.DEVNULL
    if setup.transport == "inherited":
        if listener is None:
            listener = running.enter_context(socket.create_server(("127.0.0.1", 0), backlog=BACKLOG))
        handed = listener
        stage.under = [*alone, "sh", "-c", HANDS_DOWN, "sh"]
    argv = [fill(str(word)) for word in subject.argv(setup, place)]
    process, log = stage.launch(argv, handed)
    if setup.transport == "unix":
        wait_until_ready(subject.name, process, log, lambda: accepts(tree.socket))
        address = str(tree.socket)
    elif setup.transport == "inherited":
        # The socket takes connections before anybody is there: whoever asks will see.
        address = listener.getsockname()
    else:
        wait_until_ready(subject.name, process, log, lambda: listens_on(process.pid, place.port))
        address = ("127.0.0.1", place.port)
    return Running(setup, place, tree, process, log, address, fill)


def accepts(path: pathlib.Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
        probe.connect(str(path))
        return True
    return False
