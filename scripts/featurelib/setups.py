"""How each server is told to do each thing: by its own options, and nothing beside it.

What a server has no option for is asked of it as it starts with none, so that an absent
setup is a question, too. A server that does not know an option says so itself, and that
is an answer. Between two @ stands what is known only when it starts.
"""

import dataclasses
import pathlib
import signal
from collections.abc import Callable, Mapping

from benchlib.tools import CADDY, DARKHTTPD, MINISERVE, NGINX, STATIC_WEB_SERVER, Tool

AUTH_USER, AUTH_PASSWORD = "user", "sesame"
# Of that password, as `caddy hash-password` makes it.
AUTH_BCRYPT = "$2a$14$j8QVkx4wURyiTvotLCQEVuZ7pfG7RwyxgzSjezfeJDxBdD.wDUs.y"
OWN = "X-Own: yes"
ALLOW = "GET, HEAD, OPTIONS"
MAX_AGE_S = 30 * 24 * 3600


@dataclasses.dataclass(frozen=True)
class Setup:
    options: tuple[str, ...] = ()  # on the command line
    block: str = ""  # lines of the configuration, for the one site
    around: str = ""  # lines for all sites
    top: str = ""  # lines above those
    transport: str = "tcp"  # or tls, unix, inherited
    listens: bool = True  # on its own port, and not on what it inherits
    root: bool = False  # only root may
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)  # that the options name, in the scratch directory
    ask: Mapping[str, str] = dataclasses.field(default_factory=dict)  # how the check is to ask, where servers differ
    ended_by: signal.Signals = signal.SIGTERM  # what ends it in order
    note: str = ""  # goes with a cell that is not "no"

    @property
    def said(self) -> str:
        """The options as a person would read them."""
        lines = " ".join(line.strip() for line in (self.top + self.around + self.block).splitlines())
        return " ".join([*(word if " " not in word else f"'{word}'" for word in self.options), lines]).strip()


Setups = Mapping[str, Setup]
PLAIN = Setup()


@dataclasses.dataclass(frozen=True)
class Place:
    """Where one start happens."""

    scratch: pathlib.Path
    root: pathlib.Path
    port: int
    fill: Callable[[str], str]  # puts in what stands between two @

    def write(self, name: str, text: str) -> pathlib.Path:
        path = self.scratch / name
        path.write_text(self.fill(text))
        return path


@dataclasses.dataclass(frozen=True)
class Subject:
    name: str
    tool: Tool
    argv: Callable[[Setup, Place], list]  # writes what files it takes
    setups: Setups
    # A new configuration without a new process: argv of a command, or a signal.
    reload: Callable[[Place], list] | signal.Signals | None = None


def options(*words: str, **others) -> Setup:
    return Setup(words, **others)


def block(lines: str, **others) -> Setup:
    return Setup(block=lines, **others)


SORTED_BY_WORDS = {"ascending": "?sort=size&order=asc", "descending": "?sort=size&order=desc"}

# ---- tared -----------------------------------------------------------------------


def tared_argv(program: pathlib.Path) -> Callable[[Setup, Place], list]:
    def argv(setup: Setup, place: Place) -> list:
        where = {"tcp": f"127.0.0.1:{place.port}", "unix": "unix:@socket@", "tls": f"127.0.0.1:{place.port}"}
        listen = ["--listen", where.get(setup.transport, where["tcp"])] if setup.listens else []
        directory = [] if "--fixed" in setup.options else [place.root]
        return [program, *listen, *setup.options, *directory]

    return argv


