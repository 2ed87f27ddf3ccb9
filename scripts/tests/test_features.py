"""What scripts/features reads out of answers, logs and /proc, and how it prints what it concluded."""

import pathlib
import unittest

from benchlib.tools import Tool
from featurelib import answers
from featurelib.checks import FEATURES, MANUAL, NO, PARTIAL, UNCHECKED, YES, Feature, Outcome
from featurelib.setups import Setup, subjects
from featurelib.table import Column, cell, raised, table

COMMON = '127.0.0.1 - - [01/Dec/2026:00:00:00 +0000] "GET /plain.txt HTTP/1.1" 200 4096'
COMBINED = COMMON + ' "http://elsewhere.example/" "features"'


class Logs(unittest.TestCase):
    def test_a_line_is_of_its_kind(self):
        for line, kind in (
            (COMMON, "common"),
            (COMBINED, "combined"),
            (COMMON.replace("4096", "-"), "common"),
            ('{"request":{"uri":"/plain.txt"},"status":200}', "json"),
            ('1 info {"uri":"/plain.txt"}', "json"),
            (COMMON.replace("[01/Dec", "[2026-12"), "own"),
            ("INFO GET /plain.txt", "own"),
            ("{/plain.txt}", "own"),
        ):
            self.assertEqual(answers.logged(["started", line], "/plain.txt"), kind, line)

    def test_only_lines_about_the_request_count(self):
        self.assertIsNone(answers.logged([COMMON.replace("plain", "other"), "started"], "/plain.txt"))
        self.assertEqual(answers.logged(["serving /plain.txt", COMBINED], "/plain.txt"), "combined")


class Listings(unittest.TestCase):
    def test_order_is_that_of_the_page(self):
        page = '<a href="b.txt">b.txt</a> <a href="a.txt">a.txt</a>'
        self.assertEqual(answers.order_of(["a.txt", "b.txt", "c.txt"], page), ["b.txt", "a.txt"])

    def test_names_are_found_in_json_of_any_shape(self):
        for document in (
            [{"name": "a.txt", "size": 1}],
            {"entries": [{"path": "/list/a.txt", "more": [None, 2]}]},
            {"listing": ["a.txt"]},
        ):
            self.assertIn("a.txt", answers.names_in(document))
        self.assertEqual(answers.names_in([1, None, {"a.txt": 2}]), set(), "a key is no name")
        self.assertEqual(answers.names_in(answers.parse_json("<html>")), set())


class Ranges(unittest.TestCase):
    TYPE = "multipart/byteranges; boundary=edge"

    def test_parts_are_read_with_their_ranges(self):
        body = (
            b"--edge\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/9\r\n\r\nab"
            b"\r\n--edge\r\ncontent-range: bytes 4-5/9\r\n\r\n\r\n\r\n--edge--\r\n"
        )
        self.assertEqual(answers.parts_of(self.TYPE, body), [("bytes 0-1/9", b"ab"), ("bytes 4-5/9", b"\r\n")])
        self.assertEqual(answers.parts_of('multipart/byteranges; boundary="edge"', b"\r\n" + body)[0][1], b"ab")

    def test_what_is_not_multipart_has_none(self):
        self.assertEqual(answers.parts_of("text/plain", b"ab"), [])
        self.assertEqual(answers.parts_of(self.TYPE, b"ab"), [])


class Figures(unittest.TestCase):
    def test_directives_by_name(self):
        told = answers.directives('public, Max-Age="60" , no-cache')
        self.assertEqual(told, {"public": "", "max-age": "60", "no-cache": ""})
        self.assertEqual(answers.directives(""), {})

    def test_counters_of_either_kind(self):
        nginx = "Active connections: 1 \nserver accepts handled requests\n 7 7 8 \nReading: 0"
        self.assertTrue(answers.counts(nginx, 8))
        self.assertFalse(answers.counts(nginx, 9))
        prometheus = '# TYPE http_requests_total counter\nhttp_requests_total{code="200"} 7\n'
        self.assertTrue(answers.counts(prometheus, 7))
        self.assertFalse(answers.counts(prometheus, 200), "a label is no count")
        self.assertFalse(answers.counts("connections 7\n", 7))

    def test_status_of_a_process(self):
        status = "Name:\tx\nUid:\t0\t65534\t0\t0\nNoNewPrivs:\t1\nSeccomp:\t2\n"
        self.assertEqual(answers.status_field(status, "Uid")[1], "65534")
        self.assertEqual(answers.status_field(status, "Seccomp"), ["2"])
        self.assertEqual(answers.status_field(status, "Groups"), [])

    def test_an_option_that_is_not_known_is_told_from_other_trouble(self):
        for words in (
            "tared: unexpected argument '--list' found (try tared --help)",
            'nginx: [emerg] unknown directive "x" in nginx.conf:3',
            "Unrecognized argument",
        ):
            self.assertTrue(answers.is_refused(words), words)
        for words in ("address already in use", "permission denied", ""):
            self.assertFalse(answers.is_refused(words), words)


class Tables(unittest.TestCase):
    def test_a_note_is_numbered_once(self):
        notes: list[str] = []
        cells = [
            cell(outcome, notes)
            for outcome in (
                Outcome(YES),
                Outcome(NO),
                Outcome(PARTIAL, "so"),
                Outcome(YES, "else"),
                Outcome(MANUAL, "so"),
                Outcome(UNCHECKED),
            )
        ]
        self.assertEqual(cells, ["yes", "–", "partial¹", "yes²", "by its manual¹", "not checked"])
        self.assertEqual(notes, ["so", "else"])
        self.assertEqual(raised(10), "¹⁰")

    def test_a_row_for_each_feature_and_a_column_for_each_server(self):
        features = [Feature("x", "it does x", lambda _trial: Outcome(YES))]
        columns = [Column("a", "1", {"x": Outcome(YES)}, {}), Column("b", "2", {"x": Outcome(PARTIAL, "half")}, {})]
        self.assertEqual(
            table(columns, features).splitlines(),
            ["|  | a | b |", "| --- | --- | --- |", "| it does x | yes | partial¹ |", "", "¹ half."],
        )


class Setups(unittest.TestCase):
    def test_every_setup_is_of_a_feature(self):
        known = {feature.id for feature in FEATURES}
        tool = Tool("tared", "", "--version", "")
        for subject in subjects(tool, pathlib.Path("tared")):
            self.assertEqual(set(subject.setups) - known, set(), subject.name)

    def test_options_are_said_as_they_are_typed(self):
        self.assertEqual(Setup(("--header", "X-Own: yes")).said, "--header 'X-Own: yes'")
        self.assertEqual(Setup(block="a {\n  b\n}", around="c;\n").said, "c; a { b }")
