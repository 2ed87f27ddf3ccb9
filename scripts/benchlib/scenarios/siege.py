"""A static file of 33 KiB, from several processes, under siege by 100 to 600 users.

Servers and siege share both CPUs: what four workers are worth is asked, and one
CPU for them would not tell.
"""

import contextlib
import dataclasses

from .. import peers
from ..chart import OTHERS, OURS
from ..console import Refusal, say
from ..documents import LIPSUM, LIPSUM_GZ
from ..loads import Load, siege_settings
from ..process import Server, Stage
from ..report import NONE, header, line, significant
from ..servers import Contender, Tared
from ..tools import SIEGE
from ..trials import Trial, attempt
from .setting import Setting

TITLE = "A static file, clustered, under siege"
STORY = (
    "In 2013 nginx 1.2.7 with 4 workers and a cluster of 4 node processes served a page of 33 KiB to `siege -b`, 100 "
    "to 600 users with 500 requests each: node 4,250 transactions/s, nginx 2,118; mean response 0.14 s against 0.23 s; "
    "longest 1.10 s against 13.95 s. node seems to have sent gzip to a client that had not asked for it, and nginx the "
    "file as it is. So here everybody is asked twice: for the file as it is, and for gzip that is compressed once."
)

USERS = range(100, 601, 100)
# 500 in 2013, of two servers. 60,000 transactions at the most are as good.
REPETITIONS, REPETITIONS_QUICK = 100, 5
WORKERS_OURS, WORKERS_NGINX, WORKERS_NODE = (1, 2, 4), (1, 4), 4

PLAIN, GZIP = "as it is", "gzip"
# The heads of then.
CACHING = ("--header", "Cache-Control: public, max-age=2592000, must-revalidate")

PER_S_2013 = {"node": 4_250, "nginx": 2_118}
# siege prints its megabytes to two places.
BYTES_TOLERANCE = 0.02


@dataclasses.dataclass(frozen=True)
class Line:
    server: str
    coding: str
    users: int
    per_s: float = 0.0
    mean_s: float = 0.0
    longest_s: float = 0.0
    availability: float = 0.0  # percent
    transaction_bytes: float = 0.0
    server_us: float = 0.0
    client_us: float = 0.0
    fault: str = ""

    @property
    def siege_share(self) -> float:
        """Of the CPU time that a transaction takes on both sides."""
        return self.client_us / (self.client_us + self.server_us)

    @property
    def family(self) -> str:
        return self.server.split()[0]


def measure(setting: Setting) -> list[Line]:
    if not setting.can_run("siege", SIEGE):
        return []
    repetitions = REPETITIONS_QUICK if setting.quick else REPETITIONS
    lines = []
    for coding in (PLAIN, GZIP):
        rc = siege_settings(setting.scratch, keeps_alive=False, gzip=coding == GZIP)
        contenders = [each for each in contenders_for(coding, setting.tared) if not setting.lacks(each)]
        loads = [
            Load("siege", SIEGE, users, False, requests=users * repetitions, gzip=coding == GZIP, settings=rc)
            for users in USERS
        ]
        with contextlib.ExitStack() as running:
            stage = Stage(setting.scratch, running, setting.cpus.shared.server)
            servers = []
            for contender in contenders:
                server, fault = start(contender, loads[0], stage, setting)
                if fault:
                    lines += [Line(contender.name, coding, load.connections, fault=fault) for load in loads]
                else:
                    servers.append(server)
            due_bytes = (stage.documents / (LIPSUM_GZ if coding == GZIP else LIPSUM.name)).stat().st_size
            # Everyone at one level, then everyone at the next: machines drift.
            lines += [besiege(server, coding, load, due_bytes, setting) for load in loads for server in servers]
    return sorted(lines, key=lambda each: (each.coding != PLAIN, each.users))


def contenders_for(coding: str, tared: Tared) -> list[Contender]:
    told = (*CACHING, "--precompressed") if coding == GZIP else (*CACHING, "--header", "Vary: Accept-Encoding")
    ours = [tared.files("--workers", str(count), *told, name=f"tared {count}") for count in WORKERS_OURS]
    nginx = [peers.nginx_siege(count, gzip_static=coding == GZIP) for count in WORKERS_NGINX]
    return [*ours, *nginx, peers.node_cluster(WORKERS_NODE)]


