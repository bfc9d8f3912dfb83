"""Keys in the service's database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, insert, or_, select, update

from moonpool.core.scopes import SCOPES
from moonpool.features.caller_limits.model import CallerLimits, limit_columns
from moonpool.features.keys.model import KEYS_MAX, ApiKey
from moonpool.store.database.tables import API_KEY, ORGANISATION, SANDBOX_CONFIGURATION

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import Connection, Row

    from moonpool.store.database.base import Database

LISTED_MAX: Final = 10_000


class KeyTable:
    """Every method raises DatabaseError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: ApiKey) -> str:
        """Keep a new one; returns why not, or nothing. Raises IntegrityError when there is no organisation."""
        values = {
            "id": key.key_id,
            "organisation_id": key.organisation_id,
            "name": key.name,
            "prefix": key.prefix,
            "digest": key.digest,
            "scopes": " ".join(scope for scope in SCOPES if scope in key.scopes),
            "profile": key.profile,
            "created_at": key.created_at,
            "expires_at": key.expires_at,
            **limit_columns(key.limits),
            "configuration_id": key.configuration_id,
            "workspace_thread": key.workspace_thread,
            "variable_names": "\n".join(key.variable_names),
            "variables": key.sealed_variables,
        }
        own = select(func.count()).select_from(API_KEY).where(API_KEY.c.organisation_id == key.organisation_id)

        # INVARIANT: the configuration is there as long as the key is (`sandbox_configurations.table`).
        configuration = (
            select(SANDBOX_CONFIGURATION.c.name)
            .where(
                SANDBOX_CONFIGURATION.c.organisation_id == key.organisation_id,
                SANDBOX_CONFIGURATION.c.configuration_id == key.configuration_id,
            )
            .with_for_update()
        )

        def work(connection: Connection) -> str:
            if connection.execute(own).scalar_one() >= KEYS_MAX:
                return f"organisation {key.organisation_id} has {KEYS_MAX:,} keys, which is the most"
            if key.configuration_id is not None and connection.execute(configuration).first() is None:
                return "the sandbox configuration of the key is not there any more; name another"
            connection.execute(insert(API_KEY).values(values))
            return ""

        return await self._database.write(work)

    async def usable(self, digest: bytes) -> ApiKey | None:
        """The key with this digest, if it is not revoked and its organisation is enabled."""
        query = (
            select(API_KEY)
            .join(ORGANISATION, ORGANISATION.c.id == API_KEY.c.organisation_id)
            .where(API_KEY.c.digest == digest, API_KEY.c.revoked_at.is_(None), ORGANISATION.c.disabled_at.is_(None))
        )
        rows = await self._database.read(query)
        return _key(rows[0]) if rows else None

    async def find(self, key_id: str) -> ApiKey | None:
        rows = await self._database.read(select(API_KEY).where(API_KEY.c.id == key_id))
        return _key(rows[0]) if rows else None

    async def usable_ids(self, key_ids: Collection[str], now: float) -> set[str]:
        """Those of `key_ids` that are not revoked or expired, and whose organisation is enabled."""
        query = (
            select(API_KEY.c.id)
            .join(ORGANISATION, ORGANISATION.c.id == API_KEY.c.organisation_id)
            .where(
                API_KEY.c.id.in_(key_ids),
                API_KEY.c.revoked_at.is_(None),
                or_(API_KEY.c.expires_at.is_(None), API_KEY.c.expires_at > now),
                ORGANISATION.c.disabled_at.is_(None),
            )
        )
        return {str(row.id) for row in await self._database.read(query)}

    async def all(self, organisation_id: str | None) -> Sequence[ApiKey]:
        """By organisation and age: of one, or of all of them."""
        query = select(API_KEY).order_by(API_KEY.c.organisation_id, API_KEY.c.created_at, API_KEY.c.id)
        if organisation_id is not None:
            query = query.where(API_KEY.c.organisation_id == organisation_id)
        return [_key(row) for row in await self._database.read(query.limit(LISTED_MAX))]

    async def is_empty(self) -> bool:
        return not await self._database.read(select(API_KEY.c.id).limit(1))

    async def revoke(self, key_id: str, now: float) -> bool | None:
        """False: it was revoked before; None: there is none of this id."""
        known = select(API_KEY.c.id).where(API_KEY.c.id == key_id)
        change = update(API_KEY).where(API_KEY.c.id == key_id, API_KEY.c.revoked_at.is_(None)).values(revoked_at=now)

        def work(connection: Connection) -> bool | None:
            if connection.execute(change).rowcount:
                return True
            return None if connection.execute(known).first() is None else False

        return await self._database.write(work)

    async def limit(self, key_id: str, limits: CallerLimits) -> bool:
        """False: there is none of this id."""
        change = update(API_KEY).where(API_KEY.c.id == key_id).values(limit_columns(limits))
        return await self._database.write(lambda connection: connection.execute(change).rowcount == 1)

    async def note_use(self, key_id: str, now: float, *, unless_since: float) -> None:
        """Keep when it was used last, unless another replica did so lately."""
        seldom = or_(API_KEY.c.last_used_at.is_(None), API_KEY.c.last_used_at <= unless_since)
        change = update(API_KEY).where(API_KEY.c.id == key_id, seldom).values(last_used_at=now)
        await self._database.write(lambda connection: connection.execute(change), durable=False)


def _key(row: Row[Any]) -> ApiKey:
    """SECURITY: a scope that this program does not know grants nothing."""
    names = set(str(row.scopes).split())
    return ApiKey(
        key_id=row.id,
        organisation_id=row.organisation_id,
        prefix=row.prefix,
        name=row.name,
        scopes=frozenset(scope for scope in SCOPES if scope in names),
        profile=row.profile,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
        limits=CallerLimits.parse(rate=row.rate_limit, concurrency=row.concurrency_max, quota=row.quota),
        configuration_id=row.configuration_id,
        workspace_thread=row.workspace_thread,
        variable_names=tuple(filter(None, (row.variable_names or "").split("\n"))),
        sealed_variables=row.variables or "",
        digest=bytes(row.digest),
    )
