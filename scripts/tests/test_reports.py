"""What tared says of itself is read, subtracted, and believed only as far as the clocks go."""

import json
import unittest

from benchlib import report, reports
from benchlib.process import Clocks, Spent
from benchlib.reports import Account
from benchlib.rounds import Run
from benchlib.trials import Mark, Stretch

VERDICT = "tared was busy 98 % of the time, so tared was the limit."


def account(requests: int, cpu_s: float, user_s: float = 0.0, life_traffic_s: float = 1.0) -> Account:
    return Account(requests, cpu_s, user_s, life_traffic_s, VERDICT)


class Accounts(unittest.TestCase):
    def text(self, requests: int, user_us: float | None) -> str:
        """The fields that are read, of src/report.rs."""
        return json.dumps(
            {
                "schema": 1,
                "window": {"seconds": 9.0, "traffic_seconds": 2.5, "silent_seconds": 6.5},
                "requests": {"total": requests},
                "cost": {"cpu_seconds": 0.6, "cpu_user_us_per_request": user_us},
                "verdict": VERDICT,
            }
        )

    def test_one_is_read(self):
        read = reports.read(self.text(100_000, 1.5))
        self.assertEqual((read.requests, read.cpu_s, read.life_traffic_s, read.verdict), (100_000, 0.6, 2.5, VERDICT))
        self.assertAlmostEqual(read.user_s, 0.15)
        self.assertAlmostEqual(read.sys_s, 0.45)

    def test_one_without_requests_has_no_share_of_user_time(self):
        self.assertEqual(reports.read(self.text(0, None)).user_s, 0.0)

    def test_two_make_a_run_and_the_verdict_is_the_later_one(self):
        before = Account(2, 0.001, 0.0005, 0.01, "There was too little traffic to judge: 2 requests within 0.01 s.")
        run = account(50_002, 0.301, 0.0505, 0.41).since(before)
        self.assertEqual((run.requests, run.life_traffic_s, run.verdict), (50_000, 0.41, VERDICT))
        self.assertAlmostEqual(run.cpu_s, 0.3)
        self.assertAlmostEqual(run.user_s, 0.05)
        self.assertAlmostEqual(run.sys_s, 0.25)


class Checks(unittest.TestCase):
    def test_three_percent_beyond_what_the_clocks_leave_open(self):
        for own_s, least_s, most_s, agrees in (
            (1.00, 1.00, 1.00, True),
            (0.971, 1.00, 1.00, True),
            (0.969, 1.00, 1.00, False),
            (1.029, 1.00, 1.00, True),
            (1.031, 1.00, 1.00, False),
            # Ten thousand connections were still being closed when the client had ended.
            (1.20, 1.00, 1.25, True),
            (1.29, 1.00, 1.25, False),
            (0.0, 0.0, 0.0, True),
        ):
            fault = reports.disagreement(own_s, least_s, most_s)
            self.assertEqual(fault is None, agrees, (own_s, least_s, most_s, fault))
        self.assertEqual(
            reports.disagreement(0.35, 0.3, 0.3012),
            "its own report says 350.0 ms of CPU, the kernel's clocks 300.0 to 301.2: more than 3% apart",
        )

    def test_the_clocks_are_those_within_and_without_both_reports(self):
        def clocks(total_s: float, sleeps: int = 0) -> Clocks:
            return Clocks(total_s, 0, round(total_s * 100), sleeps)

        before = Mark(clocks(0.010), account(2, 0.005), clocks(0.012, sleeps=5))
        after = Mark(clocks(0.312, sleeps=9), account(50_002, 0.3055, 0.1), clocks(0.315, sleeps=11))
        stretch = Stretch(before, after)
        self.assertIsNone(stretch.disagreement)
        self.assertAlmostEqual(stretch.within.total_s, 0.3)
        self.assertAlmostEqual(stretch.spent.total_s, 0.3005, msg="as the server says")
        self.assertEqual((stretch.spent.user_s, stretch.spent.sleeps), (0.1, 4))

        lying = Stretch(before, Mark(after.early, account(50_002, 0.2), after.late))
        self.assertIn("its own report says 195.0 ms of CPU, the kernel's clocks 300.0 to 305.0", lying.disagreement)

        silent = Stretch(Mark(before.late, None, before.late), Mark(after.early, None, after.early))
        self.assertIsNone(silent.disagreement)
        self.assertIsNone(silent.account)
        self.assertEqual(silent.spent, Spent(0.0, silent.within.total_s, 4), "as the kernel says")

    def test_no_answer_without_a_request(self):
        self.assertIsNone(reports.miscount(50_000, 50_000))
        self.assertIsNone(reports.miscount(50_020, 50_000), "those were on their way")
        self.assertEqual(reports.miscount(49_999, 50_000), "50000 answers to 49999 requests, as its own report says")

    def test_a_verdict_is_on_the_runs_or_is_none(self):
        for life_traffic_s, is_theirs in ((1.9, True), (2.0, True), (2.09, True), (2.2, False)):
            told = reports.verdict_on(account(1, 1.0, life_traffic_s=life_traffic_s), runs_s=2.0)
            self.assertEqual(told == VERDICT, is_theirs, told)
        self.assertEqual(
            told, "Its verdict is not on these runs alone: of 2.2 s of traffic 0.2 s were before or between them."
        )


class Sentences(unittest.TestCase):
    def run_of(self, contender: str, number: int, own: Account | None) -> Run:
        return Run("0k-ab", "ab -k", contender, number, 50_000, 0.4, elapsed_s=0.45, answered=50_000, account=own)

    def test_a_row_has_one_for_each_server_that_gives_an_account(self):
        runs = [
            self.run_of("floor fixed", 1, None),
            self.run_of("tared DIR", 1, account(50_000, 0.3, life_traffic_s=0.4)),
            self.run_of("tared DIR", 2, account(50_020, 0.3, life_traffic_s=0.8)),
        ]
        self.assertEqual(
            report.accounts_of(runs),
            [f"tared DIR, of 100,020 requests as it counted them, 100,000 as the client did: {VERDICT}"],
        )
