"""What load tools say happened: text in, an Outcome out, nothing else is touched.

One reader for each tool. Real output of each is in fixtures/load_tools, and
scripts/tests holds the readers to it.

Tools count differently: `requests` is of those that were answered, by most whatever
the status. Where a tool says that something was not as it is to be, that is a
failure, in its words.
"""

import dataclasses
import json
import re


@dataclasses.dataclass(frozen=True)
class Outcome:
    requests: int
    wall_s: float
    failures: list[str]
    per_s: float = 0.0  # as the tool says it; some divide by something else than wall_s
    received_bytes: int = 0  # heads and bodies, of those who count them
    body_bytes: int | None = None  # of all answers, without their heads; of ab and siege
    kept_alive: int | None = None  # requests on a connection that was kept; of ab and httperf
    # Of wrk: half of the requests, 99 % of them, and the slowest.
    latency_us: tuple[int, int, int] | None = None
    # Of siege.
    mean_s: float | None = None
    longest_s: float | None = None
    availability: float | None = None  # percent
    command: list[str] = dataclasses.field(default_factory=list)


# ---- ab --------------------------------------------------------------------------


def read_ab(output: str, requests: int, keeps_alive: bool, refused: bool = False) -> Outcome:
    """Where all are to be refused, as an error page is weighed, an answer that is no refusal is the failure."""
    refusals = number(r"Non-2xx responses: +(\d+)", output)
    failures = [
        f"{label}: {count}"
        for label in ("Failed requests", "Write errors")
        if (count := number(rf"{label}: +(\d+)", output))
    ]
    if refusals != (requests if refused else 0):
        failures.append(f"Non-2xx responses: {refusals}")
    kept_alive = number(r"Keep-Alive requests: +(\d+)", output)
    complete = number(r"Complete requests: +(\d+)", output)
    # A server that does not do keep-alive for HTTP/1.0, which is what ab speaks,
    # answers every request and is another benchmark.
    for label, count in (("Complete", complete), *((("Keep-Alive", kept_alive),) if keeps_alive else ())):
        if count != requests:
            failures.append(f"{label} requests: {count} of {requests}")
    return Outcome(
        complete,
        decimal(r"Time taken for tests: +([\d.]+)", output),
        failures,
        per_s=decimal(r"Requests per second: +([\d.]+)", output),
        received_bytes=number(r"Total transferred: +(\d+)", output),
        body_bytes=number(r"HTML transferred: +(\d+)", output),
        kept_alive=kept_alive,
    )


# ---- asker, our own -----------------------------------------------------------------


def read_asker(output: str) -> Outcome:
    figures = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", output)}
    return Outcome(figures["requests"], figures["duration_us"] / 1e6, [], received_bytes=figures["bytes"])


# ---- wrk, with wrk.lua, which prints exact figures beside the rounded ones ----------


def read_wrk(output: str) -> Outcome:
    figures = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", output)}
    failures = [
        f"{kind} errors: {figures[kind]}" for kind in ("connect", "read", "write", "status", "timeout") if figures[kind]
    ]
    return Outcome(
        figures["requests"],
        figures["duration_us"] / 1e6,
        failures,
        per_s=decimal(r"Requests/sec: +([\d.]+)", output),
        received_bytes=figures["bytes"],
        latency_us=tuple(figures[name] for name in ("p50_us", "p99_us", "max_us")),
    )


# ---- siege --json-output -------------------------------------------------------------


def read_siege(output: str) -> Outcome:
    """By field, for what siege complains of on stderr stands between them."""
    figures = {name: float(value) for name, value in re.findall(r'"(\w+)":\s*([\d.]+)', output)}
    failed = int(figures["failed_transactions"])
    return Outcome(
        # `transactions` counts what was answered, and that includes errors of the server.
        int(figures["transactions"]),
        figures["elapsed_time"],
        [f"failed transactions: {failed}"] if failed else [],
        per_s=figures["transaction_rate"],
        body_bytes=round(figures["data_transferred"] * MIB),
        mean_s=figures["response_time"],
        longest_s=figures["longest_transaction"],
        availability=figures["availability"],
    )


