"""What does a proxy cost? Nothing, http-proxy, nginx and HAProxy in front of node and of tared.

Proxy and upstream share one CPU and ab has another, so that requests per second
follow from what the two spend on each.
"""

import contextlib
import dataclasses
import statistics

from .. import peers
from ..chart import OTHERS, OURS
from ..console import Refusal, say
from ..documents import HELLO
from ..loads import Load
from ..process import Server, Stage
from ..report import NONE, header, line, significant, with_range
from ..tools import AB
from ..trials import Trial, attempt
from ..verdicts import bottleneck
from .setting import Setting

TITLE = "What does a proxy cost?"
STORY = (
    "In 2011 a node program answered `Hello World\\n` 4,669 times a second (`ab -c 100 -n 10000`, 21.4 ms), and behind "
    "node's http-proxy 1,140 times (87.7 ms). The answer had also become 22 bytes long instead of 12: chunks, sent "
    "to a client of HTTP/1.0 that took them for content. So here every body is checked: one changed length fails the "
    "line."
)

CONNECTIONS = 100
REQUESTS, REQUESTS_QUICK = 10_000, 1_000
ROUNDS = 5

NOTHING = "nothing"
OURS_BEHIND, NODE_BEHIND = "tared --fixed", "node http"
# Through http-proxy, of what there was without.
LEFT_2011 = 1_140 / 4_669
# Of what is spent behind the client; an upstream that takes less than this is not what is measured.
MOST = 0.5


@dataclasses.dataclass(frozen=True)
class Line:
    front: str
    upstream: str
    keeps_alive: bool
    per_s: float = 0.0
    proxy_us: list[float] = dataclasses.field(default_factory=list)  # by round; none with nothing in front
    upstream_us: list[float] = dataclasses.field(default_factory=list)  # by round
    client_us: float = 0.0
    asked: int = 0  # requests of the client, in all rounds
    arrived: int | None = None  # of them, as the upstream counted; of tared
    bottleneck: str = ""
    fault: str = ""  # why there are no figures

    @property
    def ms(self) -> float:
        return CONNECTIONS / self.per_s * 1e3

    @property
    def upstream_share(self) -> float:
        """Of the CPU time that is spent behind the client."""
        upstream = statistics.median(self.upstream_us)
        return upstream / (upstream + (statistics.median(self.proxy_us) if self.proxy_us else 0.0))


@dataclasses.dataclass
class Chain:
    """Who answers a client: the upstream, or a proxy in front of it."""

    front: str
    upstream: Server
    entrance: Server | None  # the one whom the client asks; None if it could not be started
    fault: str = ""
    trials: dict[str, list[Trial]] = dataclasses.field(default_factory=dict)  # by load
    faults: dict[str, str] = dataclasses.field(default_factory=dict)  # by load, before it was measured

    @property
    def servers(self) -> list[Server]:
        return [self.upstream] if self.entrance is self.upstream else [self.upstream, self.entrance]


def measure(setting: Setting) -> list[Line]:
    if not setting.can_run("proxy", AB):
        return []
    requests = REQUESTS_QUICK if setting.quick else REQUESTS
    loads = [Load("ab -k", AB, CONNECTIONS, requests=requests)]
    loads += [Load("ab", AB, CONNECTIONS, keeps_alive=False, requests=requests)]
    with contextlib.ExitStack() as running:
        stage = Stage(setting.scratch, running, setting.cpus.server)
        chains = start_chains(setting, stage)
        for chain in chains:
            if chain.entrance:
                setting.note_command(chain.entrance.command, *chain.servers)
            for load in loads:
                chain.faults[load.name] = chain.fault or setting.fault_of(chain.entrance, load, stage, HELLO.name) or ""
        rounds = 1 if setting.quick else ROUNDS
        for number in range(rounds):
            # Everyone begins a round in turn.
            for chain in chains[number % len(chains) :] + chains[: number % len(chains)]:
                for load in loads:
                    if not chain.faults[load.name]:
                        trial = checked(attempt(load, chain.entrance.url, chain.servers, 0, setting.cpus))
                        chain.trials.setdefault(load.name, []).append(trial)
                        setting.note_command(trial.outcome.command, chain.entrance)
                        told = "; ".join(trial.failures) or f"{trial.outcome.per_s:,.0f} requests/s"
                        say(f"proxy, round {number + 1} of {rounds}, {load.name}, {chain.entrance.name}: {told}")
    return [line_of(chain, load) for load in loads for chain in chains]


