"""The readers, held to real output of each tool (fixtures/load_tools).

The samples are of tared --fixed --body Success, and `-failures` of a server that
gives every third answer another length and every tenth the status 503, or of none.
"""

import unittest

from benchlib import claims
from benchlib.places import FIXTURES


def sample(name: str) -> str:
    return (FIXTURES / "load_tools" / name).read_text()


class Readers(unittest.TestCase):
    def check(self, outcome: claims.Outcome, **expected: object) -> None:
        """What is not named is not looked at."""
        for name, value in expected.items():
            compare = self.assertAlmostEqual if isinstance(value, float) else self.assertEqual
            compare(getattr(outcome, name), value, msg=name)

    def test_ab_keeps_connections(self):
        outcome = claims.read_ab(sample("ab-keep-alive.txt"), 5000, keeps_alive=True)
        self.check(outcome, requests=5000, kept_alive=5000, wall_s=0.037, per_s=136470.33, failures=[])
        self.check(outcome, received_bytes=810_000, body_bytes=35_000)

    def test_ab_closes_connections(self):
        outcome = claims.read_ab(sample("ab-close.txt"), 2000, keeps_alive=False)
        self.check(outcome, requests=2000, kept_alive=0, wall_s=0.078, per_s=25501.42, body_bytes=14_000, failures=[])

    def test_ab_names_changed_lengths_and_bad_statuses(self):
        outcome = claims.read_ab(sample("ab-failures.txt"), 500, keeps_alive=True)
        self.check(outcome, requests=500, body_bytes=4330, failures=["Failed requests: 166", "Non-2xx responses: 50"])

    def test_ab_must_make_and_keep_every_request(self):
        outcome = claims.read_ab(sample("ab-close.txt"), 3000, keeps_alive=True)
        self.check(outcome, failures=["Complete requests: 2000 of 3000", "Keep-Alive requests: 0 of 3000"])

    def test_wrk(self):
        outcome = claims.read_wrk(sample("wrk.txt"))
        self.check(outcome, requests=133_312, wall_s=1.099615, per_s=121235.16, received_bytes=21_596_544, failures=[])
        self.check(outcome, latency_us=(61, 317, 2606))

    def test_wrk_names_bad_statuses(self):
        self.check(claims.read_wrk(sample("wrk-failures.txt")), requests=65_808, failures=["status errors: 6580"])

    def test_slowhttptest(self):
        held = claims.read_slowhttptest(sample("slowhttptest.txt"))
        self.assertEqual(held, claims.Held(True, 50, "Hit test time limit"))

    def test_slowhttptest_says_when_nobody_answers(self):
        """Of a socket that listens, and at which nobody accepts."""
        held = claims.read_slowhttptest(sample("slowhttptest-failures.txt"))
        self.assertEqual(held, claims.Held(False, 50, "Hit test time limit"))
        self.assertFalse(claims.read_slowhttptest("").available, "silence is no YES")

    def test_siege(self):
        outcome = claims.read_siege(sample("siege.txt"))
        self.check(outcome, requests=1000, wall_s=0.06, per_s=16666.67, availability=100.0, longest_s=0.01, failures=[])
        self.check(outcome, mean_s=0.0, body_bytes=10_486)  # 0.01 MiB is all that it says

    def test_siege_between_its_complaints(self):
        outcome = claims.read_siege(sample("siege-failures.txt"))
        self.check(outcome, requests=0, availability=0.0, failures=["failed transactions: 50"])

    def test_httperf_keeps_connections(self):
        outcome = claims.read_httperf(sample("httperf-keep-alive.txt"))
        self.check(outcome, requests=1000, kept_alive=990, wall_s=0.008, per_s=124360.4, failures=[])

    def test_httperf_closes_connections(self):
        outcome = claims.read_httperf(sample("httperf-close.txt"))
        self.check(outcome, requests=500, kept_alive=0, wall_s=0.026, per_s=19122.6, failures=[])

    def test_httperf_names_bad_statuses(self):
        self.check(claims.read_httperf(sample("httperf-failures.txt")), requests=100, failures=["5xx replies: 10"])

    def test_h2load(self):
        outcome = claims.read_h2load(sample("h2load.txt"))
        self.check(outcome, requests=2000, wall_s=0.01621, per_s=123395.85, failures=[])

    def test_h2load_names_what_failed(self):
        self.check(claims.read_h2load(sample("h2load-failures.txt")), requests=180, failures=["failed: 20"])

    def test_h2load_says_times_in_several_units(self):
        for said, wall_s in (("913us", 0.000913), ("16.21ms", 0.01621), ("3.35s", 3.35), ("2m", 120.0)):
            output = sample("h2load.txt").replace("finished in 16.21ms", f"finished in {said}")
            self.assertAlmostEqual(claims.read_h2load(output).wall_s, wall_s, msg=said)

    def test_oha(self):
        outcome = claims.read_oha(sample("oha.json"))
        self.check(outcome, requests=1000, wall_s=0.012789173, per_s=78191.13870771785, failures=[])

    def test_oha_names_bad_statuses(self):
        self.check(claims.read_oha(sample("oha-failures.json")), requests=90, failures=["status 503: 10"])

    def test_autocannon(self):
        outcome = claims.read_autocannon(sample("autocannon.json"))
        self.check(outcome, requests=88_811, wall_s=1.01, per_s=88_800, failures=[])

    def test_autocannon_writes_on_after_a_close(self):
        outcome = claims.read_autocannon(sample("autocannon-close.json"))
        self.check(outcome, requests=11_535, failures=["errors: 11"])

    def test_json_is_found_between_what_is_said_around_it(self):
        self.assertEqual(claims.json_in('warning: {no}\n{"a": {"b": 1}} done'.partition("\n")[2]), {"a": {"b": 1}})
