"""Consents in the service's database. A withdrawn one stays, until it is given again, as a record of what was."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, delete, func, insert, select, update

from moonpool.features.consents.model import CONSENTS_MAX, USER_CONSENTS_MAX, Consent
from moonpool.store.database.tables import CONSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection, Row

    from moonpool.store.database.base import Database

LISTED_MAX: Final = 10_000
_IN_FORCE: Final = CONSENT.c.withdrawn_at.is_(None)


class ConsentTable:
    """Every method raises DatabaseError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, consent: Consent) -> str:
        """Keep it in place of an earlier one; returns why not, or nothing. Raises IntegrityError when there is no
        organisation.
        """
        values = asdict(consent)
        where = _is(consent.organisation_id, consent.principal, consent.client_id, consent.server_id)
        own = CONSENT.c.organisation_id == consent.organisation_id
        users = and_(own, CONSENT.c.principal == consent.principal)
        most = (
            (users, USER_CONSENTS_MAX, f"{consent.principal} has {USER_CONSENTS_MAX:,} consents there"),
            (own, CONSENTS_MAX, f"organisation {consent.organisation_id} has {CONSENTS_MAX:,} consents"),
        )

        def work(connection: Connection) -> str:
            connection.execute(delete(CONSENT).where(where))
            for those, count_max, told in most:
                if connection.execute(select(func.count()).select_from(CONSENT).where(those)).scalar_one() >= count_max:
                    return f"{told}, which is the most"
            connection.execute(insert(CONSENT).values(values))
            return ""

        return await self._database.write(work)

    async def find(self, organisation_id: str, principal: str, client_id: str, server_id: str) -> Consent | None:
        """The consent in force."""
        query = select(CONSENT).where(_is(organisation_id, principal, client_id, server_id), _IN_FORCE)
        rows = await self._database.read(query)
        return _consent(rows[0]) if rows else None

    async def all(self, organisation_id: str | None, principal: str | None = None) -> Sequence[Consent]:
        """By organisation and age, withdrawn ones included: of one, or of all of them; of all users, or of one."""
        query = select(CONSENT).order_by(CONSENT.c.organisation_id, CONSENT.c.given_at, CONSENT.c.principal)
        if organisation_id is not None:
            query = query.where(CONSENT.c.organisation_id == organisation_id)
        if principal is not None:
            query = query.where(CONSENT.c.principal == principal)
        return [_consent(row) for row in await self._database.read(query.limit(LISTED_MAX))]

    async def withdraw(
        self, organisation_id: str, principal: str, client_id: str, server_id: str, *, now: float
    ) -> bool:
        """False: there was none in force."""
        where = and_(_is(organisation_id, principal, client_id, server_id), _IN_FORCE)
        change = update(CONSENT).where(where).values(withdrawn_at=now)
        return await self._database.write(lambda connection: connection.execute(change).rowcount == 1)


def _is(organisation_id: str, principal: str, client_id: str, server_id: str) -> ColumnElement[bool]:
    columns = CONSENT.c
    return and_(
        columns.organisation_id == organisation_id,
        columns.principal == principal,
        columns.client_id == client_id,
        columns.server_id == server_id,
    )


def _consent(row: Row[Any]) -> Consent:
    return Consent(
        organisation_id=row.organisation_id,
        principal=row.principal,
        client_id=row.client_id,
        server_id=row.server_id,
        server_digest=row.server_digest,
        given_by=row.given_by,
        given_at=row.given_at,
        withdrawn_at=row.withdrawn_at,
    )