TARED: Setups = {
    "listing": options("--list"),
    "sorting": options("--list", ask=SORTED_BY_WORDS),
    "json-listing": options("--list", ask={"target": "?format=json"}),
    "gzip": options("--precompressed"),
    "br": options("--precompressed"),
    "zstd": options("--precompressed"),
    "error-page": options("--error-page", "404=/404.html"),
    "spa": options("--spa"),
    "header": options("--header", OWN),
    "header-by-path": options("--header-for", "docs/*", OWN),
    "type": options("--mime", "own=application/x-own"),
    "expires": options("--expires", "30d"),
    "cors": options("--cors"),
    "log": options("--log", "@log@", "--log-format", "combined"),
    "json-log": options("--log", "@log@", "--log-format", "json"),
    "unix": Setup(transport="unix"),
    "activation": Setup(transport="inherited", listens=False),
    "user": options("--user", "nobody", root=True),
    "sandbox": options("--sandbox", "on", ask={"promise": "Landlock, and no start without it under --sandbox on"}),
    "reload": Setup(transport="inherited", listens=False, ask={"handover": "yes"}),
    "fixed": options("--fixed", "--body", "fixed"),
    "counters": options("--report", "json", "--report-file", "@scratch@/report", ask={"report": "@scratch@/report"}),
    "bottleneck": options("--report", "text"),
}

# ---- nginx -----------------------------------------------------------------------


def nginx_argv(setup: Setup, place: Place) -> list:
    """With its master, as it is meant to be run. Its options are those of `listen`."""
    listen = {"tls": f"127.0.0.1:{place.port} ssl {' '.join(setup.options)}", "unix": "unix:@socket@"}
    where = listen.get(setup.transport, f"127.0.0.1:{place.port}")
    temporary = "".join(
        f"    {kind}_temp_path temp_{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = (
        f"daemon off;\nworker_processes 1;\npid nginx.pid;\nerror_log stderr;\n{setup.top}\nevents {{ }}\n"
        f"http {{\n    include mime.types;\n    access_log off;\n{temporary}{setup.around}\n"
        f"    server {{\n        listen {where};\n        root {place.root};\n{setup.block}\n    }}\n}}\n"
    )
    place.write("mime.types", "types { text/html html; text/css css; text/plain txt; }\n")
    return [NGINX.path, "-p", place.scratch, "-c", place.write("nginx.conf", text)]


NGINX_JSON = (
    "log_format json escape=json "
    '\'{"time":"$time_iso8601","request":"$request","status":$status,"bytes":$body_bytes_sent}\';\n'
)
NGINX_TLS = "ssl_certificate @certificate@; ssl_certificate_key @key@;"

NGINX_SETUPS: Setups = {
    "listing": block("autoindex on;"),
    "sorting": block("autoindex on;", ask=SORTED_BY_WORDS),
    "json-listing": block("autoindex on; autoindex_format json;"),
    "hidden": block(r"location ~ /\. { return 404; }"),
    "link": block("disable_symlinks on;"),
    "gzip": block("gzip_static on;"),
    "compression": block("gzip on; gzip_types text/css;"),
    "error-page": block("error_page 404 /404.html;"),
    "spa": block("try_files $uri /index.html;"),
    "header": block("add_header X-Own yes;"),
    "header-by-path": block("location /docs/ { add_header X-Own yes; }"),
    "type": block("location ~ [.]own$ { types { application/x-own own; } }"),
    "expires": block("expires 30d;"),
    "cors": block(
        "location / {\nadd_header Access-Control-Allow-Origin *;\n"
        "if ($request_method = OPTIONS) { add_header Access-Control-Allow-Origin *; "
        f'add_header Access-Control-Allow-Methods "{ALLOW}"; return 204; }}\n}}'
    ),
    "log": block("access_log @log@ combined;"),
    "json-log": block("access_log @log@ json;", around=NGINX_JSON),
    "unix": Setup(transport="unix"),
    "activation": Setup(transport="inherited"),
    "tls": block(NGINX_TLS, transport="tls"),
    "http2": block(NGINX_TLS, options=("http2",), transport="tls"),
    "auth": block(
        "auth_basic site; auth_basic_user_file @scratch@/users;",
        files={"users": f"{AUTH_USER}:{{PLAIN}}{AUTH_PASSWORD}\n"},
    ),
    "upload": block("location /drop/ { dav_methods PUT; }"),
    "user": Setup(top="user nobody @nobodys@;", root=True),
    "graceful": Setup(ended_by=signal.SIGQUIT),
    "reload": Setup(note="SIGHUP"),
    "fixed": block('location / { return 200 "fixed"; }'),
    "counters": block("location = /status { stub_status; }", ask={"target": "/status"}),
}

# ---- darkhttpd ---------------------------------------------------------------------


