"""What a browser wants and no text file is: a font and a long recording. Pure."""

import math
import struct
from collections.abc import Iterable

# Of the font, whose only letter is FONT_LETTER: wider than a letter of any other.
UNITS_PER_EM = 1000
FONT_LETTER = "A"
FONT_ADVANCE = 3000

FRAMES_PER_S = 48_000
FRAME_BYTES = 4  # two channels of 16 bits
WAV_HEAD_BYTES = 44


def wav_head(seconds: int) -> bytes:
    """Of so much PCM, which follows it: RIFF, `fmt `, `data`."""
    size = seconds * FRAMES_PER_S * FRAME_BYTES
    form = struct.pack("<HHIIHH", 1, 2, FRAMES_PER_S, FRAMES_PER_S * FRAME_BYTES, FRAME_BYTES, 16)
    chunks = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", size)
    return b"RIFF" + struct.pack("<I", len(chunks) + size) + chunks


def tone(hertz: int) -> bytes:
    """A second of it."""
    samples = (int(8000 * math.sin(2 * math.pi * hertz * frame / FRAMES_PER_S)) for frame in range(FRAMES_PER_S))
    return b"".join(struct.pack("<hh", sample, sample) for sample in samples)


def font() -> bytes:
    """TrueType with one letter, a square: the tables that OpenType requires, and nothing in them."""
    square = struct.pack(">hhhhh", 1, 0, 0, UNITS_PER_EM, UNITS_PER_EM) + struct.pack(">HH", 3, 0) + b"\x01" * 4
    square += struct.pack(">4h4h", 0, 0, UNITS_PER_EM, 0, 0, UNITS_PER_EM, 0, -UNITS_PER_EM)
    letter = ord(FONT_LETTER)
    segments = struct.pack(">2HH2H2H2H", letter, 0xFFFF, 0, letter, 0xFFFF, 1 - letter & 0xFFFF, 1, 0, 0)
    mapping = struct.pack(">HHHHHHH", 4, 14 + len(segments), 0, 4, 4, 1, 0) + segments
    box = (0, 0, UNITS_PER_EM, UNITS_PER_EM)
    return sfnt({
        b"OS/2": struct.pack(">HhHHH", 0, UNITS_PER_EM, 400, 5, 0) + bytes(52)
        + struct.pack(">HHHhhhHH", 64, letter, letter, UNITS_PER_EM, 0, 0, UNITS_PER_EM, 0),
        b"cmap": struct.pack(">HHHHI", 0, 1, 3, 1, 12) + mapping,
        b"glyf": square,
        b"head": struct.pack(">IIIIHHqq4hHHhhh", 0x10000, 0x10000, 0, 0x5F0F3CF5, 0, UNITS_PER_EM, 0, 0, *box, 0, 8, 2, 0, 0),
        b"hhea": struct.pack(">IhhhHhhh", 0x10000, UNITS_PER_EM, 0, 0, FONT_ADVANCE, 0, 0, UNITS_PER_EM)
        + struct.pack(">hhh4hhH", 1, 0, 0, 0, 0, 0, 0, 0, 2),
        b"hmtx": struct.pack(">HhHh", UNITS_PER_EM, 0, FONT_ADVANCE, 0),
        b"loca": struct.pack(">HHH", 0, 0, len(square) // 2),
        b"maxp": struct.pack(">IHHH", 0x10000, 2, 4, 1) + struct.pack(">HHH", 0, 0, 1) + bytes(16),
        b"name": struct.pack(">HHH", 0, 0, 6),
        b"post": struct.pack(">I", 0x30000) + bytes(28),
    })


def sfnt(tables: dict[bytes, bytes]) -> bytes:
    """The file of these tables, with their checksums and that of the whole in `head`."""
    power = len(tables).bit_length() - 1
    directory = struct.pack(">IHHHH", 0x10000, len(tables), 16 << power, power, 16 * len(tables) - (16 << power))
    at = len(directory) + 16 * len(tables)
    body = b""
    for tag, table in sorted(tables.items()):
        directory += tag + struct.pack(">III", checksum(table), at + len(body), len(table))
        body += padded(table)
    whole = directory + body
    adjust_at = at + sum(len(padded(table)) for tag, table in tables.items() if tag < b"head") + 8
    return whole[:adjust_at] + struct.pack(">I", 0xB1B0AFBA - checksum(whole) & 0xFFFFFFFF) + whole[adjust_at + 4 :]


def padded(table: bytes) -> bytes:
    return table + bytes(-len(table) % 4)


def checksum(table: bytes) -> int:
    words: Iterable[tuple[int]] = struct.iter_unpack(">I", padded(table))
    return sum(word for (word,) in words) & 0xFFFFFFFF
