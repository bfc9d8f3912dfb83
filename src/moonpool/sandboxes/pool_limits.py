"""The marks and bounds of a pool, as one frozen value."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


def _opening_max() -> int:
    """Two for each core: one computes while the other waits for its zygote. More only wait for each other."""
    return 2 * len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """Marks and bounds of a pool. `ready_high=0` keeps none ready.

    `moonpool.bootstrap.sandboxes.pool_limits` says which setting each of them comes from.
    """

    alive_max: int = 64
    alive_per_scope_max: int = 0
    ready_low: int = 2
    ready_high: int = 8
    opening_max: int = field(default_factory=_opening_max)
    waiting_max: int = 512
    wait_s_max: float = 30.0
