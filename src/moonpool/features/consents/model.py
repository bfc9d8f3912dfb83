"""A user's consent that an OAuth client uses a server to which Moonpool is logged in. Pure.

Moonpool is one client of such a server, whoever calls Moonpool. Without consents of its own, any client that gets a
token for Moonpool, perhaps one that registered itself a minute ago, would act at that server by a login that the user
gave to another (confused deputy). So a consent belongs to a pair of principal and client, and to one server as it is
configured.

SECURITY: keys and the host's own users are no OAuth clients and need none: whoever made the key chose what uses it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final, Protocol

CONSENTS_MAX: Final = 100_000
"""Of one organisation, withdrawn ones included."""
USER_CONSENTS_MAX: Final = 1_000
"""The same of one user, so that none uses up what all have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """That `principal`, calling by `client_id`, may use a server's login."""

    organisation_id: str
    principal: str
    client_id: str
    server_id: str
    server_digest: str  # of the configuration by which it is reached
    given_by: str  # `terminal:alice`
    given_at: float  # seconds since 1970
    withdrawn_at: float | None = None


class Consents(Protocol):
    """Consents as whoever checks them sees them."""

    async def holds(
        self, organisation_id: str, principal: str, client_id: str, server_id: str, server_digest: str, /
    ) -> bool:
        """Raises DatabaseError."""
        ...


@dataclass(frozen=True, slots=True)
class PairConsent:
    """What one pair of principal and client may use. Without `consents` it is nothing."""

    consents: Consents | None
    organisation_id: str
    principal: str
    client_id: str

    async def holds(self, server_id: str, server_digest: str) -> bool:
        """Raises DatabaseError."""
        if self.consents is None:
            return False
        pair = self.organisation_id, self.principal, self.client_id
        return await self.consents.holds(*pair, server_id, server_digest)

    def remedy(self, server_id: str) -> str:
        words = ("give", server_id, "--org", self.organisation_id, "--user", self.principal, "--client", self.client_id)
        return f"moonpool consents {shlex.join(words)}"