def start(contender: Contender, load: Load, stage: Stage, setting: Setting) -> tuple[Server | None, str | None]:
    """The server, and what is wrong with it."""
    try:
        server = contender.start(stage, LIPSUM)
    except Refusal as refusal:
        return None, str(refusal)
    setting.note_command(server.command, server)
    return server, setting.fault_of(server, load, stage, LIPSUM.name)


def besiege(server: Server, coding: str, load: Load, due_bytes: int, setting: Setting) -> Line:
    trial = attempt(load, server.url, [server], 0, setting.cpus.shared)
    setting.note_command(trial.outcome.command, server)
    each = line_of(server.name, coding, load.connections, trial, due_bytes)
    told = each.fault or f"{each.per_s:,.0f} transactions/s, {each.availability:.2f} % available"
    say(f"siege, {coding}, {load.connections} users, {server.name}: {told}")
    return each


def line_of(server: str, coding: str, users: int, trial: Trial, due_bytes: int) -> Line:
    outcome = trial.outcome
    named = Line(server, coding, users)
    # That some requests failed is what `availability` says, and no reason to have no figures.
    if not outcome.requests or server not in trial.spent:
        return dataclasses.replace(named, fault="; ".join(trial.failures))
    each = dataclasses.replace(
        named,
        per_s=outcome.per_s,
        mean_s=outcome.mean_s,
        longest_s=outcome.longest_s,
        availability=outcome.availability,
        transaction_bytes=outcome.body_bytes / outcome.requests,
        server_us=trial.cpu_us(server),
        client_us=trial.client_cpu_us,
    )
    if abs(each.transaction_bytes / due_bytes - 1) > BYTES_TOLERANCE:
        return dataclasses.replace(each, fault=f"{each.transaction_bytes:,.0f} bytes a transaction, not {due_bytes:,}")
    return each


def table(lines: list[Line]) -> str:
    figures = [
        "transactions/s",
        "mean s",
        "longest s",
        "available",
        "bytes each",
        "server µs",
        "siege µs",
        "of both siege",
    ]
    rendered = header(["asked for", "users", "server"], figures)
    for each in lines:
        names = [each.coding, str(each.users), each.server]
        if each.fault:
            rendered.append(line([*names, f"failed: {each.fault}", *[NONE] * (len(figures) - 1)]))
            continue
        rendered.append(
            line(
                [
                    *names,
                    f"{each.per_s:,.0f}",
                    f"{each.mean_s:.2f}",
                    f"{each.longest_s:.2f}",
                    f"{each.availability:.2f} %",
                    f"{each.transaction_bytes:,.0f}",
                    significant(each.server_us),
                    significant(each.client_us),
                    f"{each.siege_share:.0%}",
                ]
            )
        )
    return "\n".join(rendered)


NOTES = (
    f"siege is told to make {REPETITIONS} requests for each user (2013: 500; --quick: {REPETITIONS_QUICK}), each on "
    "a connection of its own; it shares both CPUs with the server, and rounds seconds and megabytes to two places, so "
    "that bytes each are not exact. CPU is of one transaction. The number behind a name is of workers or processes. "
    "tared does not choose a compressed file by Accept-Encoding: where gzip is asked for, its `lipsum.html.gz` is "
    "requested by that name and sent as `Content-Encoding: gzip`, `Content-Type: text/html`, so that bytes and head "
    "are those of the others, but the choosing is not measured."
)


