"""Colour on a terminal that shows it, unless NO_COLOR is set (https://no-color.org) or TERM is `dumb`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, Self

_CODES: Final = {"bold": "1", "dim": "2", "red": "1;31", "green": "1;32", "yellow": "1;33", "cyan": "36"}


@dataclass(frozen=True, slots=True)
class Colour:
    """Colours texts of ours, or leaves them as they are."""

    shown: bool

    @classmethod
    def on(cls, fd: int) -> Self:
        """As whatever `fd` leads to shows it."""
        return cls(os.isatty(fd) and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb")

    def of(self, tone: str, text: str) -> str:
        """`text` in `tone`: bold, dim, red, green, yellow or cyan."""
        return f"\x1b[{_CODES[tone]}m{text}\x1b[0m" if self.shown else text
