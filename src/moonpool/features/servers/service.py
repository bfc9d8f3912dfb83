"""Adding, listing and removing servers of organisations, and their headers."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import IntegrityError

from moonpool.core.errors import InputError
from moonpool.features.organisations.model import check_id
from moonpool.features.servers.model import OwnServer
from moonpool.features.servers.table import ServerTable
from moonpool.network.public_http import check_public_url

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from moonpool.features.servers.model import ServerSpec
    from moonpool.store.database.base import Database
    from moonpool.store.secrets import SealedValues

KIND: Final = "headers of an organisation's server"
_NOBODY_ELSE: Final = (
    "there is no server {!r} of this organisation; `moonpool orgs servers list` or GET /v1/servers shows its servers"
)


class OwnServers:
    """Of all organisations of one database. Every method raises DatabaseError."""

    def __init__(self, database: Database, sealed: SealedValues, *, clock: Callable[[], float] = time.time) -> None:
        self._table, self._sealed, self._clock = ServerTable(database), sealed, clock

    async def add(self, organisation_id: str, spec: ServerSpec, *, taken: Iterable[str], by: str) -> OwnServer:
        """Add one; a service that runs connects to it. `taken` are the operator's names, `by` who adds it.

        Nothing is sent to the address here. Raises InputError, SecretStoreError.
        """
        check_id(organisation_id)
        spec.check([*taken, *(one.server_id for one in await self.of(organisation_id))])
        check_public_url(spec.url)
        made = OwnServer(
            organisation_id=organisation_id,
            change_id=f"server_{token_hex(16)}",
            server_id=spec.server_id,
            url=spec.url,
            expose=spec.expose,
            header_names=tuple(spec.headers),
            headers="",
            added_by=by,
            added_at=self._clock(),
        )
        headers = json.dumps(dict(spec.headers))
        made = replace(made, headers=await asyncio.to_thread(self._sealed.seal, made.place, headers))
        try:
            problem = await self._table.add(made)
        except IntegrityError:
            raise InputError(f"there is no organisation {organisation_id}; `moonpool orgs create` makes it") from None
        if problem:
            raise InputError(problem)
        return made

    async def remove(self, organisation_id: str, server_id: str, *, by: str) -> None:
        """End its use; a service that runs does so within a second. Raises InputError."""
        if not await self._table.remove(organisation_id, server_id, by=by, now=self._clock()):
            raise InputError(_NOBODY_ELSE.format(server_id[:80]))

    async def of(self, organisation_id: str) -> Sequence[OwnServer]:
        """Those of one organisation that are not removed."""
        return [one for one in await self._table.all([organisation_id]) if one.removed_at is None]

    async def all(self, organisations: Collection[str] | None = None) -> Sequence[OwnServer]:
        """Of these organisations or of all, also those that were removed and whose removal is not on record."""
        return await self._table.all(organisations)

    async def headers(self, server: OwnServer) -> dict[str, str]:
        """Its headers. Raises SecretStoreError."""
        return json.loads(await asyncio.to_thread(self._sealed.open, server.place, server.headers))

    async def recorded(self, server: OwnServer) -> None:
        await self._table.recorded(server, now=self._clock())

    async def forget(self, server: OwnServer) -> None:
        await self._table.forget(server)
