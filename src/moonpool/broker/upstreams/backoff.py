"""When an upstream that keeps failing may be tried again. Pure: the clock is an argument.

The first failure costs nothing, so that a server that died once is restarted by the very next call. From the second in
a row on, attempts are spaced by a doubling delay; in between, calls fail at once. After the delay one attempt is let
through, and its outcome decides.
"""

from __future__ import annotations

from dataclasses import dataclass

DELAY_S_FIRST = 0.25
DELAY_S_MAX = 30.0


@dataclass(slots=True)
class Backoff:
    """Counts failures in a row. A completed request is a success; a mere connection is not."""

    failures: int = 0
    _not_before: float = 0.0

    def failed(self, now: float) -> None:
        self.failures += 1
        if self.failures > 1:
            self._not_before = now + min(DELAY_S_FIRST * 2 ** min(self.failures - 2, 16), DELAY_S_MAX)

    def succeeded(self) -> None:
        self.failures = 0
        self._not_before = 0.0

    def wait_s(self, now: float) -> float:
        """Seconds until the next attempt may start; 0 means now."""
        return max(0.0, self._not_before - now)
