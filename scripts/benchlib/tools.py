"""What has to be installed, where it is, and how to get it. Nothing is installed here."""

import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess

from .places import CACHE, NODE_MODULES

VERSION_BOUND_S = 10


@dataclasses.dataclass(frozen=True)
class Tool:
    name: str
    install: str  # the line that gets it
    version_flag: str
    version_pattern: str

    @property
    def path(self) -> str | None:
        # Debian keeps nginx in /usr/sbin, which is not in every user's PATH.
        places = [str(CACHE / "bin"), str(NODE_MODULES / ".bin"), os.environ.get("PATH", os.defpath), "/usr/sbin"]
        return shutil.which(self.name, path=":".join(places))

    @property
    def missing(self) -> str | None:
        return None if self.path else f"{self.name} is missing; {self.install}"

    @functools.cached_property
    def version(self) -> str:
        return version_of(self.path, self.name, self.version_flag, self.version_pattern)


def version_of(path: str | pathlib.Path, name: str, flag: str, pattern: str) -> str:
    # Neither stderr nor a bad status is a failure: nginx prints its version on
    # stderr, and wrk exits with 1 after its own.
    shown = subprocess.run(
        [path, flag],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=VERSION_BOUND_S,
    ).stdout
    found = re.search(pattern, shown, re.MULTILINE)
    return f"{name} {found[1] if found else 'of unknown version'}"


@dataclasses.dataclass(frozen=True)
class NodeModule:
    """No program: a program of ours is told where it is."""

    name: str
    install: str

    @property
    def path(self) -> str:
        return str(NODE_MODULES / self.name)

    @property
    def missing(self) -> str | None:
        return None if os.path.isdir(self.path) else f"{self.name} is missing; {self.install}"

    @functools.cached_property
    def version(self) -> str:
        described = json.loads((NODE_MODULES / self.name / "package.json").read_text())
        return f"{self.name} {described['version']}"


def debian(package: str) -> str:
    return f"apt-get install {package}"


def crate(name: str, version: str, *options: str) -> str:
    return " ".join(["cargo install --locked --root", str(CACHE), *options, "--version", version, name])


# Knows which version, and how.
SETUP = "run scripts/setup"

CC = Tool("cc", debian("gcc"), "--version", r"^\S+ (.+)")
PYTHON = Tool("python3", debian("python3"), "--version", r"^Python (\S+)")
WRK = Tool("wrk", debian("wrk"), "-v", r"^wrk (\S+)")
AB = Tool("ab", debian("apache2-utils"), "-V", r"Version (\S+)")
VALGRIND = Tool("valgrind", debian("valgrind"), "--version", r"valgrind-(\S+)")
NGINX = Tool("nginx", debian("nginx-light"), "-v", r"nginx/(\S+)")
LIGHTTPD = Tool("lighttpd", debian("lighttpd"), "-v", r"lighttpd/(\S+)")
H2O = Tool("h2o", debian("h2o"), "-v", r"h2o version (\S+)")
STATIC_WEB_SERVER = Tool("static-web-server", crate("static-web-server", "2.44.0"), "--version", r"(\d\S+)")
MINISERVE = Tool("miniserve", SETUP, "--version", r"^miniserve (\S+)")
DARKHTTPD = Tool("darkhttpd", SETUP, "--help", r"^darkhttpd/([\d.]+)")
CADDY = Tool("caddy", debian("caddy"), "version", r"^v?(\S+)")
STATICO = Tool("statico", crate("statico", "0.21.1", "--features", "monoio"), "--version", r"(\d\S+)")
SIEGE = Tool("siege", debian("siege"), "-V", r"^SIEGE (\S+)")
HTTPERF = Tool("httperf", debian("httperf"), "--version", r"^httperf: httperf-(\S+)")
H2LOAD = Tool("h2load", debian("nghttp2-client"), "--version", r"nghttp2/(\S+)")
CHROMIUM = Tool("chromium", debian("chromium"), "--version", r"^Chromium (\S+)")
HAPROXY = Tool("haproxy", debian("haproxy"), "-v", r"^HAProxy version (\S+)")
SLOWHTTPTEST = Tool("slowhttptest", debian("slowhttptest"), "-h", r"version (\S+)")
NODE = Tool("node", debian("nodejs"), "--version", r"^v(\S+)")
OHA = Tool("oha", SETUP, "--version", r"^oha (\S+)")
AUTOCANNON = Tool("autocannon", SETUP, "--version", r"^autocannon v?(\S+)")
HTTP_PROXY = NodeModule("http-proxy", SETUP)
