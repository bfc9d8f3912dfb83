"""Deliveries that are owed, and the secrets that sign them, in the service's database.

A delivery is written in the transaction that ends its execution's record (`features.execution_records.table`). One
process has it at a time, by a claim on the clock that all share; a claim outlives whoever dies over it by `CLAIM_S`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, delete, insert, select, update

from moonpool.features.webhooks.model import Delivery, retry_s
from moonpool.store.database.clock import shared_now
from moonpool.store.database.tables import EXECUTION_RECORD, WEBHOOK_DELIVERY, WEBHOOK_SECRET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection

    from moonpool.store.database.base import Database

CLAIM_S: Final = 30.0
_D: Final = WEBHOOK_DELIVERY.c


class WebhookTable:
    """Every method raises DatabaseError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def is_empty(self) -> bool:
        """Whether nothing is owed."""
        return not await self._database.read(select(_D.delivery_id).limit(1))

    async def claim(self, count: int, busy: Mapping[str, int], own_max: int) -> Sequence[Delivery]:
        """At most `count` that are due, which nobody else has meanwhile, the oldest first of the organisation that has
        the fewest. `busy`: how many each organisation has already; none gets more than `own_max`.
        """
        columns = (_D.organisation_id, _D.delivery_id, _D.trace_id, _D.url, _D.attempts)

        def work(connection: Connection) -> Sequence[Delivery]:
            now, had, claimed = shared_now(connection), Counter(busy), list[Delivery]()
            due = select(*columns).where(_D.next_at <= now, _D.claimed_until <= now).order_by(_D.next_at).limit(1)
            for most in range(own_max):
                while len(claimed) < count:
                    others = _D.organisation_id.not_in([one for one, held in had.items() if held > most])
                    row = connection.execute(due.where(others).with_for_update(skip_locked=True)).one_or_none()
                    if row is None:
                        break
                    where = _is(row.organisation_id, row.delivery_id)
                    connection.execute(update(WEBHOOK_DELIVERY).where(where).values(claimed_until=now + CLAIM_S))
                    had[row.organisation_id] += 1
                    claimed.append(
                        Delivery(
                            organisation=row.organisation_id,
                            delivery_id=row.delivery_id,
                            trace_id=row.trace_id,
                            url=row.url,
                            attempts=row.attempts,
                        )
                    )
            return claimed

        return await self._database.write(work, durable=False)

    async def settle(self, delivery: Delivery, *, is_delivered: bool) -> None:
        """What one attempt came to: it is done, tried again later, or given up."""
        attempts = delivery.attempts + 1
        again_s = None if is_delivered else retry_s(attempts)

        def work(connection: Connection) -> None:
            where = _is(delivery.organisation, delivery.delivery_id)
            if again_s is not None:
                later = {"attempts": attempts, "next_at": shared_now(connection) + again_s, "claimed_until": 0.0}
                connection.execute(update(WEBHOOK_DELIVERY).where(where).values(later))
                return
            if not connection.execute(delete(WEBHOOK_DELIVERY).where(where)).rowcount:
                return
            record = EXECUTION_RECORD.c
            own = and_(record.organisation_id == delivery.organisation, record.trace_id == delivery.trace_id)
            status = "delivered" if is_delivered else "failed"
            connection.execute(update(EXECUTION_RECORD).where(own).values(webhook_status=status))

        await self._database.write(work)

    async def secret(self, organisation: str) -> str | None:
        """Sealed."""
        query = select(WEBHOOK_SECRET.c.secret).where(WEBHOOK_SECRET.c.organisation_id == organisation)
        rows = await self._database.read(query)
        return rows[0].secret if rows else None

    async def put_secret(self, organisation: str, sealed: str, now: float, *, replace: bool) -> None:
        """`replace`: also where there is one."""
        own = WEBHOOK_SECRET.c.organisation_id == organisation
        values: dict[str, Any] = {"secret": sealed, "made_at": now}

        def work(connection: Connection) -> None:
            there = connection.execute(select(WEBHOOK_SECRET.c.made_at).where(own).with_for_update()).one_or_none()
            if there is None:
                connection.execute(insert(WEBHOOK_SECRET).values(organisation_id=organisation, **values))
            elif replace:
                connection.execute(update(WEBHOOK_SECRET).where(own).values(values))

        await self._database.write(work)


def _is(organisation: str, delivery_id: str) -> ColumnElement[bool]:
    return and_(_D.organisation_id == organisation, _D.delivery_id == delivery_id)
