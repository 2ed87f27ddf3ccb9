"""The sentences follow from the numbers, whichever way those go."""

import unittest

from benchlib.claims import Outcome
from benchlib.process import Spent
from benchlib.scenarios import proxy, raw, siege, tools
from benchlib.trials import Trial


class Sentences(unittest.TestCase):
    def check(self, sentence: str, *parts: str, without: tuple[str, ...] = ()) -> None:
        for part in parts:
            self.assertIn(part, sentence)
        for part in without:
            self.assertNotIn(part, sentence)
        self.assertTrue(sentence.endswith(".") and "\n" not in sentence, sentence)


class Raw(Sentences):
    def line(self, server: str, per_s: float, by_floor: float, bottleneck: str = "server") -> raw.Line:
        return raw.Line(server, per_s, 20 / per_s * 1e3, 50_000, [6.0 * by_floor], 7.0, [by_floor], bottleneck)

    def test_who_spends_how_much(self):
        lines = [self.line(raw.THE_FLOOR, 150_000, 1.0), self.line(raw.OURS_FIXED, 149_000, 1.03)]
        lines += [self.line(raw.NGINX, 100_000, 1.4), self.line(raw.NODE_RAW, 40_000, 3.5)]
        self.check(
            raw.conclude(lines),
            "tared --fixed 1.03, nginx 2012 1.40, node net 3.50 times",
            "0.40 of nginx's requests per second, where it made 0.58 in 2012",
            "ab had CPU to spare with all of them",
        )

    def test_ab_was_the_bottleneck(self):
        lines = [self.line(raw.THE_FLOOR, 150_000, 1.0, "client"), self.line(raw.NGINX, 100_000, 1.4, "both")]
        lines += [self.line(raw.NODE_RAW, 40_000, 3.5)]
        self.check(raw.conclude(lines), "short of CPU with 2 of 3 servers (floor fixed, nginx 2012)")

    def test_who_failed_is_not_spoken_of(self):
        lines = [self.line(raw.THE_FLOOR, 150_000, 1.0), raw.Line(raw.NGINX, fault="Failed requests: 3")]
        self.check(raw.conclude(lines), "ab had CPU to spare", without=("nginx", "times"))

    def test_nothing(self):
        self.check(raw.conclude([]), "Nothing could be measured")

    def test_only_tared_is_held_to_work(self):
        lines = [raw.Line("nginx 2012", fault="x"), raw.Line("tared DIR", fault="no Content-Length")]
        self.assertEqual(raw.broken(lines), ["tared DIR: no Content-Length"])


class Proxy(Sentences):
    def line(self, front: str, upstream: str, per_s: float, proxy_us: float, upstream_us: float) -> proxy.Line:
        proxies = [proxy_us] if proxy_us else []
        return proxy.Line(front, upstream, True, per_s, proxies, [upstream_us], 20.0, "server")

    def lines(self, ours_us: float, node_us: float) -> list[proxy.Line]:
        return [
            self.line("nothing", "tared --fixed", 120_000, 0, ours_us),
            self.line("http-proxy", "tared --fixed", 2_600, 350, ours_us),
            self.line("nginx", "tared --fixed", 14_000, 50, ours_us),
            self.line("nothing", "node http", 10_000, 0, node_us),
            self.line("http-proxy", "node http", 2_500, 350, node_us),
            self.line("nginx", "node http", 9_000, 50, node_us),
        ]

    def test_the_proxy_is_measured(self):
        self.check(
            proxy.conclude(self.lines(ours_us=10, node_us=50)),
            "from 50.0 µs of CPU a request (nginx) to 350 µs (http-proxy)",
            "takes 12%–50% if it is node's http, and with every proxy less if it is tared: 3%–17%",
            "so that it is the proxy that is measured",
            "keeps 25% of its requests per second (24% in 2011)",
            "every answer had its 12 bytes",
        )

    def test_the_upstream_is_measured(self):
        sentence = proxy.conclude(self.lines(ours_us=90, node_us=50))
        self.check(sentence, "not always less if it is tared: 20%–64%", without=("so that it is the proxy",))

    def test_a_changed_length_is_named(self):
        lines = self.lines(10, 50)
        lines.append(proxy.Line("haproxy", "node http", False, fault="the bodies have 22 bytes in all, not 12"))
        self.check(proxy.conclude(lines), "answered wrongly and count for nothing: haproxy before node http")

    def test_a_changed_length_fails(self):
        # 2011: twelve bytes had become twenty-two.
        for body_bytes, failures in (
            (12_000, []),
            (22_000, ["the bodies have 22000 bytes in all, not 12000"]),
            (12_001, ["the bodies have 12001 bytes in all, not 12000"]),
        ):
            trial = Trial(Outcome(1000, 1.0, [], body_bytes=body_bytes))
            self.assertEqual(proxy.checked(trial).failures, failures)


