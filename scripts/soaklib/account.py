"""A server's own report, held to what its clients counted. Pure."""

import collections


def disagreements(report: dict, counts: collections.Counter) -> list[str]:
    """What the two say that cannot both be true. A client does not see every answer to what it asked: it
    leaves, or the connection ends; so its requests are at least as many, and its answers at most."""
    told, connections = report["requests"], report["connections"]
    found = []

    def check(is_so: bool, sentence: str) -> None:
        if not is_so:
            found.append(sentence)

    total = told["total"]
    check(counts["answers"] <= total, f"{counts['answers']} answers came to {total} requests that it counted")
    check(total <= counts["requests"], f"it counted {total} requests of {counts['requests']} that were made")
    for name, answered in told["by_status"].items():
        check(counts[name] <= answered, f"{counts[name]} answers with {name} came, and it counted {answered}")
    check(sum(told["by_status"].values()) == total, "its answers by status do not add up to its requests")
    check(sum(told["by_method"].values()) == total, "its requests by method do not add up")
    accepted = connections["accepted"]
    check(accepted <= counts["connected"], f"it accepted {accepted} of {counts['connected']} connections")
    answered = counts["connections answered"]
    check(answered <= accepted, f"{answered} connections had an answer, and it accepted {accepted}")
    ends = [connections[f"closed_by_{side}"] for side in ("client", "server")]
    ended = sum(ends) + connections["reset"] + connections["timed_out"] + connections["open"]
    check(ended == accepted, f"it accepted {accepted} connections, of which {ended} ended")
    check(connections["open"] == 0, f"{connections['open']} connections were open at the end")
    sent, received = report["bytes"]["sent"], report["bytes"]["received"]
    check(counts["bytes received"] <= sent, f"{counts['bytes received']} bytes came of {sent} that it sent")
    check(received <= counts["bytes sent"], f"it received {received} bytes of {counts['bytes sent']} that were sent")
    return found
