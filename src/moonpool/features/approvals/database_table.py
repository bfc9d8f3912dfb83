"""The queue of approvals in the service's PostgreSQL database: replicas that share it agree.

It does what `moonpool.features.approvals.table` does in a file, whose invariants hold here, for one organisation. Who
asked is alive as long as it looks for its answer: a question that nobody has looked after for `SEEN_WITHIN_S` is
abandoned, wherever its replica ran. Blocking; never on the loop.

SECURITY: every query names the organisation.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, case, delete, func, insert, select, update

from moonpool.core.audit_records import ApprovalGrantRecord
from moonpool.features.approvals import rows
from moonpool.features.approvals.model import NOTE_CHARS_MAX, ApprovalQueueError, QueueState
from moonpool.features.approvals.rows import OPEN, grant_of, request_of
from moonpool.store.database.blocking import SERVER_NOW, TenantRows, text_of
from moonpool.store.database.outbox import DatabaseOutbox
from moonpool.store.database.tables import APPROVAL_GRANT, APPROVAL_REQUEST

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from sqlalchemy import ColumnElement, Connection

    from moonpool.features.approvals.model import ApprovalAnswer, ApprovalGrant, ApprovalRequest, QueuedRequest
    from moonpool.store.database.base import Database
    from moonpool.store.outbox import Delivery

SEEN_WITHIN_S: float = 20.0
SEEN_EVERY_S: float = 4.0
_ASKED, _GIVEN = APPROVAL_REQUEST.c, APPROVAL_GRANT.c
_WHERE: Final = "the service's database"


class ApprovalRows:
    """The queue of one organisation, as `ApprovalStore` is that of a file. `loop` is the database's."""

    def __init__(
        self,
        database: Database,
        loop: asyncio.AbstractEventLoop,
        organisation_id: str,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._rows = TenantRows(database, loop, organisation_id, "approvals", _unusable)
        self._outbox = DatabaseOutbox(self._rows, ApprovalGrantRecord.kind)
        self._organisation_id, self._clock = organisation_id, clock
        self._own, self._own_grants = (column == organisation_id for column in _ORGANISATION)
        self._in_force = _GIVEN.answer_id.not_in(self._outbox.pending())
        given = select(_GIVEN.request_id).where(self._own_grants, _GIVEN.answer_id.in_(self._outbox.pending()))
        self._is_pending = _ASKED.request_id.in_(given)

    def is_unused(self) -> bool:
        return False

    def deliver_left(self, write: Callable[..., None]) -> None:
        """Put on record what processes that ended did not."""
        self._outbox.deliver_left(write)

    def put(self, queued: QueuedRequest) -> None:
        values = {name: text_of(value) for name, value in rows.row_of_request(queued).items()}
        values |= {"organisation_id": self._organisation_id, "seen_at": SERVER_NOW}

        def work(connection: Connection) -> None:
            now, waits = self._clock(), _ASKED.state == QueueState.WAITING
            self._sweep(connection, now)
            old = and_(self._own, ~waits, _ASKED.asked_at < now - rows.KEPT_S)
            connection.execute(delete(APPROVAL_REQUEST).where(old))
            newest = select(_ASKED.request_id).where(self._own, ~waits).order_by(_ASKED.asked_at.desc())
            too_many = _ASKED.request_id.in_(newest.offset(rows.OVER_MAX))
            connection.execute(delete(APPROVAL_REQUEST).where(self._own, too_many, ~self._is_pending))
            self._check_room(connection, queued.request)
            connection.execute(insert(APPROVAL_REQUEST).values(values))

        self._rows.write(work)

    def _check_room(self, connection: Connection, request: ApprovalRequest) -> None:
        own, size = _ASKED.principal == request.principal, func.char_length(_ASKED.whole)
        query = select(
            func.count(), func.count().filter(own), func.coalesce(func.sum(size), 0),
            func.coalesce(func.sum(size).filter(own), 0),
        ).where(self._own, _ASKED.state == QueueState.WAITING)  # fmt: skip
        rows.room_for_request(*connection.execute(query).one())

    def take(self, request_id: str, arguments_digest: str) -> ApprovalAnswer | None:
        this = and_(self._own, _ASKED.request_id == request_id)
        unseen_s = (SERVER_NOW - _ASKED.seen_at).label("unseen_s")
        pending = self._is_pending.label("pending")
        found = self._rows.read(select(_ASKED.state, _ASKED.expires_at, pending, unseen_s).where(this))
        row: dict[str, Any] = found[0] if found else {"state": "", "pending": False}
        if (row["state"] == QueueState.WAITING or row["pending"]) and self._clock() < row["expires_at"]:
            if row["unseen_s"] > SEEN_EVERY_S:
                waits = update(APPROVAL_REQUEST).where(this, _ASKED.state.in_(OPEN)).values(seen_at=SERVER_NOW)
                self._rows.write(lambda connection: connection.execute(waits))
            return None

        def work(connection: Connection) -> tuple[str, str, str] | None:
            self._sweep(connection, self._clock())
            same = and_(this, _ASKED.arguments_digest == arguments_digest)
            answered = and_(_ASKED.taken_at.is_(None), _ASKED.state != QueueState.WAITING, ~self._is_pending)
            change = update(APPROVAL_REQUEST).where(same, answered).values(taken_at=self._clock())
            row = connection.execute(change.returning(_ASKED.state, _ASKED.approver, _ASKED.note)).one_or_none()
            return None if row is None else (row.state, row.approver, row.note)

        return rows.as_answer(request_id, arguments_digest, self._rows.write(work))

    def withdraw(self, request_id: str) -> None:
        """Nobody waits any more; an answer that was given at the same moment came too late."""

        def work(connection: Connection) -> None:
            now = self._clock()
            self._sweep(connection, now)
            late = _ASKED.expires_at <= now + rows.EXPIRY_SLACK_S
            state = case((late, QueueState.EXPIRED), else_=QueueState.WITHDRAWN)
            not_taken = and_(_ASKED.request_id == request_id, _ASKED.taken_at.is_(None), _ASKED.state.in_(OPEN))
            connection.execute(update(APPROVAL_REQUEST).where(self._own, not_taken).values(state=state))

        self._rows.write(work)

    def answer(
        self,
        request_id: str,
        arguments_digest: str,
        *,
        approved: bool,
        approver: str,
        note: str = "",
        grant: ApprovalGrant | None = None,
        delivery: Delivery | None = None,
    ) -> QueuedRequest:
        """See `ApprovalStore.answer`."""
        assert (grant is None) == (delivery is None), "only what is kept is recorded, and all of it"
        values = {
            "state": QueueState.APPROVED if approved else QueueState.DENIED,
            "approver": text_of(rows.stored(approver, "approver")),
            "note": text_of(rows.stored(note[:NOTE_CHARS_MAX], "note")),
        }
        this = and_(self._own, _ASKED.request_id == request_id)

        def work(connection: Connection) -> tuple[bool, QueuedRequest | None]:
            now = self._clock()
            self._sweep(connection, now)
            fits = and_(this, _ASKED.arguments_digest == arguments_digest, _ASKED.state == QueueState.WAITING)
            change = update(APPROVAL_REQUEST).where(fits).values(values | {"answered_at": now})
            changed = connection.execute(change).rowcount == 1
            if changed and approved and grant is not None and delivery is not None:
                self._keep(connection, grant, now)
                self._outbox.put(connection, delivery.record)
            row = connection.execute(select(APPROVAL_REQUEST).where(this)).mappings().one_or_none()
            return changed, None if row is None else request_of(row)

        changed, after = self._rows.write(work)
        if changed and approved and grant is not None and delivery is not None:
            self._outbox.deliver(delivery, partial(self._unanswer, grant))
        if after is None or not changed:
            raise rows.not_answered(request_id, after)
        return after

    def was_taken(self, answered: QueuedRequest) -> bool:
        """See `ApprovalStore.was_taken`."""
        self._rows.write(lambda connection: self._sweep(connection, self._clock()))
        query = select(_ASKED.state, _ASKED.taken_at).where(self._own, _ASKED.request_id == answered.request_id)
        found = self._rows.read(query)
        rows.check_heard(answered, found[0]["state"] if found else None)
        return found[0]["taken_at"] is not None

    def keep_grant(self, grant: ApprovalGrant, delivery: Delivery) -> None:
        """Keep an answer that was given to a request elsewhere. Raises JournalError: then it does not stand."""

        def work(connection: Connection) -> None:
            self._keep(connection, grant, self._clock())
            self._outbox.put(connection, delivery.record)

        self._rows.write(work)
        self._outbox.deliver(delivery, partial(self._forget, grant.answer_id))

    def requests(self, *, waiting_only: bool) -> list[QueuedRequest]:
        """Requests, oldest first."""
        self._rows.write(lambda connection: self._sweep(connection, self._clock()))
        query = select(APPROVAL_REQUEST).where(self._own).order_by(_ASKED.asked_at, _ASKED.request_id)
        if waiting_only:
            query = query.where(_ASKED.state == QueueState.WAITING)
        return [request_of(row) for row in self._rows.read(query)]

    def grants(self) -> list[ApprovalGrant]:
        """Every approval grant in force, oldest first."""
        return self._grants()

    def grants_for(self, principal: str, server_id: str, tool_name: str) -> list[ApprovalGrant]:
        return self._grants(_GIVEN.principal == principal, _GIVEN.server_id == server_id, _GIVEN.tool_name == tool_name)

    def remove_grant(self, answer_id: str, delivery: Delivery) -> bool:
        """End an approval grant; False when there is none of this id. Raises JournalError: then it still stands."""

        def work(connection: Connection) -> Mapping[Any, Any] | None:
            this = and_(self._own_grants, _GIVEN.answer_id == answer_id, self._in_force)
            gone = connection.execute(delete(APPROVAL_GRANT).where(this).returning(APPROVAL_GRANT)).mappings().first()
            if gone is not None:
                self._outbox.put(connection, delivery.record)
            return gone

        gone = self._rows.write(work)
        if gone is not None:
            again = insert(APPROVAL_GRANT).values(dict(gone))
            self._outbox.deliver(delivery, lambda connection: connection.execute(again))
        return gone is not None

    def close(self) -> None:
        """The database is the service's."""

    def _grants(self, *which: ColumnElement[bool]) -> list[ApprovalGrant]:
        in_force = (self._own_grants, _GIVEN.expires_at > self._clock(), self._in_force)
        query = select(APPROVAL_GRANT).where(*in_force, *which).order_by(_GIVEN.given_at)
        return [grant_of(row, _WHERE) for row in self._rows.read(query)]

    def _sweep(self, connection: Connection, now: float) -> None:
        """Requests that are too old have expired; those whose asker is gone are abandoned, answered or not.

        Of what is over only a screen of the arguments is kept.
        """
        requests = update(APPROVAL_REQUEST).where(self._own)
        over = and_(_ASKED.state != QueueState.WAITING, _ASKED.whole != "", ~self._is_pending)
        connection.execute(requests.where(over).values(whole=""))
        expired = and_(_ASKED.state == QueueState.WAITING, _ASKED.expires_at <= now)
        connection.execute(requests.where(expired).values(state=QueueState.EXPIRED))
        unseen = and_(_ASKED.seen_at < SERVER_NOW - SEEN_WITHIN_S, _ASKED.taken_at.is_(None), _ASKED.state.in_(OPEN))
        connection.execute(requests.where(unseen).values(state=QueueState.ABANDONED))

    def _keep(self, connection: Connection, grant: ApprovalGrant, now: float) -> None:
        over = and_(self._own_grants, _GIVEN.expires_at <= now, self._in_force)
        connection.execute(delete(APPROVAL_GRANT).where(over))
        own = func.count().filter(_GIVEN.principal == grant.principal)
        count, own_count = connection.execute(select(func.count(), own).where(self._own_grants)).one()
        rows.room_for_grant(count, own_count)
        values = {name: text_of(value) for name, value in rows.row_of_grant(grant).items()}
        connection.execute(insert(APPROVAL_GRANT).values(values | {"organisation_id": self._organisation_id}))

    def _forget(self, answer_id: str, connection: Connection) -> None:
        connection.execute(delete(APPROVAL_GRANT).where(self._own_grants, _GIVEN.answer_id == answer_id))

    def _unanswer(self, grant: ApprovalGrant, connection: Connection) -> None:
        """The request waits again, unless it is over by now."""
        self._forget(grant.answer_id, connection)
        this = and_(self._own, _ASKED.request_id == grant.request_id, _ASKED.state == QueueState.APPROVED)
        waits = {"state": QueueState.WAITING, "approver": "", "note": "", "answered_at": None}
        connection.execute(update(APPROVAL_REQUEST).where(this).values(waits))


_ORGANISATION: Final = (_ASKED.organisation_id, _GIVEN.organisation_id)


def _unusable(fault: str) -> ApprovalQueueError:
    return ApprovalQueueError(f"the queue of approvals {fault}")
