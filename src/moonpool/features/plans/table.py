"""Plans as an SQLite file that all processes of a data folder share. Blocking; never on the loop.

INVARIANT: a plan leaves `waiting` once and `approved` once, in one transaction that looks at its expiry and digest; so
it is used at most once, whoever tries at the same time.
INVARIANT: a change that goes on record counts once it is there (`store.outbox`); until then its plan is not shown,
answered or used.
SECURITY: the file lies in the private folder, which no sandbox is shown. What is read from it is checked against the
digest that was answered.

A connection lives for one operation: plans are rare. `clock` is the time of day, which processes share.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moonpool.core.json import canonical_json
from moonpool.core.shares import Level, stored_reached
from moonpool.features.plans.model import Plan, PlanError, PlanState, PlanStoreError, StoredPlan
from moonpool.store.outbox import OUTBOX_SCHEMA, PENDING, Delivery, Outbox
from moonpool.store.private_files import StoreFolderError, create_private_file, private_folder
from moonpool.store.sqlite_faults import sqlite_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

SCHEMA_VERSION: Final = 4
PLANS_MAX: Final = 256
"""Plans of one principal of which something may still become, three quarters of those of all; more cannot be made."""
OPEN_BYTES_MAX: Final = 64 * 1024**2
"""What those of one principal may take, three quarters of what those of all may."""
OVER_MAX: Final = 1000
"""Plans that are over; the oldest make room."""
KEPT_S: Final = 7 * 86_400.0  # plans that are over
_BUSY_S: Final = 5.0
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS plan (
    plan_id TEXT PRIMARY KEY, body BLOB NOT NULL, digest TEXT NOT NULL, made_at REAL NOT NULL, expires_at REAL NOT NULL,
    state TEXT NOT NULL, approver TEXT NOT NULL, by_person INTEGER NOT NULL, principal TEXT NOT NULL DEFAULT ''
)
"""
_WITHOUT_PRINCIPAL: Final = (2, 3)  # versions of the schema
_SELECT: Final = "SELECT body, digest, state, approver, by_person FROM plan"
_IN_FORCE: Final = f"plan_id NOT IN {PENDING}"


OPEN: Final = (PlanState.WAITING, PlanState.APPROVED)
"""States of a plan of which something may still become."""


def full_of(count: int, own_count: int, size: int, own_size: int) -> Level | None:
    """Whose bound keeps a principal from one more plan, by number or bytes."""
    return stored_reached(count, own_count, PLANS_MAX) or stored_reached(size, own_size, OPEN_BYTES_MAX)


def too_many(principal: str | None) -> PlanStoreError:
    """Of one principal, or of all."""
    whose = "of all callers" if principal is None else "of yours"
    return PlanStoreError(f"too many plans {whose} wait already; deny some with `moonpool plans deny`")


