"""What scripts/extras concludes: which options a program has, and what stands in its tables."""

import pathlib
import unittest

from benchlib.claims import read_ab, read_asker
from benchlib.pairs import Asked, Cost, Pair, full_table, more, pairs, short_table, unknown

HELP = "  --cors\n      --log-format <FORMAT>\n  --cache-check <TIME>"
PAIR = Pair("--cors", "a file", Asked(), Asked(("--cors",)))


class Options(unittest.TestCase):
    def test_an_option_is_known_by_its_whole_name(self):
        for options, missing in (
            (("--cors",), []),
            (("--log", "x", "--log-format", "json"), ["--log"]),
            (("--cache-check", "0"), []),
            (("--cache",), ["--cache"]),
        ):
            self.assertEqual(unknown(Pair("", "", Asked(), Asked(options)), HELP), missing, options)

    def test_the_sides_of_every_pair_differ(self):
        for pair in pairs(pathlib.Path("/scratch")):
            self.assertNotEqual(pair.off, pair.on, pair.name)
            self.assertEqual(pair.off.status, pair.on.status, pair.name)
            self.assertEqual(pair.off.own_client, pair.on.own_client, pair.name)


class Tables(unittest.TestCase):
    def test_ratios_are_of_one_round(self):
        cost = Cost(PAIR, (1000.0, 1032.4), ([5.0, 10.0], [5.5, 11.0]))
        self.assertEqual([round(ratio, 3) for ratio in cost.ratios], [1.1, 1.1])
        self.assertEqual(more(cost), "+32")
        self.assertEqual(
            full_table([cost]).splitlines()[-1],
            "| `--cors` | a file | 1,000 | 1,032 | +32 | 7.50 | 8.25 | 1.10 (1.10–1.10) |",
        )
        self.assertEqual(short_table([cost]).splitlines()[-1], "| `--cors` | a file | +32 | 1.10 |")

    def test_what_was_not_measured_is_not_shown_as_a_figure(self):
        self.assertEqual(full_table([Cost(PAIR)]).splitlines()[-1].count(" - "), 6)
        self.assertEqual(len(short_table([Cost(PAIR, fault="it ended")]).splitlines()), 2)


class Clients(unittest.TestCase):
    AB = "Complete requests:      10\nFailed requests:        0\nKeep-Alive requests:    10\n" + "".join(
        f"{label}: 1.0\n" for label in ("Time taken for tests", "Requests per second")
    )

    def test_a_refusal_is_a_failure_unless_it_is_asked_for(self):
        refused = self.AB + "Non-2xx responses:      10\n"
        self.assertEqual(read_ab(self.AB, 10, True).failures, [])
        self.assertEqual(read_ab(refused, 10, True).failures, ["Non-2xx responses: 10"])
        self.assertEqual(read_ab(refused, 10, True, refused=True).failures, [])
        self.assertEqual(read_ab(self.AB, 10, True, refused=True).failures, ["Non-2xx responses: 0"])

    def test_our_own_client_is_read(self):
        outcome = read_asker("requests=40 bytes=8000 duration_us=2000000\n")
        self.assertEqual((outcome.requests, outcome.received_bytes, outcome.wall_s), (40, 8000, 2.0))
