"""Cases that take turns, and the statistics of what they measured.

INVARIANT: `take` returns samples only of work whose result it has compared; otherwise it raises.
"""

from __future__ import annotations

import math
import os
import random
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench.peers.venvs import PeerMissingError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row in the making. `take(count)` does the work `count` times and returns samples in the row's unit."""

    name: str
    take: Callable[[int], Awaitable[Sequence[float]]]
    per_round: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one group measured: samples by row, per round, and how loaded the machine was."""

    group: str
    rounds: dict[str, list[list[float]]]
    load_before: float
    load_after: float
    seconds: float
    skipped: dict[str, str] = field(default_factory=dict[str, str])  # row -> why there is no figure
    notes: dict[str, str] = field(default_factory=dict[str, str])  # row -> what a reader must know beside its figure

    def samples(self, name: str) -> list[float]:
        return [sample for one in self.rounds[name] for sample in one]


class Watch:
    """Load and time of a group, from its start to `measured`."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._load_before, self._started = os.getloadavg()[0], time.perf_counter()

    def measured(
        self,
        rounds: dict[str, list[list[float]]],
        *,
        skipped: dict[str, str] | None = None,
        notes: dict[str, str] | None = None,
    ) -> Measured:
        return Measured(
            group=self._group,
            rounds=rounds,
            load_before=self._load_before,
            load_after=os.getloadavg()[0],
            seconds=time.perf_counter() - self._started,
            skipped=skipped or {},
            notes=notes or {},
        )


async def take_turns(group: str, cases: Sequence[Case], *, rounds: int, warm_ups: int = 1) -> Measured:
    """Run all cases `rounds` times, in another order each time, after warm-ups that do not count.

    A peer that fails leaves the group and is named as skipped; the others go on.
    """
    order = list(cases)
    found: dict[str, list[list[float]]] = {case.name: [] for case in cases}
    skipped: dict[str, str] = {}
    for _ in range(warm_ups):
        for case in tuple(order):
            await _take(case, min(2, case.per_round), order, skipped)
    watch = Watch(group)
    for _ in range(rounds):
        random.shuffle(order)
        for case in tuple(order):
            if (samples := await _take(case, case.per_round, order, skipped)) is not None:
                assert samples, f"{case.name} measured nothing"
                found[case.name].append(samples)
    return watch.measured({name: taken for name, taken in found.items() if name not in skipped}, skipped=skipped)


def with_skipped(measured: Measured, skipped: dict[str, str]) -> Measured:
    """The same, with more rows that there is no figure for."""
    return replace(measured, skipped={**measured.skipped, **skipped})


def with_rows(measured: Measured, rounds: dict[str, list[list[float]]]) -> Measured:
    """The same, with further rows."""
    return replace(measured, rounds={**measured.rounds, **rounds})


async def _take(case: Case, count: int, order: list[Case], skipped: dict[str, str]) -> list[float] | None:
    try:
        return list(await case.take(count))
    except PeerMissingError as error:
        order.remove(case)
        skipped[case.name] = str(error)
        return None


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that `share` of all samples do not exceed (nearest rank)."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(samples: Sequence[float]) -> float:
    """The middle sample, or the mean of the two in the middle."""
    ordered = sorted(samples)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
