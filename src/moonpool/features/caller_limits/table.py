"""Used quotas in the service's database, and their twin in memory for a service without one.

INVARIANT: a count never goes above its quota, however many replicas count on it at once: asking and counting is one
statement, and what one execution is counted on is one transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from sqlalchemy import case, delete

from moonpool.store.database.inserts import insert_into
from moonpool.store.database.tables import QUOTA_USE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from moonpool.features.caller_limits.model import Charge
    from moonpool.store.database.base import Database

KEPT_S: Final = 2 * 86400.0
"""How long a count is kept that nobody uses; longer than any period."""


class QuotaStore(Protocol):
    """Counts on quotas; both implementations pass `tests/store/test_caller_limits.py`."""

    async def count(self, charges: Sequence[Charge], /) -> Charge | None:
        """Count all of `charges`, or none and return the one whose quota is used up. Raises DatabaseError."""
        ...

    async def forget(self, before: float, /) -> None:
        """Remove counts whose period began earlier. Raises DatabaseError."""
        ...


class _UsedUpError(Exception):
    def __init__(self, charge: Charge) -> None:
        super().__init__()
        self.charge = charge


class QuotaTable:
    """Of one database. A count survives the death of a process, but perhaps not a power loss."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def count(self, charges: Sequence[Charge], /) -> Charge | None:
        def work(connection: Connection) -> None:
            for charge in charges:
                if connection.execute(_counting(connection, charge)).first() is None:
                    raise _UsedUpError(charge)  # which takes the others back

        if over := next((charge for charge in charges if charge.count > charge.quota.count), None):
            return over  # more than there is in a whole period
        try:
            await self._database.write(work, durable=False)
        except _UsedUpError as used_up:
            return used_up.charge
        return None

    async def forget(self, before: float, /) -> None:
        old = delete(QUOTA_USE).where(QUOTA_USE.c.period_start < before)
        await self._database.write(lambda connection: connection.execute(old), durable=False)


def _counting(connection: Connection, charge: Charge) -> Any:
    """One statement; it returns a row if the quota has room. A replica whose clock is behind counts on the newer
    period, unless that is so far ahead that only a wrong clock can have begun it.
    """
    inserting = insert_into(QUOTA_USE, connection).values(
        organisation_id=charge.organisation_id,
        principal=charge.principal,
        period_start=charge.period_start,
        used=charge.count,
    )
    in_period = QUOTA_USE.c.period_start.between(charge.period_start, charge.newest_start)
    used = case((in_period, QUOTA_USE.c.used + charge.count), else_=charge.count)
    return inserting.on_conflict_do_update(
        index_elements=[QUOTA_USE.c.organisation_id, QUOTA_USE.c.principal],
        set_={
            "used": used,
            "period_start": case((in_period, QUOTA_USE.c.period_start), else_=charge.period_start),
        },
        where=used <= charge.quota.count,
    ).returning(QUOTA_USE.c.used)


class QuotasInMemory:
    """Of one process, until it ends."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, str], tuple[float, int]] = {}

    async def count(self, charges: Sequence[Charge], /) -> Charge | None:
        counted: dict[tuple[str, str], tuple[float, int]] = {}
        for charge in charges:
            owner = charge.organisation_id, charge.principal
            start, used = self._used.get(owner, (charge.period_start, 0))
            if not charge.period_start <= start <= charge.newest_start:
                start, used = charge.period_start, 0
            if used + charge.count > charge.quota.count:
                return charge
            counted[owner] = start, used + charge.count
        self._used |= counted
        return None

    async def forget(self, before: float, /) -> None:
        self._used = {owner: one for owner, one in self._used.items() if one[0] >= before}
