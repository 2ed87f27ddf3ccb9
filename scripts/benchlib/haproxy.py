"""What HAProxy says of its servers, through its own socket for that (management.txt, `show stat`)."""

import csv
import dataclasses
import pathlib
import socket
import time

from .console import Refusal

ANSWER_BOUND_S = 5
# Far above what its checks are set to: two of them, 200 ms apart.
NOTICE_BOUND_S = 10
POLL_INTERVAL_S = 0.01


@dataclasses.dataclass(frozen=True)
class Standing:
    """Of one server."""

    status: str  # UP, DOWN, or on the way, as in `UP 1/2`
    answers: int  # with a status of 2xx
    sent_again: int  # requests that it did not answer


def read_standings(table: str, backend: str) -> dict[str, Standing]:
    """By name, from the CSV of `show stat`."""
    rows = csv.DictReader(table.removeprefix("# ").splitlines())
    # What is sent to another server is a redispatch, and a retry only if a connection was there: so the
    # larger of the two is the nearest to how many there were.
    return {
        row["svname"]: Standing(row["status"], int(row["hrsp_2xx"]), max(int(row["wretr"]), int(row["wredis"])))
        for row in rows
        if row["pxname"] == backend and row["svname"] not in ("FRONTEND", "BACKEND")
    }


def standings(control: pathlib.Path, backend: str) -> dict[str, Standing]:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(ANSWER_BOUND_S)
        asking.connect(str(control))
        asking.sendall(b"show stat\n")
        with asking.makefile() as said:
            return read_standings(said.read(), backend)


def wait_for_status(control: pathlib.Path, backend: str, server: str, status: str) -> float:
    """Seconds until it has that one."""
    began_s = time.monotonic()
    while time.monotonic() < began_s + NOTICE_BOUND_S:
        if standings(control, backend)[server].status == status:
            return time.monotonic() - began_s
        time.sleep(POLL_INTERVAL_S)
    raise Refusal(f"HAProxy does not say {status} of {server} within {NOTICE_BOUND_S} s")