def darkhttpd_argv(setup: Setup, place: Place) -> list:
    return [DARKHTTPD.path, place.root, "--addr", "127.0.0.1", "--port", str(place.port), *setup.options]


DARKHTTPD_SETUPS: Setups = {
    "hidden": options("--hide-dotfiles"),
    "link": options("--chroot", root=True),
    "header": options("--header", OWN),
    "type": options("--mimetypes", "@scratch@/types", files={"types": "application/x-own own\n"}),
    "expires": options("--header", f"Cache-Control: max-age={MAX_AGE_S}"),
    "cors": options("--header", "Access-Control-Allow-Origin: *"),
    "log": options("--log", "@log@"),
    "auth": options("--auth", f"{AUTH_USER}:{AUTH_PASSWORD}"),
    "user": options("--uid", "nobody", "--gid", "@nobodys@", root=True),
    "sandbox": options("--chroot", root=True),
}

# ---- miniserve -----------------------------------------------------------------------


def miniserve_argv(setup: Setup, place: Place) -> list:
    where = ["-i", "@socket@"] if setup.transport == "unix" else ["-i", "127.0.0.1", "-p", str(place.port)]
    return [MINISERVE.path, *where, *setup.options, place.root]


MINISERVE_SETUPS: Setups = {
    "sorting": Setup(ask=SORTED_BY_WORDS),
    "json-listing": Setup(ask={"accept": "application/json"}),
    "link": options("--no-symlinks"),
    "compression": options("--compress-response"),
    "spa": options("--spa", "--index", "index.html"),
    "header": options("--header", OWN),
    "expires": options("--header", f"Cache-Control: max-age={MAX_AGE_S}"),
    "cors": options("--header", "Access-Control-Allow-Origin: *"),
    "log": options("--verbose"),
    "json-log": options("--verbose"),
    "unix": Setup(transport="unix"),
    "tls": options("--tls-cert", "@certificate@", "--tls-key", "@key@", transport="tls"),
    "http2": options("--tls-cert", "@certificate@", "--tls-key", "@key@", transport="tls"),
    "auth": options("--auth", f"{AUTH_USER}:{AUTH_PASSWORD}"),
    "upload": options("--upload-files=/drop", ask={"form": "/upload?path=/drop"}),
}

# ---- static-web-server ------------------------------------------------------------------


def static_web_server_argv(setup: Setup, place: Place) -> list:
    where = ["--host", "127.0.0.1", "--port", str(place.port)] if setup.listens else []
    config = ["--config-file", place.write("sws.toml", setup.block)] if setup.block else []
    return [STATIC_WEB_SERVER.path, *where, "--root", place.root, *config, *setup.options]


def sws_headers(source: str, field: str) -> Setup:
    name, value = field.split(": ")
    return block(f'[advanced]\n[[advanced.headers]]\nsource = "{source}"\nheaders = {{ "{name}" = "{value}" }}\n')


SWS_TLS = ("--http2", "--http2-tls-cert", "@certificate@", "--http2-tls-key", "@key@")
SWS_SETUPS: Setups = {
    "listing": options("--directory-listing"),
    "sorting": options("--directory-listing", ask={"ascending": "?sort=4", "descending": "?sort=5"}),
    "json-listing": options("--directory-listing", "--directory-listing-format=json"),
    "gzip": options("--compression-static"),
    "br": options("--compression-static"),
    "zstd": options("--compression-static"),
    "error-page": options("--page404", "404.html"),
    "spa": options("--page-fallback", "@root@/index.html"),
    "header": sws_headers("**", OWN),
    "header-by-path": sws_headers("/docs/**", OWN),
    "type": sws_headers("**/*.own", "Content-Type: application/x-own"),
    "expires": sws_headers("**", f"Cache-Control: max-age={MAX_AGE_S}"),
    "cors": options("--cors-allow-origins", "*"),
    "log": options("--log-level", "info"),
    "json-log": options("--log-level", "info"),
    "activation": options("--fd", "0", transport="inherited", listens=False),
    "tls": options(*SWS_TLS, transport="tls"),
    "http2": options(*SWS_TLS, transport="tls"),
    "auth": options("--basic-auth", f"{AUTH_USER}:{AUTH_BCRYPT}"),
    "reload": options("--fd", "0", transport="inherited", listens=False, ask={"handover": "yes"}),
    "fixed": options(
        "--maintenance-mode", "--maintenance-mode-status", "200", "--maintenance-mode-file", "@scratch@/fixed.html",
        files={"fixed.html": "fixed"}, note="its maintenance mode, with status 200",
    ),
    "counters": options("--metrics", ask={"target": "/metrics"}),
}

