"""When an upstream that keeps failing may be tried again: delays that grow, then a circuit breaker. Pure.

The first failure causes no delay, so that a server that ended once is restarted by the next call. From the second in a
row on, attempts are spaced by a doubling delay; in between, calls fail at once. With `failures_max` in a row the
circuit opens: for `rest_s` nothing is tried, then one single request is let through (half open). Its success closes the
circuit, its failure opens it for twice as long. The clock is an argument.

`Returning` spaces reconnects that only waiting subscribers need: a server that starts, answers and exits again never
counts as failing, and would be restarted forever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DELAY_S_FIRST: Final = 0.25
DELAY_S_MAX: Final = 30.0
REST_S_MAX: Final = 600.0
STEADY_S: Final = 30.0
"""After a connection that lasted this long the next one is not delayed."""


@dataclass(slots=True)
class Backoff:
    """Counts failures in a row. A completed request is a success; a mere connection is not."""

    failures_max: int = 5
    rest_s: float = DELAY_S_MAX
    failures: int = 0
    probing: bool = False  # the one request of a half-open circuit is under way
    _not_before: float = 0.0

    @property
    def is_open(self) -> bool:
        """Open or half open: `wait_s` tells which."""
        return self.failures >= self.failures_max

    def failed(self, now: float) -> None:
        self.failures += 1
        if self.is_open:
            longest = max(REST_S_MAX, self.rest_s)
            self._not_before = now + min(self.rest_s * 2 ** min(self.failures - self.failures_max, 16), longest)
        elif self.failures > 1:
            self._not_before = now + min(DELAY_S_FIRST * 2 ** min(self.failures - 2, 16), DELAY_S_MAX)

    def succeeded(self) -> None:
        self.failures = 0
        self._not_before = 0.0

    def wait_s(self, now: float) -> float:
        """Seconds until the next attempt may start; 0 means now."""
        return max(0.0, self._not_before - now)


@dataclass(slots=True)
class Returning:
    """Counts connections in a row that did not last. The first of them costs nothing."""

    _short: int = 0

    def lived(self, seconds: float) -> None:
        """A connection ended, or was not made."""
        self._short = 0 if seconds >= STEADY_S else self._short + 1

    @property
    def wait_s(self) -> float:
        """How long to wait before the next one."""
        return min(DELAY_S_FIRST * 2 ** min(self._short - 1, 16), DELAY_S_MAX) if self._short > 1 else 0.0
