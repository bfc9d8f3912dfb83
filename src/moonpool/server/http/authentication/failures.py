"""The limit on failed authentications: after 3 of an address within 60 s it is refused for the rest of that time.

While it is refused nothing that it sends is verified, so it cannot go on guessing, and these requests are not counted,
so that a client that keeps asking gets in again. A request without a credential is challenged and not counted: that is
how clients find out how to log in. Addresses are `net.forwarded.client_address`.

SECURITY: the table is bounded. When it is full the address whose last failure is oldest is forgotten, so who has more
than `ADDRESSES_MAX` addresses may guess more often. Against guessing itself the 256 bits of a key are enough.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moonpool.net.forwarded import client_address

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence

    from moonpool.net.forwarded import Network

FAILURES_MAX: Final = 3
WITHIN_S: Final = 60.0
ADDRESSES_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class ClientAddresses:
    """For which address each request counts. SECURITY: nothing before this may replace the scope's client address."""

    trusted: Sequence[Network] = ()  # `net.forwarded.trusted_networks(settings.trusted_proxies)`

    def of(self, scope: MutableMapping[str, Any]) -> str:
        """The address of an HTTP request, by its ASGI scope."""
        peer = (scope.get("client") or ("",))[0]
        forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        return client_address(peer, forwarded, self.trusted)


class FailedAuthentications:
    """Of one process. Used on the event loop."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()  # the address that failed last is last

    def refused_s(self, address: str) -> float:
        """How long requests of `address` are refused from now on, for `Retry-After`; 0: they are not."""
        failures = self._failures.get(address)
        if failures is None or len(failures) < FAILURES_MAX:
            return 0.0
        return max(0.0, failures[0] + WITHIN_S - self._clock())

    def note(self, address: str) -> None:
        """A credential that came from `address` was wrong."""
        now = self._clock()
        self._forget_old(now)
        failures = self._failures.setdefault(address, deque(maxlen=FAILURES_MAX))
        failures.append(now)
        self._failures.move_to_end(address)
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)

    def _forget_old(self, now: float) -> None:
        """Two for each that comes, so that the table shrinks and no request pays for all."""
        for _ in range(2):
            if self._failures and next(iter(self._failures.values()))[-1] + WITHIN_S <= now:
                self._failures.popitem(last=False)
