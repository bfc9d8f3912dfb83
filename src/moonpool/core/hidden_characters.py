"""Characters that Python calls printable but that are invisible: fillers, blanks, variation selectors. Pure.

SECURITY: with them a text says more than it shows. Names that differ in them look the same, and a run of variation
selectors can hold a whole sentence, which a model reads and a person does not.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = frozenset(
    map(
        chr,
        [
            0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x2D7F, 0x3164,
            *range(0xFE00, 0xFE10), 0xFFA0, 0xFFFC, 0x10A3F, 0x16FE4, 0x1D159, *range(0xE0100, 0xE01F0),
        ],
    )
)  # fmt: skip
_LOOK: Final = re.compile(f"([^\\s{''.join(sorted(HIDDEN))}])[\ufe0e\ufe0f]")


def is_seen(char: str) -> bool:
    """Whether a character is drawn, or is a plain space."""
    return char.isprintable() and char not in HIDDEN


def all_seen(text: str) -> bool:
    """Whether every character of `text` is."""
    return text.isprintable() and (text.isascii() or HIDDEN.isdisjoint(text))


def without_looks(text: str) -> str:
    """`text` without the one selector behind a character that says whether it is drawn as a picture. More are kept."""
    return text if text.isascii() else _LOOK.sub(r"\1", text)
