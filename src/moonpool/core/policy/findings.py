"""What comes of looking at one argument. Four answers, because two would have to lie."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Finding(Enum):
    """Whether a condition is met.

    SECURITY: UNREADABLE is a value that is there and may mean one thing to us and another to the server: a number where
    a text was expected, a URL with two hosts in it, a path on another drive. It never helps a call: an allow rule does
    not match it, any stricter rule does. MISSING meets no rule at all but one that asks for it (`absent`).
    """

    HOLDS = auto()
    FAILS = auto()
    MISSING = auto()
    UNREADABLE = auto()


def held(value: bool) -> Finding:
    return Finding.HOLDS if value else Finding.FAILS


def any_holds(findings: Iterable[Finding]) -> Finding:
    """Of several alternatives: one that holds, else one that cannot be read, else failure."""
    seen = set(findings)
    return next((one for one in (Finding.HOLDS, Finding.UNREADABLE) if one in seen), Finding.FAILS)


def agreed(findings: Iterable[Finding]) -> Finding:
    """Of several ways to read one value: what all of them say, UNREADABLE where they differ."""
    seen = set(findings)
    return seen.pop() if len(seen) == 1 else Finding.UNREADABLE
