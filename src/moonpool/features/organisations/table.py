"""Organisations in the service's database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, select, update

from moonpool.features.caller_limits.model import CallerLimits, limit_columns
from moonpool.features.organisations.model import ORGANISATIONS_MAX, Organisation
from moonpool.store.database.tables import ORGANISATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from moonpool.store.database.base import Database


class OrganisationTable:
    """Every method raises DatabaseError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, organisation: Organisation, *, others_max: int) -> bool:
        """Keep a new one; False: there are more than `others_max` enabled others. Raises IntegrityError for a known id.

        Two that are added at the same moment may both be kept where `others_max` allows one more.
        """

        def work(connection: Connection) -> bool:
            enabled = select(func.count()).select_from(ORGANISATION).where(ORGANISATION.c.disabled_at.is_(None))
            if connection.execute(enabled).scalar_one() > others_max:
                return False
            values = {
                "id": organisation.organisation_id,
                "name": organisation.name,
                "created_at": organisation.created_at,
                **limit_columns(organisation.limits),
            }
            connection.execute(insert(ORGANISATION).values(values))
            return True

        return await self._database.write(work)

    async def find(self, organisation_id: str) -> Organisation | None:
        rows = await self._database.read(select(ORGANISATION).where(ORGANISATION.c.id == organisation_id))
        return _organisation(rows[0]) if rows else None

    async def all(self) -> Sequence[Organisation]:
        """By id."""
        rows = await self._database.read(select(ORGANISATION).order_by(ORGANISATION.c.id).limit(ORGANISATIONS_MAX))
        return [_organisation(row) for row in rows]

    async def limit(self, organisation_id: str, limits: CallerLimits) -> bool:
        """False: there is none of this id."""
        change = update(ORGANISATION).where(ORGANISATION.c.id == organisation_id).values(limit_columns(limits))
        return await self._database.write(lambda connection: connection.execute(change).rowcount == 1)

    async def set_disabled(self, organisation_id: str, disabled_at: float | None) -> bool:
        """False: there is none of this id."""
        change = update(ORGANISATION).where(ORGANISATION.c.id == organisation_id).values(disabled_at=disabled_at)
        return await self._database.write(lambda connection: connection.execute(change).rowcount == 1)


def _organisation(row: Row[Any]) -> Organisation:
    return Organisation(
        organisation_id=row.id,
        name=row.name,
        created_at=row.created_at,
        disabled_at=row.disabled_at,
        limits=CallerLimits.parse(rate=row.rate_limit, concurrency=row.concurrency_max, quota=row.quota),
    )
