"""How many sandboxes of one kind should stand ready: between a low and a high mark, after what was asked for lately.

What a ready sandbox saves is the wait of a caller who comes while none has been opened yet, so what counts is not how
many callers come, but how many come at once: within the time that opening a few takes. The largest such burst is
remembered and fades. A kind that is used keeps one ready for a while; a kind that nobody asks for goes back to its low
mark.

Pure: the caller brings the time.
"""

from __future__ import annotations

from collections import deque

BURST_S = 0.1
"""Callers within this time come at once: it takes about as long to open the high mark's worth."""
HALF_LIFE_S = 15.0
"""A burst is half forgotten after so long."""
KEPT_S = 120.0
"""For so long after the last caller one stays ready: an agent thinks for seconds, sometimes a minute."""


class Demand:
    """The recent past of one kind of sandbox."""

    def __init__(self, *, ready_low: int, ready_high: int) -> None:
        self.ready_low, self.ready_high = ready_low, ready_high
        self._recent: deque[float] = deque(
            maxlen=max(1, ready_high)
        )  # a larger burst would count as the high mark anyway
        self._peak = 0.0
        self._peak_at = 0.0
        self._last: float | None = None

    def note(self, now: float) -> None:
        """Somebody asked for one."""
        recent = self._recent
        recent.append(now)
        while recent[0] <= now - BURST_S:
            recent.popleft()
        faded = self._faded(now)
        self._peak, self._peak_at = max(faded, float(len(recent))), now
        self._last = now

    def target(self, now: float) -> int:
        """How many should be ready now."""
        in_use = self._last is not None and now - self._last < KEPT_S
        wanted = max(round(self._faded(now)), 1 if in_use else 0, self.ready_low)
        return min(wanted, self.ready_high)

    def rests(self, now: float) -> bool:
        """Whether the target stays what it is until somebody asks again."""
        if not self.ready_high:
            return True
        return self.target(now) == min(self.ready_low, self.ready_high) and (
            self._last is None or now - self._last >= KEPT_S
        )

    def _faded(self, now: float) -> float:
        return self._peak * 0.5 ** ((now - self._peak_at) / HALF_LIFE_S) if self._peak else 0.0
