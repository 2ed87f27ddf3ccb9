"""The others, each as its makers would set it up to do this: one process or
thread, no access log, no connection ended by its age, room for 10,000 of them.
Longer settings, and the reason for each line, are in scripts/peers/.
"""

import dataclasses
import pathlib
import string
import urllib.parse
from collections.abc import Callable

from .documents import LIPSUM, Document
from .places import SETTINGS
from .process import Server, Stage, start_on_free_port
from .servers import Contender
from .tools import (
    H2O,
    HAPROXY,
    HTTP_PROXY,
    LIGHTTPD,
    NGINX,
    NODE,
    STATIC_WEB_SERVER,
    STATICO,
    NodeModule,
    Tool,
    version_of,
)

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
    filled.write_text(text.substitute(values, port=port, documents=stage.documents, settings=SETTINGS))
    return filled


# ---- nginx: `return` is its way of answering without a file ----------------------


def nginx_argv(stage: Stage, template: str, port: int, **values: str) -> list:
    place = stage.scratch / f"{port}-nginx"
    place.mkdir()
    return [NGINX.path, "-p", place, "-c", settings(stage, template, port, **values)]


def nginx(name: str, *, sendfile: str, path: str | None = None) -> Contender:
    def argv_for(stage: Stage, port: int) -> list:
        return nginx_argv(stage, "nginx.conf", port, sendfile=sendfile)

    return peer(name, NGINX, argv_for, path=path)


def nginx_siege(workers: int, *, gzip_static: bool) -> Contender:
    name = f"nginx {workers}" + (" gzip_static" if gzip_static else "")
    values = {"workers": str(workers), "gzip_static": "on" if gzip_static else "off"}
    return peer(name, NGINX, lambda stage, port: nginx_argv(stage, "nginx-siege.conf", port, **values))


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


# ---- node: programs of ours ----------------------------------------------------------


def node(name: str, program: str, *arguments: str, path: str | None = None) -> Contender:
    return peer(name, NODE, lambda _stage, port: [NODE.path, SETTINGS / program, str(port), *arguments], path=path)


def node_cluster(workers: int) -> Contender:
    def argv_for(stage: Stage, port: int) -> list:
        return [NODE.path, SETTINGS / "cluster.js", str(port), str(workers), stage.documents / LIPSUM.name]

    return peer(f"node cluster {workers}", NODE, argv_for)


NODE_RAW = node("node net", "raw.js")
NODE_HTTP = node("node http", "http.js", "text/html")
# The app of 2011.
NODE_HELLO = node("node http", "http.js", "text/plain", "Hello World\n")


# ---- In front of another ---------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Front:
    """A proxy. It is started when it is known what it is in front of."""

    name: str
    tools: tuple[Tool | NodeModule, ...]
    argv_for: Callable[[Stage, int, int], list]  # from its port and the upstream's

    @property
    def missing(self) -> str | None:
        return next((tool.missing for tool in self.tools if tool.missing), None)

    def start(self, stage: Stage, upstream: Server) -> Server:
        """At the URL of the upstream, but for the port."""
        parts = urllib.parse.urlsplit(upstream.url)
        version = ", ".join(tool.version for tool in self.tools)
        name = f"{self.name} before {upstream.name}"
        path = parts.path.removeprefix("/")
        return start_on_free_port(stage, name, version, lambda port: self.argv_for(stage, port, parts.port), path)


def nginx_front(name: str, *, keepalive: str, persistence: str) -> Front:
    def argv_for(stage: Stage, port: int, upstream_port: int) -> list:
        values = {"upstream_port": str(upstream_port), "keepalive": keepalive, "persistence": persistence}
        return nginx_argv(stage, "nginx-proxy.conf", port, **values)

    return Front(name, (NGINX,), argv_for)


def http_proxy_front(name: str, persistence: str) -> Front:
    def argv_for(_stage: Stage, port: int, upstream_port: int) -> list:
        return [NODE.path, SETTINGS / "proxy.js", str(port), str(upstream_port), persistence, HTTP_PROXY.path]

    return Front(name, (NODE, HTTP_PROXY), argv_for)


def haproxy_front(name: str, reuse: str) -> Front:
    def argv_for(stage: Stage, port: int, upstream_port: int) -> list:
        filled = settings(stage, "haproxy.cfg", port, upstream_port=str(upstream_port), reuse=reuse)
        # In the foreground, one process.
        return [HAPROXY.path, "-db", "-f", filled]

    return Front(name, (HAPROXY,), argv_for)


FRONTS = (
    http_proxy_front("http-proxy", "close"),
    http_proxy_front("http-proxy, kept upstream", "keep"),
    nginx_front("nginx", keepalive="", persistence=""),
    nginx_front(
        "nginx, kept upstream",
        keepalive="keepalive 100;",
        persistence='proxy_http_version 1.1; proxy_set_header Connection "";',
    ),
    haproxy_front("haproxy", "safe"),
    haproxy_front("haproxy, kept upstream", "always"),
)
