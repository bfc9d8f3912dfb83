"""Verdicts of policy on one call, from the mildest to the strictest."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


class Verdict(StrEnum):
    """Policy's verdict on one call."""

    ALLOW = "allow"
    ASK = "ask"
    HUMAN_ONLY = "human_only"  # ask, but an automatic approver must not answer
    DENY = "deny"

    @property
    def strictness(self) -> int:
        return _STRICTNESS[self]


_STRICTNESS: Final = {verdict: place for place, verdict in enumerate(Verdict)}


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """The strictest of `verdicts`; ALLOW if there are none."""
    return max(verdicts, key=lambda verdict: verdict.strictness, default=Verdict.ALLOW)
