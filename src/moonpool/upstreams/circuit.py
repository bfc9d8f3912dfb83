"""Whether a server that keeps failing is called now: `backoff` for one server, with the errors that say when it is.

INVARIANT: a half-open circuit lets one request through at a time, whoever else calls.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from moonpool.core.phrases import said
from moonpool.upstreams.backoff import Backoff
from moonpool.upstreams.base import (
    UpstreamCircuitOpenError,
    UpstreamLoginNeededError,
    UpstreamRateLimitedError,
    UpstreamRestingError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from moonpool.configuration.servers import ServerConfig
    from moonpool.upstreams.base import UpstreamError


class Circuit:
    """Counts one server's failures in a row."""

    def __init__(self, config: ServerConfig, clock: Callable[[], float]) -> None:
        self._server_id = config.server_id
        self._clock = clock
        self._backoff = Backoff(failures_max=config.failures_max, rest_s=config.rest_s)
        self._last_problem = ""

    @property
    def wait_s(self) -> float:
        return self._backoff.wait_s(self._clock())

    @contextmanager
    def entered(self) -> Generator[None]:
        """One request. Raises UpstreamCircuitOpenError when it must not be made now."""
        if not self._backoff.is_open:
            yield
            return
        if self._backoff.probing or self.wait_s > 0:
            raise self._left_alone()
        self._backoff.probing = True
        try:
            yield
        finally:
            self._backoff.probing = False

    def check_rested(self) -> None:
        """Before a new connection. Raises UpstreamRestingError."""
        if self.wait_s > 0:
            raise self._left_alone()

    def failed(self, error: UpstreamError) -> None:
        if not isinstance(error, UpstreamLoginNeededError | UpstreamRateLimitedError):
            self._backoff.failed(self._clock())  # the call after a login must not wait; a busy server said how long
        self._last_problem = said(str(error), 400)

    def succeeded(self) -> None:
        self._backoff.succeeded()

    def _left_alone(self) -> UpstreamRestingError:
        wait_s, failures = self.wait_s, self._backoff.failures
        kind = UpstreamRestingError
        problem = f"failed {failures} times in a row and is left alone for {wait_s:.1f} s more"
        if self._backoff.is_open:
            when = f"in {wait_s:.1f} s" if wait_s > 0 else "right now, by another call"
            kind = UpstreamCircuitOpenError
            problem = f"failed {failures} times in a row, so its circuit is open; it is tried again {when}"
        operators = f"{problem}; the last time: {self._last_problem}"
        return kind(self._server_id, operators, for_guest=problem, retry_after_s=wait_s)
