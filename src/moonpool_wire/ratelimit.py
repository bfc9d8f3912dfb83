"""A token bucket without a clock: the caller says what time it is."""


class TokenBucket:
    """Allows `rate` units a second on average and `burst` at once."""

    def __init__(self, *, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens = burst
        self._at: float | None = None

    def take(self, units: float, now: float) -> float:
        """Take `units` at time `now` (seconds, monotonic).

        Return the seconds to wait before taking more; 0.0 is none.
        """
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        self._tokens -= units
        return 0.0 if self._tokens >= 0 else -self._tokens / self._rate
