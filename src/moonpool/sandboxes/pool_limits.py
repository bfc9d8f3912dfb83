"""The marks and bounds of a pool, as one frozen value."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


def _opening_max() -> int:
    """Two for each core: one computes while the other waits for its zygote. More only wait for each other."""
    return 2 * len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """Marks and bounds of a pool; the settings of similar names explain them. `ready_max=0` keeps none ready."""

    alive_max: int = 64
    alive_per_scope_max: int = 0
    ready_min: int = 2
    ready_max: int = 8
    opening_max: int = field(default_factory=_opening_max)
    waiting_max: int = 512
    wait_s_max: float = 30.0

    @classmethod
    def none_ready(cls, *, alive_max: int) -> PoolLimits:
        """Open on demand only."""
        return cls(alive_max=alive_max, ready_min=0, ready_max=0)
