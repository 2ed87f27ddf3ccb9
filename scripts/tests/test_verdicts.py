"""What a row's rounds say together."""

import unittest

from benchlib.documents import EMPTY, LARGE, Document
from benchlib.loads import Load
from benchlib.rounds import RowResult, Run
from benchlib.rows import Bar, Row
from benchlib.servers import Contender
from benchlib.tools import AB
from benchlib.verdicts import floor_moved, floor_of, judge

LOAD = Load("ab -k", AB, 20, requests=1_000)
FLOOR, TARED, NGINX = "floor fixed", "tared --fixed", "nginx 2012"


def contender(name: str) -> Contender:
    return Contender(name, name.split()[0], lambda _stage, _document: None)


def row(document: Document) -> Row:
    names = (FLOOR, TARED, NGINX)
    bars = (Bar("the floor", 1.05, (FLOOR,)), Bar("nginx 2012", 0.80, (NGINX,)))
    return Row("x", "x", document, LOAD, tuple(contender(name) for name in names), bars)


def result(costs_us: dict[str, list[float]]) -> RowResult:
    runs = [
        Run("x", LOAD.name, name, number, 1_000, 1.0, elapsed_s=1.0, user_s=cost / 1e3)
        for name, costs in costs_us.items()
        for number, cost in enumerate(costs, 1)
    ]
    return RowResult("x", runs, {}, {}, {})


class Rounds(unittest.TestCase):
    def test_a_floor_that_moves_is_said(self):
        for costs, is_said in (([5.0, 5.5], False), ([5.0, 6.0], False), ([5.0, 6.1], True), ([], False)):
            told = floor_moved(row(EMPTY), result({FLOOR: costs, TARED: [5.0, 9.0]}))
            self.assertEqual(told is not None, is_said, (costs, told))
        self.assertEqual(told, None)
        self.assertEqual(
            floor_moved(row(EMPTY), result({FLOOR: [6.1, 5.0]})), "the floor's cost went from 5.00 to 6.10 µs"
        )
        self.assertIsNone(floor_moved(row(LARGE), result({FLOOR: [50.0, 90.0]})), "that is its own")

    def test_ratios_are_of_one_round_and_the_floor_says_what_is_possible(self):
        measured = result({FLOOR: [5.0, 10.0], TARED: [5.5, 11.0], NGINX: [6.0, 12.0]})
        to_floor, to_nginx = judge(row(EMPTY), measured)
        self.assertEqual([round(ratio, 3) for ratio in to_floor.ratios], [1.1, 1.1])
        self.assertEqual((to_floor.kept, to_nginx.kept), (False, False))
        self.assertEqual(floor_of(row(EMPTY), measured, to_floor), [])
        self.assertEqual([round(ratio, 3) for ratio in floor_of(row(EMPTY), measured, to_nginx)], [0.833, 0.833])