def start_chains(setting: Setting, stage: Stage) -> list[Chain]:
    behind = [setting.tared.fixed("--body", "Hello World\\n", "--type", "text/plain"), peers.NODE_HELLO]
    chains = []
    for contender in behind:
        if setting.lacks(contender):
            continue
        upstream = contender.start(stage, HELLO)
        chains.append(Chain(NOTHING, upstream, upstream))
        for front in peers.FRONTS:
            if not setting.can_run(front.name, *front.tools):
                continue
            try:
                chains.append(Chain(front.name, upstream, front.start(stage, upstream)))
            except Refusal as refusal:
                chains.append(Chain(front.name, upstream, None, str(refusal)))
    return chains


def checked(trial: Trial) -> Trial:
    """ab compares every length with the first, and tells the sum."""
    due_bytes = trial.outcome.requests * HELLO.size_bytes
    if trial.outcome.body_bytes == due_bytes:
        return trial
    fault = f"the bodies have {trial.outcome.body_bytes} bytes in all, not {due_bytes}"
    return dataclasses.replace(trial, failures=[*trial.failures, fault])


def line_of(chain: Chain, load: Load) -> Line:
    named = Line(chain.front, chain.upstream.name, load.keeps_alive)
    trials = chain.trials.get(load.name, [])
    faults = [chain.faults[load.name]] if chain.faults[load.name] else []
    faults += [failure for trial in trials for failure in trial.failures]
    if faults:
        return dataclasses.replace(named, fault="; ".join(dict.fromkeys(faults)))
    accounts = [trial.accounts[chain.upstream.name] for trial in trials if chain.upstream.name in trial.accounts]
    is_proxied = chain.entrance is not chain.upstream
    return dataclasses.replace(
        named,
        per_s=statistics.median(trial.outcome.per_s for trial in trials),
        proxy_us=[trial.cpu_us(chain.entrance.name) for trial in trials] if is_proxied else [],
        upstream_us=[trial.cpu_us(chain.upstream.name) for trial in trials],
        client_us=statistics.median(trial.client_cpu_us for trial in trials),
        asked=sum(trial.outcome.requests for trial in trials),
        arrived=sum(account.requests for account in accounts) if accounts else None,
        bottleneck=bottleneck(trials),
    )


def table(lines: list[Line]) -> str:
    figures = ["requests/s", "ms", "proxy µs", "upstream µs", "of it upstream", "client µs", "bottleneck"]
    figures += ["arrived", "bodies"]
    rendered = header(["client", "in front", "upstream"], figures)
    for each in lines:
        names = ["ab -k" if each.keeps_alive else "ab", each.front, each.upstream]
        if each.fault:
            rendered.append(line([*names, *[NONE] * (len(figures) - 1), f"**failed**: {each.fault}"]))
            continue
        rendered.append(
            line(
                [
                    *names,
                    f"{each.per_s:,.0f}",
                    f"{each.ms:.1f}",
                    with_range(each.proxy_us) if each.proxy_us else NONE,
                    with_range(each.upstream_us),
                    f"{each.upstream_share:.0%}",
                    significant(each.client_us),
                    each.bottleneck,
                    NONE if each.arrived is None else f"{each.arrived:,} of {each.asked:,}",
                    f"{HELLO.size_bytes} bytes each",
                ]
            )
        )
    return "\n".join(rendered)


NOTES = (
    "CPU is of one request, user and system; medians of all rounds (lowest–highest). Proxy and upstream share one CPU, "
    "ab has another; of what the two spend, `of it upstream` is the upstream's share. `kept upstream` shares "
    "kept connections behind the proxy among all clients; HAProxy by itself does so from a client's second request on. "
    "`Arrived` is how many of all requests tared says that it answered. The bodies are "
    "compared byte by byte before, and by their length in each of the requests."
)


