"""What the first bytes of a picture say, and which pictures are shown."""

from __future__ import annotations

import struct
import zlib

from moonpool_wire.limits import PICTURE_BYTES_MAX, PICTURE_SIDE_MAX
from moonpool_wire.pictures import Facts, fits, read_facts
from tables import every_row


def png(width: int = 3, height: int = 2, *, more: int = 0) -> bytes:
    """A whole picture, with `more` bytes that say nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * (width + 1) * height) if width * height < 10**6 else b""
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", rows), chunk(b"teXt", b"x" * more), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def jpeg(width: int = 7, height: int = 5) -> bytes:
    frame = b"\xff\xc2\x00\x0b\x08" + struct.pack(">HH", height, width) + b"\x01\x01\x11\x00"
    return b"\xff\xd8\xff\xe0\x00\x04ab" + frame + b"\xff\xda\x00\x02data\xff\xd9"


def webp(form: bytes, body: bytes) -> bytes:
    rest = b"WEBP" + form + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(rest)) + rest


GIF = b"GIF89a" + struct.pack("<HH", 4, 9) + b"\0" * 4 + b";"
LOSSY = webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 16, 8) + b"\0" * 8)
LOSSLESS = webp(b"VP8L", b"\x2f" + struct.pack("<I", (16 - 1) | (8 - 1) << 14) + b"\0" * 8)
EXTENDED = webp(b"VP8X", b"\0\0\0\0" + b"\x0f\0\0" + b"\x07\0\0" + b"\0" * 8)


@every_row(
    ("data", "facts"),
    [
        (png(), Facts("image/png", 3, 2)),
        (jpeg(), Facts("image/jpeg", 7, 5)),
        (GIF, Facts("image/gif", 4, 9)),
        (LOSSY, Facts("image/webp", 16, 8)),
        (LOSSLESS, Facts("image/webp", 16, 8)),
        (EXTENDED, Facts("image/webp", 16, 8)),
        (b"", None),
        (png()[:-12], None),
        (png()[:20], None),
        (png(0, 1), None),
        (b"\x89PNG\r\n\x1a\n" + b"x" * 50, None),
        (jpeg()[:-2], None),
        (jpeg()[:12], None),
        (b"\xff\xd8\xff" + b"\xff\x00" * 100_000, None),
        (b"\xff\xd8" + b"\xff\xe0\x00\x02" * 100_000 + jpeg()[8:], None),
        (GIF[:13], None),
        (GIF[:-1] + b"broken off", None),
        (EXTENDED[:-1], None),
        (webp(b"ABCD", b"\0" * 20), None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
    ],
)
def test_form_and_size_are_read_and_nothing_that_breaks_off_is_a_picture(data: bytes, facts: Facts | None) -> None:
    assert read_facts(data) == facts


@every_row(
    ("data", "shown"),
    [
        (png(), True),
        (png(PICTURE_SIDE_MAX, 1), True),
        (png(PICTURE_SIDE_MAX + 1, 1), False),
        (png(2**31, 2**31), False),
        (png(more=PICTURE_BYTES_MAX - len(png())), True),
        (png(more=PICTURE_BYTES_MAX - len(png()) + 1), False),
        (b"no picture", False),
    ],
)
def test_a_picture_is_shown_within_its_bounds(data: bytes, shown: bool) -> None:
    assert fits(data) is shown