# siege prints data_transferred in these, to two places.
MIB = 1 << 20


# ---- httperf ---------------------------------------------------------------------------


def read_httperf(output: str) -> Outcome:
    replies = number(r"^Total: .* replies (\d+)", output)
    connections = number(r"^Total: connections (\d+)", output)
    statuses = {kind: int(count) for kind, count in re.findall(r"(\dxx)=(\d+)", output)}
    failures = [f"{kind} replies: {count}" for kind, count in statuses.items() if count and kind != "2xx"]
    if errors := number(r"^Errors: total (\d+)", output):
        failures.append(f"errors: {errors}")
    return Outcome(
        replies,
        decimal(r"test-duration ([\d.]+) s", output),
        failures,
        per_s=decimal(r"^Request rate: ([\d.]+) req/s", output),
        kept_alive=replies - connections,
    )


# ---- h2load --h1 -------------------------------------------------------------------------


def read_h2load(output: str) -> Outcome:
    counts = {kind: int(count) for count, kind in re.findall(r"(\d+) (\w+)", output_line("requests: ", output))}
    failures = [f"{kind}: {counts[kind]}" for kind in ("failed", "errored", "timeout") if counts[kind]]
    finished = re.search(r"^finished in ([\d.]+)(us|ms|s|m), ([\d.]+) req/s", output, re.MULTILINE)
    wall_s = float(finished[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60}[finished[2]] if finished else 0.0
    per_s = float(finished[3]) if finished else 0.0
    return Outcome(counts["succeeded"], wall_s, failures, per_s=per_s)


def output_line(beginning: str, output: str) -> str:
    return next(line for line in output.splitlines() if line.startswith(beginning))


# ---- oha --output-format json ---------------------------------------------------------------


def read_oha(output: str) -> Outcome:
    results = json_in(output)
    summary, statuses = results["summary"], results["statusCodeDistribution"]
    failures = [f"{reason}: {count}" for reason, count in results["errorDistribution"].items()]
    failures += [f"status {status}: {count}" for status, count in statuses.items() if not status.startswith("2")]
    return Outcome(
        sum(count for status, count in statuses.items() if status.startswith("2")),
        summary["total"],
        failures,
        per_s=summary["requestsPerSec"],
    )


# ---- autocannon --json ------------------------------------------------------------------------


def read_autocannon(output: str) -> Outcome:
    results = json_in(output)
    failures = [f"{kind}: {results[kind]}" for kind in ("errors", "timeouts", "non2xx") if results[kind]]
    return Outcome(results["2xx"], results["duration"], failures, per_s=results["requests"]["average"])


# ---- slowhttptest, which paints a screen anew for each second ---------------------------------------


@dataclasses.dataclass(frozen=True)
class Held:
    """What slow clients say of it."""

    available: bool  # in each second, to a request of their own that is not slow
    connected_max: int  # connections that were open at a time
    exit_status: str


def read_slowhttptest(output: str) -> Held:
    plain = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", output)
    available = re.findall(r"^service available: +(\w+)", plain, re.MULTILINE)
    connected = [int(count) for count in re.findall(r"^connected: +(\d+)", plain, re.MULTILINE)]
    ended = re.search(r"^Exit status: *(.+)$", plain, re.MULTILINE)
    return Held(
        bool(available) and set(available) == {"YES"},
        max(connected, default=0),
        ended[1].strip() if ended else "it does not say how it ended",
    )


# ---- Text ----------------------------------------------------------------------------------------


def json_in(output: str) -> dict:
    """The one object in it, whatever was said before and after."""
    return json.loads(output[output.index("{") : output.rindex("}") + 1])


def number(pattern: str, output: str) -> int:
    """The number on a line that may not be there, which means 0."""
    found = re.search(pattern, output, re.MULTILINE)
    return int(found[1]) if found else 0


def decimal(pattern: str, output: str) -> float:
    found = re.search(pattern, output, re.MULTILINE)
    return float(found[1]) if found else 0.0
