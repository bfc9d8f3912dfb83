"""Telling callers that they get no sandbox: which limit it was, and when to come again.

The pause that a refused caller is told follows how fast others were served lately.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.sandboxes.pool_admission import Places
    from moonpool.sandboxes.pool_limits import PoolLimits

_RATE_OVER = 64
_RETRY_S_MIN, _RETRY_S_MAX = 1.0, 60.0


class BusyError(MoonpoolError):
    """There is no room for another sandbox; the caller has waited, or would have to wait, too long. Nothing was run."""

    code = "busy"
    fault = Fault.HOST
    _names_host = False
    retryable = True

    def __init__(self, why: str, *, setting: str, retry_after_s: float) -> None:
        super().__init__(f"{why}; try again in {retry_after_s:.0f} s, or let the operator raise {setting}")
        self.setting, self.retry_after_s = setting, retry_after_s


class PoolClosedError(MoonpoolError):
    """The server is shutting down. Nothing was run."""

    code = "pool_closed"
    fault = Fault.HOST
    _names_host = False
    retryable = True

    def __init__(self) -> None:
        super().__init__("no sandbox is opened because the server is shutting down; try again when it is back")


class Refusals:
    """Makes and counts the refusals of one pool."""

    def __init__(self, limits: PoolLimits, places: Places, clock: Callable[[], float]) -> None:
        self._limits, self._places, self._clock = limits, places, clock
        self._served: deque[float] = deque(maxlen=_RATE_OVER)
        self.count = 0

    def note_served(self, now: float) -> None:
        """Somebody got a sandbox."""
        self._served.append(now)

    def line_is_full(self, waiting: int) -> BusyError:
        """For one who cannot even wait."""
        return self._busy(f"{waiting} callers are waiting for a sandbox already", "waiting_max", waiting)

    def principal_has_its_share(self, most: int) -> BusyError:
        """For one whose principal had as many all the time as it may have beside others of its tenant."""
        why = f"you had {most} sandboxes in use for {self._limits.wait_s_max:g} s, which is your share of your tenant's"
        return self._busy(why, "sandboxes_per_tenant_max", 0)

    def waited_in_vain(self, scope: str, waiting: int) -> BusyError:
        """For one whose turn did not come in time."""
        setting = self._places.lacking(scope) or "waiting_s_max"
        why = {
            "sandboxes_max": f"all {self._limits.alive_max} sandboxes stayed in use",
            "sandboxes_per_tenant_max": f"all {self._places.scope_max(scope)} of tenant {scope!r} stayed in use",
            "waiting_s_max": "others were served first",
        }[setting]
        return self._busy(f"{why} for {self._limits.wait_s_max:g} s", setting, waiting)

    def _busy(self, why: str, setting: str, waiting: int) -> BusyError:
        self.count += 1
        span_s = self._clock() - self._served[0] if self._served else 0.0
        per_s = len(self._served) / span_s if span_s > 0 else 1.0
        wait_s = (waiting + 1) / per_s
        return BusyError(why, setting=setting, retry_after_s=min(_RETRY_S_MAX, max(_RETRY_S_MIN, wait_s)))
