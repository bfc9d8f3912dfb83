"""Plans in the service's PostgreSQL database: replicas that share it agree.

It does what `moonpool.features.plans.table` does in a file, whose invariants hold here, for one organisation. Blocking;
never on the loop. SECURITY: every query names the organisation.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, delete, func, insert, select, update

from moonpool.core.audit_records import PlanRecord
from moonpool.core.json import canonical_json
from moonpool.core.shares import Level
from moonpool.features.plans import table
from moonpool.features.plans.model import PlanState, PlanStoreError
from moonpool.features.plans.table import OPEN, stored_plan
from moonpool.store.database.blocking import TenantRows, text_of
from moonpool.store.database.outbox import DatabaseOutbox
from moonpool.store.database.tables import PLAN

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from moonpool.features.plans.model import Plan, StoredPlan
    from moonpool.store.database.base import Database
    from moonpool.store.outbox import Delivery

_P: Final = PLAN.c


class PlanRows:
    """The plans of one organisation, as `PlanStore` has those of a file. `loop` is the database's."""

    def __init__(
        self,
        database: Database,
        loop: asyncio.AbstractEventLoop,
        organisation_id: str,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._rows = TenantRows(database, loop, organisation_id, "plans", _unusable)
        self._outbox = DatabaseOutbox(self._rows, PlanRecord.kind)
        self._organisation_id, self._clock = organisation_id, clock
        self._own = _P.organisation_id == organisation_id
        self._in_force = _P.plan_id.not_in(self._outbox.pending())

    def deliver_left(self, write: Callable[..., None]) -> None:
        """Put on record what processes that ended did not."""
        self._outbox.deliver_left(write)

    def put(self, plan: Plan, delivery: Delivery | None = None) -> None:
        """Keep a new plan, waiting. Raises JournalError when it cannot be put on record; then it is not kept."""
        values = {
            "organisation_id": self._organisation_id,
            "plan_id": plan.plan_id,
            "body": canonical_json(plan.to_json()),
            "digest": plan.digest,
            "made_at": plan.made_at,
            "expires_at": plan.expires_at,
            "state": PlanState.WAITING,
            "approver": "",
            "by_person": False,
            "principal": text_of(plan.principal),
        }

        def work(connection: Connection) -> None:
            self._expire(connection)
            over = and_(self._own, _P.state.not_in(OPEN))
            connection.execute(delete(PLAN).where(over, _P.made_at < self._clock() - table.KEPT_S))
            newest = select(_P.plan_id).where(over).order_by(_P.made_at.desc()).offset(table.OVER_MAX)
            connection.execute(delete(PLAN).where(self._own, _P.plan_id.in_(newest), self._in_force))
            self._make_room(connection, plan.principal)
            connection.execute(insert(PLAN).values(values))
            if delivery is not None:
                self._outbox.put(connection, delivery.record)

        self._rows.write(work)
        if delivery is not None:
            forget = delete(PLAN).where(self._own, _P.plan_id == plan.plan_id)
            self._outbox.deliver(delivery, lambda connection: connection.execute(forget))

    def _make_room(self, connection: Connection, principal: str) -> None:
        """Forget plans that nobody needs to answer, where there are too many. Raises PlanStoreError."""
        own, size = _P.principal == principal, func.length(_P.body)
        counts = select(
            func.count(), func.count().filter(own), func.coalesce(func.sum(size), 0),
            func.coalesce(func.sum(size).filter(own), 0),
        ).where(self._own, _P.state.in_(OPEN))  # fmt: skip
        full = table.full_of(*connection.execute(counts).one())
        if full is None:
            return
        whose = principal if full is Level.PRINCIPAL else None
        query = select(PLAN).where(self._own, _P.state.in_(OPEN), self._in_force).order_by(_P.made_at, _P.plan_id)
        rows = connection.execute(query if whose is None else query.where(own)).mappings().all()
        gone = table.idle_half([_stored(row).plan for row in rows])
        if not gone:
            raise table.too_many(whose)
        connection.execute(delete(PLAN).where(self._own, _P.plan_id.in_(gone)))

    def plans(self) -> list[StoredPlan]:
        """Every plan of the last week, oldest first."""
        self._rows.write(self._expire)
        query = select(PLAN).where(self._own, self._in_force).order_by(_P.made_at, _P.plan_id)
        return [_stored(row) for row in self._rows.read(query)]

    def find(self, plan_id: str) -> StoredPlan | None:
        """The plan of this id. Raises PlanStoreError while its last change is not on record."""
        self._rows.write(self._expire)
        query = select(PLAN, self._in_force.label("in_force")).where(self._own, _P.plan_id == text_of(plan_id))
        found = self._rows.read(query)
        if found and not found[0]["in_force"]:
            raise PlanStoreError(f"what became of plan {plan_id} is not on record yet; try again")
        return _stored(found[0]) if found else None

    def answer(
        self, plan: Plan, *, approved: bool, approver: str, by_person: bool, delivery: Delivery | None = None
    ) -> None:
        """See `PlanStore.answer`."""
        before = (PlanState.WAITING,) if approved else OPEN
        after = PlanState.APPROVED if approved else PlanState.DENIED
        values = {"state": after, "approver": text_of(approver), "by_person": by_person}
        self._move(plan, before, values, "answered", delivery)

    def take(self, plan: Plan, delivery: Delivery | None = None) -> None:
        """Use an approved plan; from now on nobody can. Raises PlanError, and JournalError: then it was not used."""
        self._move(plan, (PlanState.APPROVED,), {"state": PlanState.USED}, "used", delivery)

    def _move(
        self,
        plan: Plan,
        before: tuple[PlanState, ...],
        values: Mapping[str, Any],
        what: str,
        delivery: Delivery | None,
    ) -> None:
        this = and_(self._own, _P.plan_id == plan.plan_id)
        columns = (_P.state, _P.approver, _P.by_person, self._in_force.label("in_force"))

        def work(connection: Connection) -> tuple[Any, bool]:
            self._expire(connection)
            row = connection.execute(select(*columns).where(this)).one_or_none()
            fits = and_(this, _P.digest == plan.digest, _P.state.in_(before), self._in_force)
            moved = connection.execute(update(PLAN).where(fits).values(**values)).rowcount == 1
            if moved and delivery is not None:
                self._outbox.put(connection, delivery.record)
            return row, moved

        row, moved = self._rows.write(work)
        if not moved:
            raise table.not_moved(
                plan, what, None if row is None else row.state, in_force=row is not None and row.in_force
            )
        if delivery is not None:
            former = update(PLAN).where(this).values(state=row.state, approver=row.approver, by_person=row.by_person)
            self._outbox.deliver(delivery, lambda connection: connection.execute(former))

    def _expire(self, connection: Connection) -> None:
        old = and_(self._own, _P.state.in_(OPEN), _P.expires_at <= self._clock())
        connection.execute(update(PLAN).where(old).values(state=PlanState.EXPIRED))


def _stored(row: Mapping[Any, Any]) -> StoredPlan:
    members = (bytes(row["body"]), row["digest"], row["state"], row["approver"], row["by_person"])
    return stored_plan(*members, where="the service's database", remedy="deny it, or restore a backup")


def _unusable(fault: str) -> PlanStoreError:
    return PlanStoreError(f"plans {fault}")
