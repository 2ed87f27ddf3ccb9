"""The others, each as its makers would set it up to do this: one process or
thread, no access log, no connection ended by its age, room for 10,000 of them.
Longer settings, and the reason for each line, are in scripts/peers/.
"""

import pathlib
import string
from collections.abc import Callable

from .documents import Document
from .places import SETTINGS
from .process import Server, Stage, start_on_free_port
from .servers import Contender
from .tools import H2O, LIGHTTPD, NGINX, STATIC_WEB_SERVER, STATICO, Tool, version_of

ArgvFor = Callable[[Stage, int], list]  # from the port


def peer(name: str, tool: Tool, argv_for: ArgvFor, *, path: str | None = None) -> Contender:
    def start(stage: Stage, document: Document) -> Server:
        at = document.name if path is None else path
        return start_on_free_port(stage, name, tool.version, lambda port: argv_for(stage, port), at)

    return Contender(name, tool.name, start, lambda: tool.missing)


def settings(stage: Stage, template: str, port: int, **values: str) -> pathlib.Path:
    """Fills in a file of scripts/peers/. Named after its port: several of a kind run at once."""
    text = string.Template((SETTINGS / template).read_text())
    filled = stage.scratch / f"{port}-{template}"
    filled.write_text(text.substitute(values, port=port, documents=stage.documents))
    return filled


# ---- nginx: `return` is its way of answering without a file ----------------------


def nginx(name: str, *, sendfile: str, path: str | None = None) -> Contender:
    def argv_for(stage: Stage, port: int) -> list:
        place = stage.scratch / f"{port}-nginx"
        place.mkdir()
        return [NGINX.path, "-p", place, "-c", settings(stage, "nginx.conf", port, sendfile=sendfile)]

    return peer(name, NGINX, argv_for, path=path)


NGINX_2012 = nginx("nginx 2012", sendfile="off")
NGINX_SENDFILE = nginx("nginx sendfile", sendfile="on")
NGINX_RETURN = nginx("nginx return", sendfile="off", path="fixed")


# ---- lighttpd, h2o ---------------------------------------------------------------


def lighttpd_argv(stage: Stage, port: int) -> list:
    return [LIGHTTPD.path, "-D", "-f", settings(stage, "lighttpd.conf", port)]


def h2o_argv(stage: Stage, port: int) -> list:
    return [H2O.path, "-m", "worker", "-c", settings(stage, "h2o.yaml", port)]


LIGHTTPD_FILES = peer("lighttpd", LIGHTTPD, lighttpd_argv)
H2O_FILES = peer("h2o", H2O, h2o_argv)


# ---- static-web-server -----------------------------------------------------------

# One runtime thread for its one CPU is its default. What is switched off, tared
# does not do: compression, caching advice, a log. Its cache in memory is an
# experiment that its makers do not build by default.
STATIC_WEB_SERVER_OPTIONS = [
    "--threads-multiplier=1",
    "--log-level=error",
    "--compression=false",
    "--compression-static=false",
    "--cache-control-headers=false",
    "--security-headers=false",
    "--directory-listing=false",
]


def static_web_server_argv(stage: Stage, port: int) -> list:
    where = ["--host=127.0.0.1", f"--port={port}", f"--root={stage.documents}"]
    return [STATIC_WEB_SERVER.path, *where, *STATIC_WEB_SERVER_OPTIONS]


STATIC_WEB_SERVER_FILES = peer("static-web-server", STATIC_WEB_SERVER, static_web_server_argv)


# ---- statico: fixed answers only -------------------------------------------------


def statico(runtime: str) -> Contender:
    def argv_for(_stage: Stage, port: int) -> list:
        where = ["--address", "127.0.0.1", "--ports", str(port), "--listen-backlog", "4096"]
        # Without Nagle, as everybody here.
        return [STATICO.path, "--runtime", runtime, "--threads", "1", "--tcp-nodelay", *where]

    return peer(f"statico {runtime}", STATICO, argv_for)


STATICO_TOKIO = statico("tokio")
STATICO_MONOIO = statico("monoio")


# ---- httpterm: fixed answers only, and only where somebody has it ------------------


def httpterm(program: pathlib.Path | None) -> Contender:
    def start(stage: Stage, _document: Document) -> Server:
        version = version_of(program, "httpterm", "-v", r"version (\S+)")
        return start_on_free_port(stage, "httpterm", version, argv_for, HTTPTERM_PATH)

    def argv_for(port: int) -> list:
        return [program, "-n", "16384", "-L", f"127.0.0.1:{port}"]

    missing = None if program else HTTPTERM_MISSING
    return Contender("httpterm", "httpterm", start, lambda: missing)


HTTPTERM_MISSING = "httpterm is missing; build https://github.com/wtarreau/httpterm and give --httpterm PATH"
# An answer of 0 bytes, and the connection kept if the client wants it.
HTTPTERM_PATH = "?s=0"
