"""Cases that take turns, and the statistics of what they measured.

INVARIANT: `take` returns samples only of work whose result it has compared; otherwise it raises.
"""

from __future__ import annotations

import math
import os
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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

    def samples(self, name: str) -> list[float]:
        return [sample for one in self.rounds[name] for sample in one]


async def take_turns(group: str, cases: Sequence[Case], *, rounds: int, warm_ups: int = 1) -> Measured:
    """Run all cases `rounds` times, in another order each time, after warm-ups that do not count."""
    order = list(cases)
    found: dict[str, list[list[float]]] = {case.name: [] for case in cases}
    for _ in range(warm_ups):
        for case in order:
            await case.take(min(2, case.per_round))
    load_before, started = os.getloadavg()[0], time.perf_counter()
    for _ in range(rounds):
        random.shuffle(order)
        for case in order:
            samples = list(await case.take(case.per_round))
            assert samples, f"{case.name} measured nothing"
            found[case.name].append(samples)
    return Measured(
        group=group,
        rounds=found,
        load_before=load_before,
        load_after=os.getloadavg()[0],
        seconds=time.perf_counter() - started,
    )


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that `share` of all samples do not exceed (nearest rank)."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(samples: Sequence[float]) -> float:
    """The middle sample, or the mean of the two in the middle."""
    ordered = sorted(samples)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
