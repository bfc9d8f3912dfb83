"""The result of testing one argument: four values, because true and false do not cover all cases."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Finding(Enum):
    """Whether a condition is met.

    SECURITY: UNREADABLE is a value that may mean one thing to us and another to the server: a number where a string was
    expected, a URL with two hosts, a path on another drive. It never helps a call: an allow rule does not match it, any
    stricter rule does. MISSING matches only a rule that requires it (`absent`).
    """

    HOLDS = auto()
    FAILS = auto()
    MISSING = auto()
    UNREADABLE = auto()


class UnreadableError(Exception):
    """Why a value is UNREADABLE, as the end of a sentence: "it cannot be read for sure, because ..."."""


def held(value: bool) -> Finding:
    return Finding.HOLDS if value else Finding.FAILS


def any_holds(looks: Iterable[Callable[[], bool]]) -> Finding:
    """Combine alternatives: one that holds is enough. Raises the last UnreadableError if none does."""
    unread: UnreadableError | None = None
    for look in looks:
        try:
            if look():
                return Finding.HOLDS
        except UnreadableError as exc:
            unread = exc
    if unread is not None:
        raise unread
    return Finding.FAILS


def agreed(readings: Iterable[bool]) -> bool:
    """Combine readings of one value: the common result. Raises UnreadableError if they differ."""
    seen = set(readings)
    if len(seen) > 1:
        raise UnreadableError("programs may read it in more than one way")
    return seen.pop()
