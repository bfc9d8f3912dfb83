"""Watches one sandbox from outside: ends it when its processor time is used up, and tells by which limit it ended.

With groups the time of every process counts, also of those that are gone and of those that run between executions.
Without them only the first process is watched; all others have their own limit (RLIMIT_CPU), which is also what ends
the first one should the host look too late. The next look comes no earlier than the limit could be reached with all the
cores the sandbox may use, so an idle sandbox is hardly ever looked at.

A counter that cannot be read hides no end: an end and an execution are told without it. But a sandbox whose time cannot
be looked at is ended (fail closed).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

from moonpool.sandboxes.base import ExitCause, LimitKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.sandboxes.base import ExitOutcome
    from moonpool.sandboxes.control_group import LimitGroup

_log = logging.getLogger(__name__)
_UNREADABLE = (OSError, LookupError, ValueError)  # gone, another text than expected, no number
_PAUSE_S_MIN = 0.05  # so the limit is passed by 0.05 s for each core at most


class LimitWatch:
    """Watches the group of one sandbox until `settle`."""

    def __init__(self, group: LimitGroup, *, cpu_s: Callable[[], float], kill: Callable[[], None]) -> None:
        self._group, self._cpu_s = group, cpu_s
        self._kill = kill
        self._cores = min(group.limits.cpu_cores_max, os.cpu_count() or 1)
        self._cpu_used_up = False
        self._last_hits: frozenset[LimitKind] | None = None
        self._timer: asyncio.TimerHandle
        self._seen_s = 0.0
        self._look_later(group.limits.cpu_s_max)

    def _look_later(self, left_s: float) -> None:
        pause_s = max(_PAUSE_S_MIN, left_s / self._cores)
        self._timer = asyncio.get_running_loop().call_later(pause_s, self._look)

    def _look(self) -> None:
        try:
            self._seen_s = self._cpu_s()
        except _UNREADABLE:
            _log.exception("the processor time of a sandbox cannot be read; it is ended")
            self._kill()
            return
        left_s = self._group.limits.cpu_s_max - self._seen_s
        if left_s > 0:
            self._look_later(left_s)
        else:
            self._cpu_used_up = True
            self._kill()

    def hits(self) -> frozenset[LimitKind] | None:
        """The limits met since this was last asked; None where nobody counts, or where the counters cannot be read."""
        if not self._group.counts:
            return None
        return self._count() if self._last_hits is None else self._last_hits

    def _count(self) -> frozenset[LimitKind] | None:
        try:
            return self._group.hits()
        except _UNREADABLE:
            _log.exception("the counters of a sandbox cannot be read; whether it met a limit is not known")
            return None

    def memory_share(self) -> float | None:
        """How much of its memory is used; None where nobody counts, or where that cannot be read."""
        if not self._group.counts:
            return None
        try:
            return self._group.memory_share()
        except _UNREADABLE:
            _log.exception("the memory of a sandbox cannot be read; how much it uses is not known")
            return None

    def settle(self, outcome: ExitOutcome, cpu_s: float) -> ExitOutcome:
        """Every process is gone: say by which limit, give the group back. `cpu_s`: as the first process's parent saw.

        Nobody in a sandbox can send SIGKILL to its first process, so one that we did not send came from a limit.
        """
        self._timer.cancel()
        hits = self._count() or frozenset()
        limit = self._limit_of(outcome, hits, cpu_s)
        self._last_hits = hits if limit is None else hits | {limit}
        self._group.discard()
        return outcome if limit is None else replace(outcome, limit=limit)

    def _limit_of(self, outcome: ExitOutcome, hits: frozenset[LimitKind], cpu_s: float) -> LimitKind | None:
        if self._cpu_used_up:
            return LimitKind.CPU
        if outcome.cause is not ExitCause.SIGNALLED or outcome.signal != signal.SIGKILL:
            return None
        if LimitKind.MEMORY in hits:
            return LimitKind.MEMORY
        used_s = max(cpu_s, self._seen_s, self._used_s())
        return LimitKind.CPU if used_s >= self._group.limits.cpu_s_max else None

    def _used_s(self) -> float:
        try:
            return self._group.cpu_s()
        except _UNREADABLE:
            _log.exception("the processor time of a sandbox that has ended cannot be read")
            return 0.0
