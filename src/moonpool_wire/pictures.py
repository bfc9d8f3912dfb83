"""What a picture says of itself in its first bytes: form and size. Nothing is decoded. Pure; both sides use it.

A form that is not known here, a picture that breaks off, or one with too many bytes or dots is not shown to a model:
model APIs refuse such a picture, and with it the whole conversation that it stands in.
"""

import struct
from typing import Final, NamedTuple

from moonpool_wire.limits import PICTURE_BYTES_MAX, PICTURE_SIDE_MAX

SUFFIXES: Final = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
"""The forms that are shown, and how files of each are called."""

_PNG, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"
_JPEG, _JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"
_JPEG_SEGMENTS_MAX: Final = 1000
_WEBP_HEAD_BYTES: Final = 30


class Facts(NamedTuple):
    """MIME type, and width and height in dots."""

    mime: str
    width: int
    height: int


def read_facts(data: bytes) -> Facts | None:
    """What `data` is, if it is a whole picture of a form in SUFFIXES."""
    if data.startswith(_PNG):
        return _png(data)
    if data.startswith(_JPEG):
        return _jpeg(data)
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) > 13:
        return _facts("image/gif", *struct.unpack_from("<HH", data, 6)) if data.rstrip(b"\0").endswith(b";") else None
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= _WEBP_HEAD_BYTES:
        return _webp(data)
    return None


def fits(data: bytes) -> bool:
    """Whether `data` is a picture that may be shown as it is."""
    if len(data) > PICTURE_BYTES_MAX or (facts := read_facts(data)) is None:
        return False
    return max(facts.width, facts.height) <= PICTURE_SIDE_MAX


def _facts(mime: str, width: int, height: int) -> Facts | None:
    return Facts(mime, width, height) if width and height else None


def _png(data: bytes) -> Facts | None:
    if data[12:16] != b"IHDR" or _PNG_END not in data[-1024:]:
        return None
    return _facts("image/png", *struct.unpack_from(">II", data, 16))


def _jpeg(data: bytes) -> Facts | None:
    """The first frame header, found by stepping from one segment to the next."""
    at = 2
    for _ in range(_JPEG_SEGMENTS_MAX):
        if at + 9 > len(data) or data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return _facts("image/jpeg", width, height) if data.rfind(_JPEG_END) > at else None
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _webp(data: bytes) -> Facts | None:
    if int.from_bytes(data[4:8], "little") + 8 > len(data):
        return None
    form = data[12:16]
    if form == b"VP8X":
        return _facts(
            "image/webp", int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        )
    if form == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return _facts("image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if form == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return _facts("image/webp", width & 0x3FFF, height & 0x3FFF)
    return None