def conclude(lines: list[Line]) -> str:
    clean = {(each.front, each.upstream): each for each in lines if each.keeps_alive and not each.fault}
    proxied = {front for front, _ in clean if front != NOTHING}
    parts = []
    ours = {front: clean[front, OURS_BEHIND] for front in proxied if (front, OURS_BEHIND) in clean}
    theirs = {front: clean[front, NODE_BEHIND] for front in proxied if (front, NODE_BEHIND) in clean}
    if ours:
        costs = {front: statistics.median(each.proxy_us) for front, each in ours.items()}
        low, high = min(costs, key=costs.__getitem__), max(costs, key=costs.__getitem__)
        parts.append(
            f"With kept connections a proxy costs from {significant(costs[low])} µs of CPU a request ({low}) to "
            f"{significant(costs[high])} µs ({high})"
        )
    if ours and theirs:
        with_all = "with every proxy less" if less_with_every_proxy(ours, theirs) else "not always less"
        measured = ", so that it is the proxy that is measured" if most(ours) < MOST else ""
        parts.append(
            f"of what is spent behind the client the upstream takes {shares(theirs)} if it is node's http, and "
            f"{with_all} if it is tared: {shares(ours)}{measured}"
        )
    bare, through = clean.get((NOTHING, NODE_BEHIND)), clean.get(("http-proxy", NODE_BEHIND))
    if bare and through:
        parts.append(
            f"through http-proxy node's app keeps {through.per_s / bare.per_s:.0%} of its requests per second "
            f"({LEFT_2011:.0%} in 2011)"
        )
    failed = [f"{each.front} before {each.upstream}" for each in lines if each.fault]
    parts.append(
        f"these answered wrongly and count for nothing: {', '.join(dict.fromkeys(failed))}"
        if failed
        else "every answer had its 12 bytes"
    )
    return "; ".join(parts) + "." if clean else "Nothing could be measured."


def less_with_every_proxy(ours: dict[str, Line], theirs: dict[str, Line]) -> bool:
    return all(ours[front].upstream_share < theirs[front].upstream_share for front in ours.keys() & theirs.keys())


def most(lines: dict[str, Line]) -> float:
    return max(each.upstream_share for each in lines.values())


def shares(lines: dict[str, Line]) -> str:
    values = [each.upstream_share for each in lines.values()]
    return f"{min(values):.0%}–{max(values):.0%}"


def draw(lines: list[Line], pyplot):
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained", sharey=True)
    for axis, keeps_alive in zip(axes, (True, False), strict=True):
        shown = [each for each in lines if each.keeps_alive == keeps_alive and not each.fault]
        names = [f"{each.front} → {each.upstream}" for each in shown]
        proxies = [statistics.median(each.proxy_us) if each.proxy_us else 0.0 for each in shown]
        upstreams = [statistics.median(each.upstream_us) for each in shown]
        colours = [OURS if each.upstream == OURS_BEHIND else UPSTREAM for each in shown]
        axis.barh(names, proxies, color=OTHERS)
        bars = axis.barh(names, upstreams, left=proxies, color=colours)
        sums = [significant(proxy + upstream) for proxy, upstream in zip(proxies, upstreams, strict=True)]
        axis.bar_label(bars, sums, padding=3)
        title = "connections kept (ab -k)" if keeps_alive else "a connection per request (ab)"
        axis.set_title(title, loc="left", fontsize=9, fontweight="bold")
        axis.margins(x=0.15)
        axis.set_xticks([])
        axis.tick_params(length=0)
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    axes[0].invert_yaxis()
    figure.suptitle("CPU per request, µs")
    patches = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour in (OTHERS, OURS, UPSTREAM)]
    figure.legend(patches, ["the proxy", "tared behind it", "node behind it"], loc="outside lower center", ncols=3)
    return figure


UPSTREAM = "#94a3b8"


def broken(lines: list[Line]) -> list[str]:
    """Of tared alone: what a proxy makes of its answer is the proxy's."""
    return [f"tared without a proxy: {each.fault}" for each in lines if is_bare_tared(each) and each.fault]


def is_bare_tared(each: Line) -> bool:
    return each.front == NOTHING and each.upstream == OURS_BEHIND
