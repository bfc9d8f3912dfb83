"""Finds private keys in PEM and OpenPGP armour: over many lines, indented, quoted, or escaped in JSON.

A key begins with its `-----BEGIN … PRIVATE KEY-----` and at least 16 characters of base64; without an end line it
extends as far as the base64. At most KEY_BYTES_MAX from the beginning are examined, twice an RSA key of 16,384 bits.
The rest of a longer key is not recognised.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from moonpool.redaction.spans import NOT_IN_TEXT, Scan, compiled, first_place

if TYPE_CHECKING:
    from moonpool.redaction.spans import Span

KEY_BYTES_MAX: Final = 32 * 1024
_BEGIN: Final = b"-----BEGIN "
_NAME: Final = "private_key"

_GAP = r"""(?:[\s"'+,>|]|\\+[nrtf"'])"""
_HEADER = rf"(?:[A-Z][A-Za-z]*(?:-[A-Za-z]+)*: [A-Za-z0-9,.:()/ ]*(?:-[A-Za-z0-9,.:()/ ]+)*{_GAP}+)"
_LABEL = r"(?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
_KEY = (
    rf"-----BEGIN {_LABEL}{_GAP}*{_HEADER}*[A-Za-z0-9+/=]{{16}}(?:[A-Za-z0-9+/=]|{_GAP})*"
    rf"(?:-----END {_LABEL})?"
)
_OPEN = re.compile(
    rb"-----BEGIN [A-Z0-9 ]*+(?:-{1,4}\Z|\Z|(?<=KEY|OCK)-----[A-Za-z0-9+/=\s\"',>|:().\\-]*+\Z)",
)
"""The beginning of a key up to the end of the data, complete or not."""


class PrivateKeys:
    """Finder of private keys."""

    between = NOT_IN_TEXT
    counted = True

    def __init__(self) -> None:
        self._key = compiled(_KEY.encode())
        self._first = first_place(self._key)

    @property
    def empty(self) -> bool:
        return False

    def contains(self, data: bytes) -> bool:
        return b"PRIVATE KEY" in data and self._key.search(data) is not None

    def scan(self, data: bytes, at: int, *, final: bool, most: int | None = None) -> Scan:
        held = len(data) if final else self._hold_from(data, at)
        spans: list[Span] = []
        if data.find(b"PRIVATE KEY", at) < 0:
            return Scan(spans, held, held)
        while most is None or len(spans) < most:
            start, end = self._first(data, at, len(data))
            if start < 0 or start >= held:
                break
            if end - start > KEY_BYTES_MAX:
                start_only = self._key.match(data[start : start + KEY_BYTES_MAX])
                if start_only is None:
                    at = start + 1
                    continue
                end = start + start_only.end()
            spans.append((start, end, _NAME))
            at = end
        at = max(at, held)
        return Scan(spans, at, at)

    def _hold_from(self, data: bytes, at: int) -> int:
        begin = data.rfind(_BEGIN, at)
        if begin >= 0 and len(data) - begin <= KEY_BYTES_MAX and self._may_go_on(data, begin):
            return begin
        for length in range(len(_BEGIN) - 1, 0, -1):
            if data.endswith(_BEGIN[:length], at):
                return len(data) - length
        return len(data)

    def _may_go_on(self, data: bytes, begin: int) -> bool:
        if _OPEN.match(data, begin) is None:
            return False
        key = self._key.match(data, begin)
        return key is None or data.rfind(b"-----END ", begin, key.end()) < 0
