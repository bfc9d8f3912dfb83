"""Plans as an SQLite file that all processes of a data folder share. Blocking; never on the loop.

INVARIANT: a plan leaves `waiting` once and `approved` once, in one transaction that looks at its expiry and digest; so
it is used at most once, whoever tries at the same time.
SECURITY: the file lies in the private folder, which no sandbox is shown. What is read from it is checked against the
digest that was answered.

A connection lives for one operation: plans are rare. `clock` is the time of day, which processes share.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

from moonpool.core.json import canonical_json
from moonpool.features.plans.model import Plan, PlanError, PlanState, PlanStoreError, StoredPlan
from moonpool.store.private_files import StoreFolderError, create_private_file, private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

SCHEMA_VERSION: Final = 2
PLANS_MAX: Final = 256
"""Plans of which something may still become; more cannot be made."""
_KEPT_S: Final = 7 * 86_400.0  # plans that are over
_BUSY_S: Final = 5.0
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS plan (
    plan_id TEXT PRIMARY KEY, body BLOB NOT NULL, digest TEXT NOT NULL, made_at REAL NOT NULL, expires_at REAL NOT NULL,
    state TEXT NOT NULL, approver TEXT NOT NULL, by_person INTEGER NOT NULL
)
"""
_SELECT: Final = "SELECT body, digest, state, approver, by_person FROM plan"


def _nothing() -> None:
    """Nothing to put on record."""


class PlanStore:
    """The plans at `path`. Methods raise PlanStoreError."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path, self._clock = path, clock

    def put(self, plan: Plan, record: Callable[[], None] = _nothing) -> None:
        """Keep a new plan, waiting. When `record` raises, it is not kept."""
        with self._writing() as connection:
            open_states = (PlanState.WAITING, PlanState.APPROVED)
            connection.execute(
                "DELETE FROM plan WHERE state NOT IN (?, ?) AND made_at < ?", (*open_states, self._clock() - _KEPT_S)
            )
            count = connection.execute("SELECT count(*) FROM plan WHERE state IN (?, ?)", open_states).fetchone()[0]
            if count >= PLANS_MAX and not self._make_room(connection, open_states):
                raise PlanStoreError(f"{PLANS_MAX} plans wait already; deny some with `moonpool plans deny`")
            connection.execute(
                "INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?, '', 0)",
                (
                    plan.plan_id,
                    canonical_json(plan.to_json()),
                    plan.digest,
                    plan.made_at,
                    plan.expires_at,
                    PlanState.WAITING,
                ),
            )
            record()

    def _make_room(self, connection: sqlite3.Connection, open_states: tuple[PlanState, ...]) -> bool:
        """Forget the older half of the plans that nobody needs to answer: without calls, or of a failed rehearsal."""
        rows = connection.execute(f"{_SELECT} WHERE state IN (?, ?) ORDER BY made_at, plan_id", open_states).fetchall()
        found = [self._stored(row).plan for row in rows]
        idle = [plan.plan_id for plan in found if plan.problem or not plan.calls]
        gone = idle[: (len(idle) + 1) // 2]
        connection.executemany("DELETE FROM plan WHERE plan_id = ?", ((one,) for one in gone))
        return bool(gone)

    def plans(self) -> list[StoredPlan]:
        """Every plan of the last week, oldest first."""
        if not self.path.exists():
            return []
        with self._writing() as connection:
            rows = connection.execute(f"{_SELECT} ORDER BY made_at, plan_id").fetchall()
        return [self._stored(row) for row in rows]

    def find(self, plan_id: str) -> StoredPlan | None:
        """The plan of this id."""
        if not self.path.exists():
            return None
        with self._writing() as connection:
            row = connection.execute(f"{_SELECT} WHERE plan_id = ?", (plan_id,)).fetchone()
        return None if row is None else self._stored(row)

    def answer(
        self,
        plan: Plan,
        *,
        approved: bool,
        approver: str,
        by_person: bool,
        record: Callable[[], None] = _nothing,
    ) -> None:
        """Answer a plan that waits; a no also takes a yes back. Raises PlanError.

        When `record` raises, nothing was answered.
        """
        if approved:
            before, state = (PlanState.WAITING,), PlanState.APPROVED
        else:
            before, state = (PlanState.WAITING, PlanState.APPROVED), PlanState.DENIED
        self._move(plan, before, state, "answered", record, approver=approver, by_person=by_person)

    def take(self, plan: Plan, record: Callable[[], None] = _nothing) -> None:
        """Use an approved plan; from now on nobody can. Raises PlanError."""
        self._move(plan, (PlanState.APPROVED,), PlanState.USED, "used", record)

    def _move(
        self,
        plan: Plan,
        before: tuple[PlanState, ...],
        after: PlanState,
        what: str,
        record: Callable[[], None],
        **answer: Any,
    ) -> None:
        columns, states = "".join(f", {name} = ?" for name in answer), ", ".join("?" for _ in before)
        with self._writing() as connection:
            moved = connection.execute(
                f"UPDATE plan SET state = ?{columns} WHERE plan_id = ? AND digest = ? AND state IN ({states})",  # noqa: S608
                (after, *answer.values(), plan.plan_id, plan.digest, *before),
            ).rowcount
            if moved:
                record()
                return
            row = connection.execute("SELECT state FROM plan WHERE plan_id = ?", (plan.plan_id,)).fetchone()
        is_now = f"it is {row[0]}" if row is not None else "it is no longer there"
        raise PlanError(f"plan {plan.plan_id} cannot be {what}: {is_now}; rehearse again with --dry-run")

    def _stored(self, row: tuple[Any, ...]) -> StoredPlan:
        try:
            plan = Plan.from_json(json.loads(row[0]))
            state = PlanState(row[2])
        except (ValueError, KeyError, TypeError) as exc:
            raise PlanStoreError(f"a plan in {self.path} is damaged; remove the file") from exc
        if plan.digest != row[1]:  # SECURITY: what is used is what was answered
            raise PlanStoreError(f"plan {plan.plan_id} in {self.path} is not what it was; remove the file")
        return StoredPlan(plan=plan, state=state, approver=row[3], by_person=bool(row[4]))

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
                    connection.execute(_SCHEMA)
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
            raise PlanStoreError(f"the plans {self.path} cannot be used: {exc}") from exc