def conclude(lines: list[Line]) -> str:
    clean = [each for each in lines if not each.fault]
    if not clean:
        return "Nothing could be measured."
    most = max(each.users for each in clean)
    parts = [at_most(clean, most, coding) for coding in (PLAIN, GZIP) if at_most(clean, most, coding)]
    unlike, like = ratio(clean, most, GZIP, PLAIN), ratio(clean, most, GZIP, GZIP)
    if unlike and like:
        then = PER_S_2013["node"] / PER_S_2013["nginx"]
        parts.append(
            f"compared as in 2013, node with gzip against nginx without, the cluster makes {unlike:.2f} of nginx's "
            f"transactions per second ({then:.2f} then), and like for like {like:.2f}"
        )
    spent = {family: shares_of_siege(clean, family) for family in dict.fromkeys(each.family for each in clean)}
    told = ", ".join(f"{share} with {family}" for family, share in spent.items())
    parts.append(f"of the CPU time siege itself takes {told}, and what it takes no server can give")
    ours = [each for each in clean if each.family == "tared"]
    short = [each for each in ours if each.availability < 100]
    if ours:
        parts.append(
            f"tared was {min(each.availability for each in short):.2f} % available at its worst"
            if short
            else f"tared answered every request at each of {len(ours)} levels"
        )
    return f"At {most} users: " + "; ".join(parts) + "."


def shares_of_siege(lines: list[Line], family: str) -> str:
    shares = [each.siege_share for each in lines if each.family == family]
    return f"{min(shares):.0%}–{max(shares):.0%}"


def at_most(lines: list[Line], users: int, coding: str) -> str:
    """The best of each family."""
    best: dict[str, Line] = {}
    for each in lines:
        if (each.users, each.coding) == (users, coding) and each.per_s > getattr(best.get(each.family), "per_s", 0):
            best[each.family] = each
    ranked = sorted(best.values(), key=lambda each: -each.per_s)
    told = [f"{each.server} {each.per_s:,.0f} transactions/s (longest {each.longest_s:.2f} s)" for each in ranked]
    return f"{'with gzip' if coding == GZIP else 'without gzip'} {', '.join(told)}" if told else ""


def ratio(lines: list[Line], users: int, of_node: str, of_nginx: str) -> float | None:
    node = [each.per_s for each in lines if (each.family, each.users, each.coding) == ("node", users, of_node)]
    # nginx stood with 4 workers.
    nginx = [
        each.per_s
        for each in lines
        if each.server.startswith(f"nginx {max(WORKERS_NGINX)}") and (each.users, each.coding) == (users, of_nginx)
    ]
    return node[0] / nginx[0] if node and nginx else None


def draw(lines: list[Line], pyplot):
    clean = [each for each in lines if not each.fault]
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 6.5), layout="constrained", sharex=True, sharey="row")
    names = list(dict.fromkeys(each.server.removesuffix(" gzip_static") for each in clean))
    for column, coding in enumerate((PLAIN, GZIP)):
        for name in names:
            shown = [e for e in clean if e.coding == coding and e.server.removesuffix(" gzip_static") == name]
            users = [each.users for each in shown]
            style = STYLES.get(name, {})
            axes[0][column].plot(users, [each.per_s for each in shown], label=name, **style)
            axes[1][column].plot(users, [each.longest_s for each in shown], **style)
        asked = "gzip, compressed once" if coding == GZIP else "the file as it is"
        axes[0][column].set_title(f"{asked}: transactions/s", loc="left", fontsize=9, fontweight="bold")
        axes[1][column].set_title(f"{asked}: longest, s", loc="left", fontsize=9, fontweight="bold")
        axes[1][column].set_xlabel("users")
    axes[0][0].yaxis.set_major_formatter("{x:,.0f}")
    for axis in axes.flat:
        axis.set_ylim(bottom=0)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelleft=True)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(names) or 1)
    return figure


def style(colour: str, marker: str, dashes: str) -> dict[str, object]:
    return {"color": colour, "marker": marker, "markersize": 4, "linestyle": dashes}


NGINX_COLOUR = "#15803d"
STYLES = {
    "tared 1": style(OURS, "o", ":"),
    "tared 2": style(OURS, "s", "--"),
    "tared 4": style(OURS, "D", "-"),
    "nginx 1": style(NGINX_COLOUR, "o", ":"),
    "nginx 4": style(NGINX_COLOUR, "D", "-"),
    "node cluster 4": style(OTHERS, "D", "-"),
}


def broken(lines: list[Line]) -> list[str]:
    """tared is to be there for everybody, at every level."""
    return [
        f"{each.server}, {each.coding}, {each.users} users: {each.fault or f'{each.availability:.2f} % available'}"
        for each in lines
        if each.family == "tared" and (each.fault or each.availability < 100)
    ]
