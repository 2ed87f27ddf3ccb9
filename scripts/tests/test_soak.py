"""What scripts/soak takes for wrong, lost, grown or miscounted."""

import collections
import random
import re
import unittest

from soaklib import account, content, samples, site
from soaklib.exchanges import KINDS, MAKERS, Client, Wrong, content_range, span_of, split_parts
from soaklib.samples import Sample
from soaklib.wire import Answer, Unreadable, parse_head

SEED, NAME = 7, "r/small-00"


def answer(status: int, body: bytes = b"", length: int | None = None, **fields: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return Answer(status, {"etag": '"a"'} | named, body, len(body) if length is None else length)


class Content(unittest.TestCase):
    def test_each_byte_of_a_version_is_under_its_checksum(self):
        body = content.version(SEED, NAME, 300)
        self.assertEqual(len(body), 300)
        self.assertIsNone(content.trouble_with_version(SEED, {NAME}, body))
        for at in range(len(body)):
            flipped = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
            self.assertIsNotNone(content.trouble_with_version(SEED, {NAME}, flipped), at)

    def test_another_file_length_or_seed_is_noticed(self):
        body = content.version(SEED, NAME, 5000)
        zeros = body[:4000] + bytes(1000)
        mixed = content.version(SEED, NAME, 5001)[:2500] + body[2500:]
        for wrong in (body[:-1], body + b"x", b"", zeros, mixed, content.version(SEED + 1, NAME, 5000)):
            self.assertIsNotNone(content.trouble_with_version(SEED, {NAME}, wrong))
        self.assertIn("under the name of", content.trouble_with_version(SEED, {"r/small-01"}, body))

    def test_a_stream_is_the_same_from_wherever_it_is_looked_at(self):
        whole = content.stream(SEED, "s/0", 0, 200_000)
        self.assertEqual(len(whole), 200_000)
        for start, end in ((0, 0), (0, 1), (65_535, 65_537), (131_072, 131_073), (70_000, 199_999)):
            self.assertEqual(content.stream(SEED, "s/0", start, end), whole[start:end], (start, end))
        self.assertNotEqual(content.stream(SEED, "s/1", 0, 64), whole[:64])

    def test_zeros_are_excused_where_a_cut_leaves_them_and_nothing_else_is(self):
        right = content.stream(SEED, "s/0", 0, 3 * 4096 + 100)

        def like(got: bytes, at: int = 0, is_shared: bool = False) -> str:
            return content.compare(got, right[at : at + len(got)], at, is_shared)

        def cleared(start: int, end: int) -> bytes:
            return right[:start] + bytes(end - start) + right[end:]

        self.assertEqual(like(right), content.RIGHT)
        self.assertEqual(like(right[5000:6000], 5000), content.RIGHT)
        self.assertEqual(like(cleared(5000, 8192)), content.CLEARED, "to the end of its page")
        self.assertEqual(like(cleared(3 * 4096 + 9, 3 * 4096 + 100)), content.CLEARED, "to the end of all")
        self.assertEqual(like(cleared(5000, 8192)[6000:7000], 6000), content.CLEARED, "a part of it")
        self.assertEqual(like(cleared(5000, 8000)), content.WRONG, "not to the end of its page")
        self.assertEqual(like(cleared(4096, 8192)), content.WRONG, "a page")
        self.assertEqual(like(cleared(4096, 8192), is_shared=True), content.CLEARED)
        self.assertEqual(like(cleared(5000, 8000), is_shared=True), content.CLEARED)
        for at in (0, 4095, 4096, len(right) - 1):
            flipped = right[:at] + bytes([right[at] ^ 0x55]) + right[at + 1 :]
            self.assertEqual(like(flipped, is_shared=True), content.WRONG, at)


class Answers(unittest.TestCase):
    def setUp(self):
        self.client = Client(SEED, random.Random(1), collections.Counter())

    def test_a_whole_file(self):
        body = content.version(SEED, NAME, 1000)
        self.client.judge_whole(NAME, answer(200, body))
        self.assertEqual(self.client.counts["bytes verified"], 1000)
        with self.assertRaisesRegex(Wrong, "under \"a\", which had 1000"):
            self.client.judge_whole(NAME, answer(200, content.version(SEED, NAME, 1001)))
        for wrong in (answer(404), answer(200, body[:-1] + b"\0", etag='"b"')):
            with self.assertRaises(Wrong):
                self.client.judge_whole(NAME, wrong)

    def test_a_part_is_verified_against_the_version_of_that_length(self):
        part = content.version(SEED, NAME, 1000)[100:200]
        right = answer(206, part, content_range="bytes 100-199/1000")
        self.client.judge_part(NAME, (100, 199), right)
        for spec, wrong in (
            ((100, 198), right),
            ((101, None), right),
            ((100, 199), answer(206, part, content_range="bytes 100-199/1001", etag='"b"')),
            ((100, 199), answer(206, part[1:], content_range="bytes 100-199/1000")),
            ((100, 199), answer(206, part[:-1] + b"\0", content_range="bytes 100-199/1000")),
            ((100, 199), answer(200, content.version(SEED, NAME, 1000))),
            ((100, 199), answer(416, content_range="bytes */1000")),
        ):
            with self.assertRaises(Wrong):
                self.client.judge_part(NAME, spec, wrong)
        self.client.judge_part(NAME, (100, 199), answer(416, content_range="bytes */100"))

    def test_zeros_in_a_file_that_is_read_are_wrong(self):
        name = site.stretched()[0]
        for length, is_wrong in ((site.READ_MAX, True), (site.READ_MAX + 2, False)):
            body = content.stream(SEED, name, 0, length - 1) + b"\0"
            self.assertNotEqual(body, content.stream(SEED, name, 0, length))
            got = answer(200, body, etag=f'"{length}"')
            if is_wrong:
                self.assertRaises(Wrong, self.client.judge_whole, name, got)
            else:
                self.client.judge_whole(name, got)
                self.assertEqual(self.client.counts["cleared: by mapping, complete"], 1)

    def test_several_parts(self):
        whole = content.version(SEED, NAME, 1000)

        def part(first: int, end: int) -> bytes:
            return b"--B\r\nContent-Range: bytes %d-%d/1000\r\n\r\n%s" % (first, end - 1, whole[first:end])

        def of(body: bytes) -> Answer:
            return answer(206, body, content_type="multipart/byteranges; boundary=B")

        body = part(0, 10) + b"\r\n" + part(900, 1000) + b"\r\n--B--\r\n"
        self.assertEqual([part[:3] for part in split_parts(body, b"B")], [(0, 10, 1000), (900, 1000, 1000)])
        self.client.judge_parts(NAME, [(0, 9), (None, 100)], of(body))
        for specs, wrong in (
            ([(0, 9), (20, 29)], body),
            ([(0, 9)], body),
            ([(0, 9), (None, 100)], body.replace(whole[900:905], b"xxxxx")),
            ([(0, 9), (None, 100)], body[:-4]),
        ):
            with self.assertRaises(Wrong):
                self.client.judge_parts(NAME, specs, of(wrong))

    def test_what_a_range_comes_to(self):
        for spec, total, span in (
            ((0, 0), 10, (0, 1)),
            ((5, 20), 10, (5, 10)),
            ((9, None), 10, (9, 10)),
            ((10, None), 10, None),
            ((None, 3), 10, (7, 10)),
            ((None, 30), 10, (0, 10)),
            ((None, 3), 0, None),
        ):
            self.assertEqual(span_of(spec, total), span, (spec, total))
        for text in ("", "bytes 5-4/10", "bytes 0-10/10", "bytes */10"):
            self.assertRaises(Wrong, content_range, text)

    def test_heads(self):
        got = parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n")
        self.assertEqual((got.status, got.length, got.closes), (200, 3, True))
        for head in (b"soak r/small-00\r\n\r\n", b"HTTP/1.1 200 OK\r\nx\r\n\r\n", b"HTTP/1.1 2 OK\r\n\r\n"):
            self.assertRaises(Unreadable, parse_head, head)

    def test_every_kind_of_request_is_one(self):
        self.assertEqual(set(KINDS), set(MAKERS))
        for kind in KINDS:
            request = self.client.exchange(kind).request
            self.assertTrue(re.match(rb"[A-Z]+ \S+ HTTP/1\.1\r\n([A-Za-z-]+: [^\r\n]+\r\n)+\r\n", request), request)


class Growth(unittest.TestCase):
    SECONDS = 600.0

    def rises(self, figure) -> samples.Rise:
        """Of samples each second, with `figure(second)` descriptors."""
        taken = [Sample(float(at), 0, 0, figure(at), 0, 0, 1) for at in range(int(self.SECONDS))]
        return samples.rise(taken, "descriptors", self.SECONDS, allowed=64)

    def test_a_leak_is_noticed_and_waves_are_not(self):
        self.assertTrue(self.rises(lambda at: 300).is_flat)
        self.assertTrue(self.rises(lambda at: 100 + 200 * (at % 7 == 0)).is_flat)
        self.assertTrue(self.rises(lambda at: 50 + min(at, 90) * 10).is_flat, "the warm-up is its own")
        self.assertTrue(self.rises(lambda at: 1000 - at).is_flat, "less is not more")
        self.assertFalse(self.rises(lambda at: 100 + 200 * (at % 7 == 0) + at // 4).is_flat)
        self.assertFalse(self.rises(lambda at: 500 if at == 599 else 300).is_flat)
        found = self.rises(lambda at: at)
        self.assertEqual((found.first, found.last), (266, 599))


class Accounts(unittest.TestCase):
    def report(self) -> dict:
        return {
            "requests": {"total": 10, "by_status": {"2xx": 8, "4xx": 2}, "by_method": {"GET": 10}},
            "connections": {
                "accepted": 5, "open": 0, "closed_by_client": 2, "closed_by_server": 1, "reset": 1, "timed_out": 1,
            },
            "bytes": {"sent": 1000, "received": 500},
        }  # fmt: skip

    def counts(self) -> collections.Counter:
        seen = {"requests": 12, "answers": 9, "2xx": 8, "4xx": 1, "connected": 6, "connections answered": 4}
        return collections.Counter(seen | {"bytes received": 900, "bytes sent": 600})

    def test_what_cannot_be_true_is_said(self):
        self.assertEqual(account.disagreements(self.report(), self.counts()), [])
        for name, value in (
            ("answers", 11), ("requests", 9), ("2xx", 9), ("4xx", 3), ("connected", 4), ("connections answered", 6),
            ("bytes received", 1001), ("bytes sent", 499),
        ):  # fmt: skip
            counts = self.counts()
            counts[name] = value
            self.assertEqual(len(account.disagreements(self.report(), counts)), 1, name)
        report = self.report()
        report["connections"]["open"] = 1
        self.assertEqual(len(account.disagreements(report, self.counts())), 2)
