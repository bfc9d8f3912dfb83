"""Admission with the limit on failed authentications."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moonpool.server.http.authentication.failures import ClientAddresses, FailedAuthentications
from moonpool.server.http.callers import AuthenticationError
from moonpool.server.http.request_limits import RequestError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from moonpool.server.http.admission import Admission
    from moonpool.server.http.callers import HttpCaller, Scope


@dataclass(frozen=True, slots=True)
class LimitedAdmission:
    """An `Admission` that asks another, but for addresses that failed too often."""

    inner: Admission
    addresses: ClientAddresses
    failures: FailedAuthentications = field(default_factory=FailedAuthentications)

    async def caller(self, scope: MutableMapping[str, Any], /) -> HttpCaller:
        """Raises AuthenticationError, RequestError (429). SECURITY: who is refused so has nothing verified."""
        address = self.addresses.of(scope)
        if wait_s := self.failures.refused_s(address):
            raise RequestError(
                429, "too many failed authentications; wait, then use a valid credential",
                {"retry-after": str(math.ceil(wait_s))},
            )  # fmt: skip
        try:
            return await self.inner.caller(scope)
        except AuthenticationError:
            if any(name == b"authorization" for name, _ in scope["headers"]):
                self.failures.note(address)
            raise

    def challenge(self, scope: MutableMapping[str, Any], missing: Scope | None = None, /) -> str:
        """See `Admission`."""
        return self.inner.challenge(scope, missing)
