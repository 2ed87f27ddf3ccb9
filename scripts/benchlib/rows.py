"""What is asked of whom, and the bar. A row is one shape of work.

Each bar is held against servers that ran in the same rounds of the same row.
"""

import dataclasses
import pathlib

from . import peers
from .documents import EMPTY, GIB, HUGE, LARGE, LIPSUM, SMALL, Document
from .loads import Load
from .servers import Contender, Tared, floor
from .tools import AB, WRK, Tool

CONNECTIONS = 20
BUSY_OF_CROWD = 1_000
IDLE_OF_CROWD = 9_000
PIPELINE_DEPTH = 16

AB_REQUESTS = 50_000
AB_REQUESTS_QUICK = 3_000


@dataclasses.dataclass(frozen=True)
class Bar:
    """tared's figure by that of the cheapest in `against` must not be above `limit`;
    where it is throughput, not below."""

    to: str
    limit: float
    against: tuple[str, ...] = ()  # none: against itself under the row's `alone` load
    throughput: bool = False
    holds: tuple[str, ...] = ()  # whom; none: whoever is of the family tared

    def kept_by(self, ratio: float) -> bool:
        return ratio >= self.limit if self.throughput else ratio <= self.limit

    @property
    def sentence(self) -> str:
        return f"{'≥' if self.throughput else '≤'} {self.limit:.2f} of {self.to}"


@dataclasses.dataclass(frozen=True)
class Row:
    id: str
    title: str
    document: Document
    load: Load
    contenders: tuple[Contender, ...]
    bars: tuple[Bar, ...]
    alone: Load | None = None  # each round also runs this one, to compare a contender with itself
    per_bytes: int | None = None  # CPU per so many bytes: where a run has too few requests to count
    seconds_min: int = 1  # of a run
    cpus_shared: bool = False  # server and client on both CPUs

    @property
    def tools(self) -> tuple[Tool, ...]:
        return (self.load.tool,)


def load_rows(tared: Tared, httpterm_path: pathlib.Path | None, *, quick: bool) -> list[Row]:
    ab_requests = AB_REQUESTS_QUICK if quick else AB_REQUESTS
    wrk = Load("wrk", WRK, CONNECTIONS)
    ab = Load("ab -k", AB, CONNECTIONS, requests=ab_requests)
    ab_close = Load("ab", AB, CONNECTIONS, keeps_alive=False, requests=ab_requests)
    pipelining = Load(f"wrk, {PIPELINE_DEPTH} deep", WRK, CONNECTIONS, pipelined=PIPELINE_DEPTH)
    two = Load("wrk, 2 connections", WRK, 2)
    crowd = Load(f"wrk -c{BUSY_OF_CROWD}, {IDLE_OF_CROWD} idle", WRK, BUSY_OF_CROWD, idle=IDLE_OF_CROWD)

    # Two threads, so that the client takes as much of one CPU as of the other.
    both_cpus = Load("wrk -t2, both CPUs", WRK, CONNECTIONS, threads=2)

    floor_fixed = floor("fixed")
    floors_file = (floor("map", file=True), floor("sendfile", file=True))
    floors_close = (floor("close"), floor("close-epoll"))
    httpterm = peers.httpterm(httpterm_path)

    file_peers = (peers.LIGHTTPD_FILES, peers.H2O_FILES, peers.STATIC_WEB_SERVER_FILES)
    fixed_peers = (peers.STATICO_TOKIO, peers.STATICO_MONOIO, httpterm)
    both_nginx = (peers.NGINX_2012, peers.NGINX_SENDFILE)
    # Who has no fixed answer of its own serves an empty file.
    for_fixed = (floor_fixed, tared.fixed(), peers.NGINX_2012, peers.NGINX_RETURN, *file_peers, *fixed_peers)
    for_empty_file = (floor_fixed, tared.files(), *both_nginx, *file_peers)
    for_files = (*floors_file, tared.files(), *both_nginx, *file_peers)
    for_both = (tared.fixed(), tared.files(), peers.NGINX_2012, peers.NGINX_RETURN, *file_peers, *fixed_peers)

    to_floor_fixed = ("floor fixed",)
    to_floor_file = ("floor map", "floor sendfile")
    to_2012, to_sendfile = ("nginx 2012",), ("nginx sendfile",)

    fixed_bars = (Bar("the floor", 1.05, to_floor_fixed), Bar("nginx 2012", 0.80, to_2012))
    empty_file_bars = (Bar("the floor", 1.07, to_floor_fixed), Bar("nginx 2012", 0.80, to_2012))
    return [
        Row("fixed-wrk", "fixed empty body", EMPTY, wrk, for_fixed, fixed_bars),
        Row("fixed-ab", "fixed empty body", EMPTY, ab, for_fixed, fixed_bars),
        Row("0k-wrk", "empty file", EMPTY, wrk, for_empty_file, empty_file_bars),
        Row("0k-ab", "empty file", EMPTY, ab, for_empty_file, empty_file_bars),
        Row(
            "4k",
            "4 KiB file",
            SMALL,
            wrk,
            for_files,
            (Bar("the better floor", 1.07, to_floor_file), Bar("nginx sendfile", 0.70, to_sendfile)),
        ),
        Row(
            "33k",
            "33 KiB lipsum.html",
            LIPSUM,
            wrk,
            for_files,
            (
                Bar("the better floor", 1.07, to_floor_file),
                Bar("nginx 2012", 0.60, to_2012),
                Bar("nginx sendfile", 0.80, to_sendfile),
            ),
        ),
        Row(
            "1m",
            "1 MiB file",
            LARGE,
            wrk,
            for_files,
            (Bar("the better floor", 1.10, to_floor_file), Bar("nginx sendfile", 0.70, to_sendfile)),
            # In runs of 1 s one server's figure moves by 1.7 from round to round, in runs of 4 s by 1.3.
            seconds_min=1 if quick else 4,
        ),
        Row(
            "1g",
            "1 GiB file",
            HUGE,
            two,
            (*floors_file, tared.files(), peers.NGINX_SENDFILE, *file_peers),
            (Bar("nginx sendfile", 1.00, to_sendfile, throughput=True),),
            per_bytes=GIB,
            seconds_min=2 if quick else 6,  # so that some are complete
        ),
        Row(
            "close",
            "new connection per request",
            EMPTY,
            ab_close,
            (*floors_close, *for_both),
            (Bar("the better floor", 1.10, ("floor close", "floor close-epoll")), Bar("nginx 2012", 0.75, to_2012)),
        ),
        Row(
            "pipeline",
            f"{PIPELINE_DEPTH} requests pipelined",
            EMPTY,
            pipelining,
            for_both,
            (Bar("nginx 2012", 0.15, to_2012),),
        ),
        Row(
            "crowd",
            "10,000 open, 1,000 busy",
            EMPTY,
            crowd,
            (floor_fixed, *for_both),
            (Bar(f"its own at {CONNECTIONS}", 1.15),),
            alone=wrk,
        ),
        Row(
            "workers",
            "2 workers on 2 CPUs",
            EMPTY,
            both_cpus,
            (tared.workers(1), tared.workers(2)),
            (Bar("1 worker", 1.05, ("tared --workers 1",), holds=("tared --workers 2",)),),
            cpus_shared=True,
        ),
    ]