def idle_half(plans: Sequence[Plan]) -> list[str]:
    """Ids of the older half of those that nobody needs to answer: without calls, or of a failed rehearsal."""
    idle = [plan.plan_id for plan in plans if plan.problem or not plan.calls]
    return idle[: (len(idle) + 1) // 2]


def not_moved(plan: Plan, what: str, state: str | None, *, in_force: bool) -> PlanError:
    """Why a plan that is in `state` cannot be answered or used; None: it is gone."""
    is_now = f"it is {state}" if in_force else "its last change is not on record yet"
    if state is None:
        is_now = "it is no longer there"
    return PlanError(f"plan {plan.plan_id} cannot be {what}: {is_now}; make another dry run (--dry-run)")


def stored_plan(
    body: bytes, digest: str, state: str, approver: str, by_person: object, *, where: str, remedy: str
) -> StoredPlan:
    """The plan of a row in `where`. Raises PlanStoreError."""
    try:
        plan = Plan.from_json(json.loads(body))
        now = PlanState(state)
    except (ValueError, KeyError, TypeError) as exc:
        raise PlanStoreError(f"a plan in {where} is damaged; {remedy}") from exc
    if plan.digest != digest:  # SECURITY: what is used is what was answered
        raise PlanStoreError(f"plan {plan.plan_id} in {where} is not what it was; {remedy}")
    return StoredPlan(plan=plan, state=now, approver=approver, by_person=bool(by_person))


class PlanStore:
    """The plans at `path`. Methods raise PlanStoreError."""

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.time, take: Callable[[int], str] = lambda _: ""
    ) -> None:
        """`take` counts bytes against the bound above all tenants, or says why they may not be written."""
        self.path, self._clock, self._take, self._outbox = path, clock, take, Outbox(self._writing)

    def deliver_left(self, write: Callable[..., None]) -> None:
        """Put on record what processes that ended did not."""
        if self.path.exists():
            self._outbox.deliver_left(write)

    def put(self, plan: Plan, delivery: Delivery | None = None) -> None:
        """Keep a new plan, waiting. Raises JournalError when it cannot be put on record; then it is not kept."""
        with self._writing() as connection:
            open_states = (PlanState.WAITING, PlanState.APPROVED)
            connection.execute(
                "DELETE FROM plan WHERE state NOT IN (?, ?) AND made_at < ?", (*open_states, self._clock() - KEPT_S)
            )
            over = "SELECT plan_id FROM plan WHERE state NOT IN (?, ?) ORDER BY made_at DESC LIMIT -1 OFFSET ?"
            connection.execute(f"DELETE FROM plan WHERE plan_id IN ({over}) AND {_IN_FORCE}", (*open_states, OVER_MAX))  # noqa: S608
            body = canonical_json(plan.to_json())
            full = self._full(connection, plan.principal, open_states)
            own = plan.principal if full is Level.PRINCIPAL else None
            if full is not None and not self._make_room(connection, own, open_states):
                raise too_many(own)
            if problem := self._take(len(body)):
                raise PlanStoreError(f"{problem}; try again later")
            connection.execute(
                "INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?, '', 0, ?)",
                (
                    plan.plan_id,
                    body,
                    plan.digest,
                    plan.made_at,
                    plan.expires_at,
                    PlanState.WAITING,
                    plan.principal,
                ),
            )
            if delivery is not None:
                self._outbox.put(connection, delivery.record)
        if delivery is not None:
            forget = partial(_execute, "DELETE FROM plan WHERE plan_id = ?", (plan.plan_id,))
            self._outbox.deliver(delivery, forget)

    def _full(self, connection: sqlite3.Connection, principal: str, open_states: tuple[PlanState, ...]) -> Level | None:
        """Whose bound keeps this principal from one more plan, by number or bytes."""
        count, size, own_count, own_size = connection.execute(
            "SELECT count(*), total(length(body)), total(principal = ?), total((principal = ?) * length(body)) "
            "FROM plan WHERE state IN (?, ?)",
            (principal, principal, *open_states),
        ).fetchone()
        return full_of(count, int(own_count), int(size), int(own_size))

    def _make_room(
        self, connection: sqlite3.Connection, principal: str | None, open_states: tuple[PlanState, ...]
    ) -> bool:
        """Forget the older half of the plans that nobody needs to answer: without calls, or of a failed rehearsal.

        Those of one principal, or of all. By number only: such plans are small.
        """
        rows = connection.execute(
            f"{_SELECT} WHERE state IN (?, ?) AND {_IN_FORCE} AND principal = coalesce(?, principal) "
            "ORDER BY made_at, plan_id",
            (*open_states, principal),
        ).fetchall()
        gone = idle_half([self._stored(row).plan for row in rows])
        connection.executemany("DELETE FROM plan WHERE plan_id = ?", ((one,) for one in gone))
        return bool(gone)

    def plans(self) -> list[StoredPlan]:
        """Every plan of the last week, oldest first."""
        if not self.path.exists():
            return []
        with self._writing() as connection:
            rows = connection.execute(f"{_SELECT} WHERE {_IN_FORCE} ORDER BY made_at, plan_id").fetchall()
        return [self._stored(row) for row in rows]

    def find(self, plan_id: str) -> StoredPlan | None:
        """The plan of this id. Raises PlanStoreError while its last change is not on record."""
        if not self.path.exists():
            return None
        with self._writing() as connection:
            row = connection.execute(f"{_SELECT} WHERE plan_id = ?", (plan_id,)).fetchone()
            if connection.execute(f"SELECT ? IN {PENDING}", (plan_id,)).fetchone()[0]:
                raise PlanStoreError(f"what became of plan {plan_id} is not on record yet; try again")
        return None if row is None else self._stored(row)

    def answer(
        self,
        plan: Plan,
        *,
        approved: bool,
        approver: str,
        by_person: bool,
        delivery: Delivery | None = None,
    ) -> None:
        """Answer a plan that waits; a no also takes a yes back. Raises PlanError.

        Raises JournalError when that cannot be put on record; then nothing was answered.
        """
        if approved:
            before, state = (PlanState.WAITING,), PlanState.APPROVED
        else:
            before, state = (PlanState.WAITING, PlanState.APPROVED), PlanState.DENIED
        self._move(plan, before, state, "answered", delivery, approver=approver, by_person=by_person)

    def take(self, plan: Plan, delivery: Delivery | None = None) -> None:
        """Use an approved plan; from now on nobody can. Raises PlanError, and JournalError: then it was not used."""
        self._move(plan, (PlanState.APPROVED,), PlanState.USED, "used", delivery)

    def _move(
        self,
        plan: Plan,
        before: tuple[PlanState, ...],
        after: PlanState,
        what: str,
        delivery: Delivery | None,
        **answer: Any,
    ) -> None:
        columns, states = "".join(f", {name} = ?" for name in answer), ", ".join("?" for _ in before)
        with self._writing() as connection:
            row = connection.execute(
                f"SELECT state, approver, by_person, {_IN_FORCE} FROM plan WHERE plan_id = ?",  # noqa: S608
                (plan.plan_id,),
            ).fetchone()
            moved = connection.execute(
                f"UPDATE plan SET state = ?{columns} "  # noqa: S608
                f"WHERE plan_id = ? AND digest = ? AND state IN ({states}) AND {_IN_FORCE}",
                (after, *answer.values(), plan.plan_id, plan.digest, *before),
            ).rowcount
            if moved and delivery is not None:
                self._outbox.put(connection, delivery.record)
        if moved:
            if delivery is not None:
                former = "UPDATE plan SET state = ?, approver = ?, by_person = ? WHERE plan_id = ?"
                self._outbox.deliver(delivery, partial(_execute, former, (*row[:3], plan.plan_id)))
            return
        raise not_moved(plan, what, None if row is None else row[0], in_force=row is not None and row[3])

    def _stored(self, row: tuple[Any, ...]) -> StoredPlan:
        return stored_plan(*row, where=f"{self.path}", remedy="remove the file")

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """One transaction, before which plans that are too old have expired."""
        try:
            private_folder(self.path.parent)
            create_private_file(self.path)
            opened = sqlite3.connect(self.path, isolation_level=None, timeout=_BUSY_S)
            with closing(opened) as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    version = connection.execute("PRAGMA user_version").fetchone()[0]
                    if version > SCHEMA_VERSION:
                        raise PlanStoreError(f"the plans {self.path} were written by a newer Moonpool; use that one")
                    if version == 1:  # SECURITY: those plans do not say which servers they are about
                        connection.execute("DROP TABLE IF EXISTS plan")
                    if version < SCHEMA_VERSION:
                        if version in _WITHOUT_PRINCIPAL:
                            _add_principals(connection)
                        connection.execute(_SCHEMA)
                        connection.execute(OUTBOX_SCHEMA)
                        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
                    connection.execute(
                        "UPDATE plan SET state = ? WHERE state IN (?, ?) AND expires_at <= ?",
                        (PlanState.EXPIRED, PlanState.WAITING, PlanState.APPROVED, self._clock()),
                    )
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except (OSError, StoreFolderError, sqlite3.Error) as exc:
            raise PlanStoreError(f"the file of plans {self.path} {sqlite_fault(exc)}") from exc


def _add_principals(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE plan ADD COLUMN principal TEXT NOT NULL DEFAULT ''")
    for plan_id, body in connection.execute("SELECT plan_id, body FROM plan").fetchall():
        with suppress(ValueError, KeyError, TypeError):  # one that is damaged is told when it is read
            principal = Plan.from_json(json.loads(body)).principal
            connection.execute("UPDATE plan SET principal = ? WHERE plan_id = ?", (principal, plan_id))


def _execute(statement: str, values: Sequence[Any], connection: sqlite3.Connection) -> None:
    connection.execute(statement, values)