class Siege(Sentences):
    def line(self, server: str, coding: str, per_s: float, availability: float = 100.0, users: int = 600) -> siege.Line:
        return siege.Line(server, coding, users, per_s, 0.05, 0.4, availability, 33_792, 25.0, 75.0)

    def lines(self) -> list[siege.Line]:
        return [
            self.line("tared 1", siege.PLAIN, 6_000),
            self.line("tared 4", siege.PLAIN, 7_000),
            self.line("nginx 4", siege.PLAIN, 5_000),
            self.line("node cluster 4", siege.PLAIN, 2_000),
            self.line("tared 2", siege.GZIP, 8_000),
            self.line("nginx 4 gzip_static", siege.GZIP, 6_000),
            self.line("node cluster 4", siege.GZIP, 3_000),
        ]

    def test_the_best_of_each_family_and_like_for_like(self):
        self.check(
            siege.conclude(self.lines()),
            "At 600 users: without gzip tared 4 7,000 transactions/s (longest 0.40 s), nginx 4 5,000",
            "with gzip tared 2 8,000",
            "makes 0.60 of nginx's transactions per second (2.01 then), and like for like 0.50",
            "75%–75% with tared",
            "tared answered every request at each of 3 levels",
            without=("tared 1",),
        )

    def test_tared_is_to_be_there_for_everybody(self):
        lines = [*self.lines(), self.line("tared 1", siege.GZIP, 100, 99.5, users=300)]
        self.check(siege.conclude(lines), "tared was 99.50 % available at its worst")
        self.assertEqual(siege.broken(lines), ["tared 1, gzip, 300 users: 99.50 % available"])
        self.assertEqual(siege.broken([self.line("nginx 4", siege.PLAIN, 100, 50.0)]), [])

    def test_bytes_are_held_to_those_of_the_file(self):
        for body_bytes, fault in (
            (33_792_000, ""),
            (33_600_000, ""),
            (10_600_000, "10,600 bytes a transaction, not 33,792"),
        ):
            outcome = Outcome(
                1000, 1.0, [], per_s=1000, body_bytes=body_bytes, mean_s=0.1, longest_s=0.1, availability=100.0
            )
            trial = Trial(outcome, 1.0, {"nginx 1": Spent(0.1, 0.1, 0)}, 0.5)
            self.assertEqual(siege.line_of("nginx 1", siege.PLAIN, 100, trial, 33_792).fault, fault)


class Tools(Sentences):
    def line(self, tool: str, connections: int, per_s: float, bottleneck: str, **more: object) -> tools.Line:
        return tools.Line(
            tool, True, connections, 100_000, per_s=per_s, client_us=1e6 / per_s, bottleneck=bottleneck, **more
        )

    def test_who_was_short_of_cpu(self):
        lines = [self.line("wrk", 100, 200_000, "tool"), self.line("siege", 100, 10_000, "tool")]
        lines += [self.line("ab", 1, 20_000, "neither"), tools.Line("httperf", True, 10_000, skipped="select")]
        self.check(
            tools.conclude(lines),
            "from 10,000 (siege, 100 connections, kept) to 200,000 (wrk, 100 connections, kept)",
            "of 3 runs the bottleneck was the tool in 2, neither in 1;",
            "costs wrk 5.00 µs of its own CPU and siege 100 µs",
            without=("count", "10,000 connections"),
        )

    def test_counts_that_differ(self):
        # A thousandth is what may be; what tared counted more was on its way when wrk stopped counting.
        for counted, part in ((100_100, "no tool's count differs"), (100_200, "the counts of wrk differ somewhere")):
            lines = [self.line("wrk", 100, 100_000, "tool", counted=counted)]
            self.check(tools.conclude(lines), part)
            self.assertEqual(bool(tools.remarks(lines[0])), counted == 100_200)
            self.assertEqual(tools.broken(lines), [])
        self.assertEqual(tools.remarks(self.line("wrk", 100, 100_000, "tool")), [])

    def test_an_answer_without_a_request_is_wrong(self):
        lines = [self.line("ab", 10, 100_000, "tool", counted=99_999)]
        self.assertEqual(tools.broken(lines), ["ab, 10 connections, kept: 100000 answers to 99999 requests"])

    def test_ten_thousand_connections(self):
        fine = self.line("wrk", 10_000, 60_000, "tool")
        missing = self.line("oha", 10_000, 60_000, "tool", failures=["timeout: 3"])
        ended = tools.Line("ab", True, 10_000, fault="the server ended by itself")
        for lines, part in (
            ([fine], "10,000 connections never ended tared in 1 runs, in which no tool missed an answer"),
            ([fine, missing], "never ended tared in 2 runs, in which oha missed answers"),
            ([fine, ended], "10,000 connections ended tared in 1 of 2 runs (ab)"),
        ):
            self.check(tools.conclude(lines), part)
        self.assertEqual(tools.broken([ended]), ["ab, 10000 connections, kept: the server ended by itself"])

    def test_what_a_tool_cannot_do(self):
        cannot = {
            (tool.name, keeps_alive, connections)
            for tool in tools.TOOLS
            for keeps_alive in (True, False)
            for connections in tools.CONNECTIONS
            if tools.why_not(tool, keeps_alive, connections)
        }
        self.assertEqual(
            cannot,
            {("httperf", True, 10_000), ("siege", True, 10_000), ("siege", False, 10_000)}
            | {("httperf", False, connections) for connections in (10, 100, 1_000, 10_000)},
        )
