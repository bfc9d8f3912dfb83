"""Servers of organisations in the service's database. A removed one stays until that is on record."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, delete, insert, select, update

from moonpool.features.servers.model import SERVERS_MAX, OwnServer
from moonpool.store.database.tables import ORGANISATION_SERVER

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import ColumnElement, Connection, Row

    from moonpool.store.database.base import Database

_C: Final = ORGANISATION_SERVER.c
_ROWS_MAX: Final = 4 * SERVERS_MAX
"""Of one organisation, with removed ones that are not on record yet."""
LISTED_MAX: Final = 10_000


class ServerTable:
    """Every method raises DatabaseError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, server: OwnServer) -> str:
        """Keep it; returns why not, or nothing. Raises IntegrityError when there is no organisation."""
        values = {**asdict(server), "header_names": "\n".join(server.header_names)}
        own = _C.organisation_id == server.organisation_id

        def work(connection: Connection) -> str:
            rows = connection.execute(select(_C.server_id, _C.removed_at).where(own)).all()
            live = [row.server_id for row in rows if row.removed_at is None]
            if server.server_id in live:
                return f"there is a server called {server.server_id!r} already; remove it first"
            if len(live) >= SERVERS_MAX or len(rows) >= _ROWS_MAX:
                return f"an organisation has at most {SERVERS_MAX} servers of its own; remove some"
            connection.execute(insert(ORGANISATION_SERVER).values(values))
            return ""

        return await self._database.write(work)

    async def all(self, organisations: Collection[str] | None = None) -> Sequence[OwnServer]:
        """By organisation and age, also those that were removed: of these, each of which has few, or the first of all.

        INVARIANT: none of these is left out, or it would be taken for one that was removed.
        """
        query = select(ORGANISATION_SERVER).order_by(_C.organisation_id, _C.added_at, _C.change_id)
        query = query.limit(LISTED_MAX) if organisations is None else query.where(_C.organisation_id.in_(organisations))
        return [_server(row) for row in await self._database.read(query)]

    async def remove(self, organisation_id: str, server_id: str, *, by: str, now: float) -> bool:
        """False: there is none of this name."""
        where = and_(_C.organisation_id == organisation_id, _C.server_id == server_id, _C.removed_at.is_(None))
        change = update(ORGANISATION_SERVER).where(where).values(removed_at=now, removed_by=by)
        return await self._database.write(lambda connection: connection.execute(change).rowcount > 0)

    async def recorded(self, server: OwnServer, *, now: float) -> None:
        """That it was added is on record."""
        change = update(ORGANISATION_SERVER).where(_is(server), _C.recorded_at.is_(None)).values(recorded_at=now)
        await self._database.write(lambda connection: connection.execute(change).rowcount)

    async def forget(self, server: OwnServer) -> None:
        """That it was removed is on record."""
        change = delete(ORGANISATION_SERVER).where(_is(server), _C.removed_at.is_not(None))
        await self._database.write(lambda connection: connection.execute(change).rowcount)


def _is(server: OwnServer) -> ColumnElement[bool]:
    return and_(_C.organisation_id == server.organisation_id, _C.change_id == server.change_id)


def _server(row: Row[Any]) -> OwnServer:
    return OwnServer(
        organisation_id=row.organisation_id,
        change_id=row.change_id,
        server_id=row.server_id,
        url=row.url,
        expose=row.expose,
        header_names=tuple(filter(None, row.header_names.split("\n"))),
        headers=row.headers,
        added_by=row.added_by,
        added_at=row.added_at,
        recorded_at=row.recorded_at,
        removed_by=row.removed_by,
        removed_at=row.removed_at,
    )
