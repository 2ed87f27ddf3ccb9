"""What scripts/browse computes: contrast, checksums of a font, the head of a recording."""

import struct
import unittest

from browselib import colours, files


class Contrast(unittest.TestCase):
    def test_black_on_white_is_the_most_and_nothing_the_least(self):
        black, white = colours.parse("rgb(0, 0, 0)"), colours.parse("rgb(255, 255, 255)")
        self.assertAlmostEqual(colours.contrast(black, white), 21)
        self.assertAlmostEqual(colours.contrast(white, black), 21)
        self.assertAlmostEqual(colours.contrast(white, white), 1)

    def test_the_grey_that_just_passes(self):
        """#767676 on white is known as the lightest grey of 4.5:1."""
        white = colours.parse("rgb(255, 255, 255)")
        self.assertGreaterEqual(colours.contrast(colours.parse("rgb(118, 118, 118)"), white), 4.5)
        self.assertLess(colours.contrast(colours.parse("rgb(119, 119, 119)"), white), 4.5)

    def test_what_covers_half_is_half_seen(self):
        over = colours.laid_over(colours.parse("rgba(0, 0, 0, 0.5)"), colours.parse("rgb(255, 255, 255)"))
        self.assertEqual(over, (127.5, 127.5, 127.5, 1.0))
        below = colours.parse("rgb(1, 2, 3)")
        self.assertEqual(colours.laid_over(colours.parse("rgba(9, 9, 9, 0)"), below), below)

    def test_other_colour_spaces_are_no_guess(self):
        with self.assertRaises(ValueError):
            colours.parse("color(display-p3 1 0 0)")


class Files(unittest.TestCase):
    def test_checksums_of_the_font(self):
        """OpenType: the whole sums up to 0xB1B0AFBA, and each table to what the directory says."""
        font = files.font()
        self.assertEqual(files.checksum(font), 0xB1B0AFBA)
        (count,) = struct.unpack_from(">H", font, 4)
        tags = []
        for at in range(12, 12 + 16 * count, 16):
            tag, total, offset, length = struct.unpack_from(">4sIII", font, at)
            tags.append(tag)
            self.assertEqual(offset % 4, 0, tag)
            if tag != b"head":
                self.assertEqual(files.checksum(font[offset : offset + length]), total, tag)
        self.assertEqual(tags, sorted(tags))
        self.assertEqual(len(tags), 10)

    def test_sizes_in_the_head_of_a_recording(self):
        head = files.wav_head(2)
        self.assertEqual(len(head), files.WAV_HEAD_BYTES)
        of_data = 2 * 48_000 * 4
        self.assertEqual(struct.unpack_from("<I", head, 4)[0], files.WAV_HEAD_BYTES - 8 + of_data)
        self.assertEqual(struct.unpack_from("<I", head, 40)[0], of_data)
        self.assertEqual(len(files.tone(440)), 48_000 * 4)


if __name__ == "__main__":
    unittest.main()
