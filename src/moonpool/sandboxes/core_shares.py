"""How sandboxes share the cores, whatever the version of control groups: a quota for each, one weight for all. Pure."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moonpool.sandboxes.base import SandboxLimits

PERIOD_US = 100_000
QUOTA_US_MIN = 1000
WEIGHT = 4 * (os.cpu_count() or 1)
"""Sandboxes share the cores among them, and all together weigh as much as four busy programs for each core: with a
weight of one, everything else on the machine would come before them; with one for each sandbox, nothing would."""


def quota_us(limits: SandboxLimits) -> int | None:
    """Processor time per period; None where the machine has no more than that anyway."""
    if limits.cpu_cores_max >= (os.cpu_count() or 1):
        return None
    return max(QUOTA_US_MIN, round(limits.cpu_cores_max * PERIOD_US))