# ---- Caddy ---------------------------------------------------------------------------------


def caddy_argv(setup: Setup, place: Place) -> list:
    scheme = "https" if setup.transport == "tls" else "http"
    bind = {"unix": "unix/@socket@", "inherited": "fd/3"}.get(setup.transport, "127.0.0.1")
    serve = "" if "file_server" in setup.block else "    file_server\n"
    text = (
        f"{{\n    admin unix/{place.scratch}/admin.sock\n    auto_https off\n{setup.around}\n}}\n"
        f"{scheme}://:{place.port} {{\n    bind {bind}\n    root * {place.root}\n{setup.block}\n{serve}}}\n"
    )
    return [CADDY.path, "run", "--adapter", "caddyfile", "--config", place.write("Caddyfile", text)]


def caddy_reload(place: Place) -> list:
    config = place.scratch / "Caddyfile"
    return [CADDY.path, "reload", "--adapter", "caddyfile", "--config", config,
            "--address", f"unix/{place.scratch}/admin.sock"]


CADDY_PRECOMPRESSED = block("file_server {\n precompressed zstd br gzip\n}")
CADDY_SETUPS: Setups = {
    "listing": block("file_server browse"),
    "sorting": block("file_server browse", ask=SORTED_BY_WORDS),
    "json-listing": block("file_server browse", ask={"accept": "application/json"}),
    "hidden": block("file_server {\n hide .*\n}"),
    "gzip": CADDY_PRECOMPRESSED,
    "br": CADDY_PRECOMPRESSED,
    "zstd": CADDY_PRECOMPRESSED,
    "compression": block("encode zstd gzip"),
    "error-page": block("handle_errors {\n rewrite * /404.html\n file_server\n}\nfile_server"),
    "spa": block("try_files {path} /index.html"),
    "header": block("header X-Own yes"),
    "header-by-path": block("header /docs/* X-Own yes"),
    "type": block("@own path *.own\nheader @own Content-Type application/x-own"),
    "expires": block(f"header Cache-Control max-age={MAX_AGE_S}"),
    "cors": block(
        "header Access-Control-Allow-Origin *\n@preflight method OPTIONS\n"
        f'header @preflight Access-Control-Allow-Methods "{ALLOW}"\nrespond @preflight 204'
    ),
    "log": block("log {\n output file @log@\n}"),
    "json-log": block("log {\n output file @log@\n}"),
    "unix": Setup(transport="unix"),
    "activation": Setup(transport="inherited"),
    "tls": block("tls @certificate@ @key@", transport="tls"),
    "http2": block("tls @certificate@ @key@", transport="tls"),
    "auth": block(f"basicauth {{\n {AUTH_USER} {AUTH_BCRYPT}\n}}"),
    "reload": Setup(note="caddy reload"),
    "fixed": block('respond "fixed" 200'),
    "counters": block("metrics /metrics", around="servers {\n metrics\n}", ask={"target": "/metrics"}),
}


def subjects(tared: Tool, program: pathlib.Path) -> list[Subject]:
    return [
        Subject("tared", tared, tared_argv(program), TARED),
        Subject("nginx", NGINX, nginx_argv, NGINX_SETUPS, signal.SIGHUP),
        Subject("darkhttpd", DARKHTTPD, darkhttpd_argv, DARKHTTPD_SETUPS),
        Subject("miniserve", MINISERVE, miniserve_argv, MINISERVE_SETUPS),
        Subject("static-web-server", STATIC_WEB_SERVER, static_web_server_argv, SWS_SETUPS),
        Subject("Caddy", CADDY, caddy_argv, CADDY_SETUPS, caddy_reload),
    ]
