"""What pool and zygotes say about themselves: frozen snapshots, taken when somebody asks.

Counts are totals since the start unless a name says otherwise; waits are of the last callers only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStatistics:
    """How long callers waited for a sandbox, those included who got a ready one."""

    count: int
    p50_ms: float
    p95_ms: float
    max_ms: float

    @classmethod
    def of(cls, waits_s: Collection[float]) -> WaitStatistics:
        ordered = sorted(waits_s) or [0.0]
        p50, p95 = (ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in (0.5, 0.95))
        return cls(count=len(waits_s), p50_ms=1000 * p50, p95_ms=1000 * p95, max_ms=1000 * ordered[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """One kind of sandbox: those that are interchangeable."""

    scope: str
    image: str
    language: str
    target: int  # how many should be ready now
    ready: int
    opening: int
    in_use: int
    waiting: int
    hits: int  # callers who got a ready one
    substituted: int  # of these, callers who got a ready one whose kernel of that language was not started
    misses: int
    opened: int
    discarded: int  # ended without having been used
    failures: int  # could not be opened, or not be made ready
    waits: WaitStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class ZygoteStatistics:
    """One live zygote."""

    scope: str
    image: str
    age_s: float
    forks: int
    sandboxes: int
    retired: bool  # forks no more; ends with its last sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class ZygoteTotals:
    """All zygotes of a backend since its start."""

    started: int = 0
    replaced: int = 0  # because of age or forks
    evicted: int = 0  # because idle, or to make room
    died: int = 0
    failures: int = 0  # did not come up
    forks: int = 0
    live: tuple[ZygoteStatistics, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStatistics:
    """The pool at one moment."""

    alive: int
    alive_max: int
    opening: int
    opening_max: int
    waiting: int
    refused: int  # callers who were told to come again
    kinds: tuple[QueueStatistics, ...]
    zygotes: ZygoteTotals | None  # None: this backend has none

    @property
    def ready(self) -> int:
        return sum(kind.ready for kind in self.kinds)


@runtime_checkable
class CountsZygotes(Protocol):
    """A backend that forks zygotes and says how many."""

    def zygote_totals(self) -> ZygoteTotals:
        """What there is and was."""
        ...
