"""What scripts/cluster and scripts/slow conclude: of an answer, of what HAProxy says, and of figures."""

import dataclasses
import unittest

from benchlib import haproxy, phases, slowness
from benchlib.asking import Page, judge
from benchlib.claims import Held
from benchlib.latency import Latency, percentile, summed
from benchlib.phases import CONTROL, Phase, Run

PAGE = Page("/a", b"0123456789")
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: keep-alive\r\n\r\n0123456789"
FINE = Latency(1_000, 0, 1.0, 2.0, 3.0)


class Answers(unittest.TestCase):
    def test_a_good_answer_is_good_when_its_last_byte_is_there(self):
        for length in range(len(GOOD)):
            self.assertFalse(judge(GOOD[:length], PAGE).is_whole, length)
        self.assertEqual(judge(GOOD, PAGE).fault, None)
        self.assertTrue(judge(GOOD, PAGE).is_whole)

    def test_whatever_is_wrong_is_a_fault(self):
        for old, new, fault in (
            (b"200 OK", b"503 Service Unavailable", "status 503"),
            (b"200 OK", b"206 Partial Content", "status 206"),
            (b"Length: 10", b"Length: 11", "a length of 11 and not 10"),
            (b"Content-Length: 10\r\n", b"", "a length of None and not 10"),
            (b"56789", b"56780", "another body"),
            (b"56789", b"567890", "another body"),
        ):
            self.assertEqual(judge(GOOD.replace(old, new), PAGE).fault, fault)

    def test_a_connection_is_kept_unless_its_end_is_said(self):
        self.assertTrue(judge(GOOD, PAGE).keeps)
        self.assertFalse(judge(GOOD.replace(b"keep-alive", b"close"), PAGE).keeps)


class Latencies(unittest.TestCase):
    def test_percentiles_are_by_nearest_rank(self):
        hundred = [float(number) for number in range(1, 101)]
        for share, value in ((0.5, 50), (0.99, 99), (0.991, 100), (1.0, 100), (0.0, 1)):
            self.assertEqual(percentile(hundred, share), value, share)
        self.assertEqual(percentile([7.0], 0.5), 7.0)

    def test_failures_are_counted_and_each_cause_said_once(self):
        told = summed([0.003, 0.001, 0.002], ["reset", "reset", "late"])
        self.assertEqual(told, Latency(3, 3, 2.0, 3.0, 3.0, ("reset", "late")))
        self.assertEqual(summed([], ["late"]), Latency(0, 1, causes=("late",)))


class OfHaproxy(unittest.TestCase):
    def test_standings_are_of_the_servers_of_one_backend(self):
        table = (
            "# pxname,svname,wretr,wredis,status,hrsp_2xx,\n"
            "in_front,FRONTEND,,,OPEN,90,\n"
            "tared,a,1,2,UP,40,\n"
            "tared,b,0,0,DOWN 1/2,50,\n"
            "tared,BACKEND,1,2,UP,90,\n\n"
        )
        expected = {"a": haproxy.Standing("UP", 40, 2), "b": haproxy.Standing("DOWN 1/2", 50, 0)}
        self.assertEqual(haproxy.read_standings(table, "tared"), expected)


def phase(latency: Latency = FINE, note: str = "", **answers: int) -> Phase:
    return Phase("x", latency, 1.0, answers or {"a": 500, "b": 500}, 0, 0.02, 0.01, note)


def runs_called(name: str):
    return lambda *of: Run(name, "", list(of))


FAILED = dataclasses.replace(FINE, failed=2, causes=("reset",))


class Phases(unittest.TestCase):
    def test_a_failure_is_broken_but_in_the_control_where_none_is(self):
        steady, control = runs_called("steady"), runs_called(CONTROL)
        good = [control(phase(), phase(FAILED, "down")), steady(phase(), phase(note="down"))]
        self.assertEqual(phases.broken(good), [])
        for wrong, sentence in (
            (steady(phase(FAILED)), "steady, x: 2 requests failed: reset"),
            (steady(phase(FAILED, "down")), "steady, x: 2 requests failed: reset"),
            (control(phase(FAILED), phase(FAILED, "down")), "control, x: 2 requests failed: reset"),
            (steady(phase(summed([], []))), "steady, x: nothing was answered"),
            (steady(phase(a=1_000, b=0)), "steady, x: b had no request"),
        ):
            self.assertEqual(phases.broken([wrong]), [sentence])
        self.assertIn("nothing is proved", phases.broken([control(phase(note="down"))])[0])

    def test_cost_is_of_a_request_that_was_answered(self):
        self.assertEqual((phase().haproxy_us, phase().servers_us, phase().share("a")), (20.0, 10.0, 0.5))
        self.assertIsNone(dataclasses.replace(phase(), servers_s=None).servers_us)


class Slowness(unittest.TestCase):
    HEADS, RANGES = slowness.MODES[0].title, slowness.MODES[2].title

    def round(self, **other: object) -> slowness.Round:
        claim = Held(True, slowness.CONNECTIONS, "Hit test time limit")
        good = slowness.Round(self.HEADS, 1, FINE, dataclasses.replace(FINE, p99_ms=49.0), 0.1, claim)
        return dataclasses.replace(good, **other)

    def test_what_is_broken(self):
        self.assertEqual(slowness.broken([self.round()]), [])
        few = Held(True, 399, "No open connections left")
        self.assertEqual(slowness.broken([self.round(mode=self.RANGES, claim=few)]), [], "those need not be held")
        for wrong, part in (
            (self.round(claim=few), "held 399 connections"),
            (self.round(claim=dataclasses.replace(few, connected_max=400, available=False)), "not available"),
            (self.round(during=FAILED), "2 normal requests failed during: reset"),
            (self.round(before=FAILED), "2 normal requests failed before: reset"),
            (self.round(during=dataclasses.replace(FINE, p99_ms=50.1)), "may be 50.0 ms"),
            (self.round(during=summed([], [])), "no normal request was answered during"),
        ):
            (trouble,) = slowness.broken([wrong])
            self.assertIn(part, trouble)

    def test_the_bound_grows_with_what_was_before(self):
        before = dataclasses.replace(FINE, p99_ms=6.0)
        during = dataclasses.replace(FINE, p99_ms=59.0)
        self.assertEqual(slowness.broken([self.round(before=before, during=during)]), [])

    def test_of_several_rounds_the_median_counts(self):
        bad = self.round(during=dataclasses.replace(FINE, p99_ms=500.0))
        self.assertEqual(slowness.broken([bad, self.round(), self.round()]), [])
        self.assertEqual(len(slowness.broken([bad, bad, self.round()])), 1)
