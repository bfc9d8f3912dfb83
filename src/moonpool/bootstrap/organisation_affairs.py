"""What organisations manage over HTTP: their servers, and consents of their users, in the service's database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from moonpool.bootstrap.organisation_servers import OrganisationServers
    from moonpool.bootstrap.tenant import Tenant
    from moonpool.features.consents.model import Consent
    from moonpool.features.consents.service import UserConsents
    from moonpool.features.servers.model import OwnServer, ServerSpec
    from moonpool.server.http.callers import HttpCaller


@dataclass(frozen=True, slots=True)
class OrganisationAffairs:
    """See `moonpool.server.http.sessions.organisation_routes.Affairs`."""

    own: OrganisationServers
    given: UserConsents
    opened: Callable[[str], Awaitable[Tenant]]  # the tenant of an organisation

    async def servers(self, organisation: str, /) -> Sequence[tuple[OwnServer, bool]]:
        snapshot = await (await self.opened(organisation)).tool_registry.snapshot()
        listed = {*snapshot.manifest.server_ids, *snapshot.direct.server_ids}
        return [(one, one.server_id in listed) for one in await self.own.servers.of(organisation)]

    async def add_server(self, organisation: str, spec: ServerSpec, /, *, by: str) -> OwnServer:
        added = await self.own.servers.add(organisation, spec, taken=self.own.taken, by=by)
        self.own.look_soon()
        return added

    async def remove_server(self, organisation: str, server_id: str, /, *, by: str) -> None:
        await self.own.servers.remove(organisation, server_id, by=by)
        self.own.look_soon()

    async def consents(self, caller: HttpCaller, /) -> Sequence[Consent]:
        found = await self.given.all(caller.organisation, caller.principal)
        return [one for one in found if one.withdrawn_at is None]

    async def give_consent(self, caller: HttpCaller, client_id: str, server_id: str, /) -> Consent:
        server = (await self.opened(caller.organisation)).caller_grant.servers.get(server_id)
        if server is None or not server.may_log_in:
            raise InputError(f"there is no server {server_id[:80]!r} that Moonpool logs in to")
        return await self.given.give(
            caller.organisation,
            caller.principal,
            client_id,
            server_id,
            server.digest,
            given_by=f"{caller.principal} by {caller.client_id}"[:255],
        )

    async def withdraw_consent(self, caller: HttpCaller, client_id: str, server_id: str, /) -> None:
        await self.given.withdraw(caller.organisation, caller.principal, client_id, server_id)
