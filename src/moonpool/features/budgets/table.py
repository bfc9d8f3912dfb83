"""What principals have used, in the service's database.

One row for each principal, whose lock orders its calls; beside it one for each of its tools, and for each second of the
last minute in which it called something. INVARIANT: what a decision rests on is read, and the reservation made, in one
transaction that holds that lock. SECURITY: every query names the organisation.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import and_, delete, func, select, update

from moonpool.policy import Usage
from moonpool.policy.budgets import total
from moonpool.store.database.base import DatabaseError
from moonpool.store.database.inserts import insert_into
from moonpool.store.database.tables import BUDGET_COUNT, BUDGET_USE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Row, Select

    from moonpool.pipeline.budgets import Taken
    from moonpool.store.database.base import Database

_T = TypeVar("_T")
_MINUTE_S: Final = 60
_NOTES_MAX: Final = 1000
_log = logging.getLogger(__name__)
_USED, _COUNTED = BUDGET_USE.c, BUDGET_COUNT.c


class PrincipalUse:
    """The `SharedLedger` of one principal. Used on the database's event loop."""

    def __init__(
        self, database: Database, organisation_id: str, principal: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._database, self._clock = database, clock
        self._ids = {"organisation_id": organisation_id, "principal": principal}
        self._own = and_(_USED.organisation_id == organisation_id, _USED.principal == principal)
        self._own_counts = and_(_COUNTED.organisation_id == organisation_id, _COUNTED.principal == principal)
        self._notes: set[asyncio.Task[None]] = set()

    async def usage(self, tool: str) -> Usage:
        """See `SharedLedger`."""
        used = await self._database.read(select(BUDGET_USE).where(self._own))
        if not used:
            return Usage()
        seconds = await self._database.read(self._seconds)
        return self._as_usage(used[0], seconds, (await self._database.read(self._tools(tool)))[0])

    async def reserve(self, taken: Taken, holds: Callable[[Usage], bool]) -> Usage | None:
        """See `SharedLedger`."""

        def work(connection: Connection, used: Row[Any]) -> Usage | None:
            seconds = connection.execute(self._seconds).all()
            now = self._as_usage(used, seconds, connection.execute(self._tools(taken.tool)).one())
            if not holds(now):
                return now
            values = {
                "calls": used.calls + 1,
                "argument_bytes": used.argument_bytes + taken.argument_bytes,
                "cost": total(used.cost, taken.cost),
                "wall_s": used.wall_s + taken.wall_s,
            }
            connection.execute(update(BUDGET_USE).where(self._own).values(values))
            self._count(connection, taken, 1)
            if old := [row.name for row in seconds if not self._is_recent(int(row.name))]:
                over = and_(self._own_counts, _COUNTED.kind == "second", _COUNTED.name.in_(old))
                connection.execute(delete(BUDGET_COUNT).where(over))
            return None

        return await self._locked(work)

    async def give_back(self, taken: Taken) -> None:
        """See `SharedLedger`."""

        def work(connection: Connection, used: Row[Any]) -> None:
            values = {
                "calls": used.calls - 1,
                "argument_bytes": used.argument_bytes - taken.argument_bytes,
                "cost": total(used.cost, -taken.cost),
            }
            connection.execute(update(BUDGET_USE).where(self._own).values(values))
            self._count(connection, taken, -1)
            connection.execute(delete(BUDGET_COUNT).where(self._own_counts, _COUNTED.calls <= 0))

        await self._locked(work)

    async def let_in(self, size: int, limit: int | None) -> int | None:
        """See `SharedLedger`."""

        def work(connection: Connection, used: Row[Any]) -> int | None:
            if limit is not None and size > limit - used.result_bytes:
                return max(limit - used.result_bytes, 0)
            values = {"result_bytes": used.result_bytes + size}
            connection.execute(update(BUDGET_USE).where(self._own).values(values))
            return None

        return await self._locked(work)

    def ran(self, wall_s: float) -> None:
        """See `SharedLedger`. What cannot be written is told to the operator."""
        if wall_s <= 0 or len(self._notes) >= _NOTES_MAX:
            return
        task = asyncio.get_running_loop().create_task(self._note(wall_s))
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    async def close(self) -> None:
        """Wait for what is being written."""
        if self._notes:
            await asyncio.wait(self._notes)

    async def _note(self, wall_s: float) -> None:
        change = update(BUDGET_USE).where(self._own).values(wall_s=_USED.wall_s + wall_s)
        try:
            await self._locked(lambda connection, _: connection.execute(change))
        except DatabaseError as error:
            _log.warning("running time of %s cannot be counted: %s", self._ids["principal"], error)

    async def _locked(self, work: Callable[[Connection, Row[Any]], _T]) -> _T:
        """`work` in a transaction that holds the lock of the principal's row. Raises DatabaseError."""
        query = select(BUDGET_USE).where(self._own).with_for_update()
        none = dict.fromkeys(("calls", "argument_bytes", "result_bytes"), 0) | {"cost": 0.0, "wall_s": 0.0}

        def alone(connection: Connection) -> _T:
            row = connection.execute(query).one_or_none()
            if row is None:  # another replica may be first
                inserting = insert_into(BUDGET_USE, connection).values(self._ids | none)
                connection.execute(inserting.on_conflict_do_nothing())
                row = connection.execute(query).one()
            return work(connection, row)

        return await self._database.write(alone)

    @property
    def _seconds(self) -> Select[Any]:
        columns: Any = select(_COUNTED.name, _COUNTED.calls)
        return columns.where(self._own_counts, _COUNTED.kind == "second")

    def _tools(self, tool: str) -> Select[Any]:
        """How many were used, and whether this one was."""
        this: Any = func.count().filter(_COUNTED.name == _digest(tool))
        columns: Any = select(func.count().label("tools"), this.label("this"))
        return columns.where(self._own_counts, _COUNTED.kind == "tool")

    def _is_recent(self, second: int) -> bool:
        """A second is over for all calls in it a minute after its end, so that none is forgotten too early."""
        return second >= int(self._clock()) - _MINUTE_S

    def _as_usage(self, used: Row[Any], seconds: Sequence[Row[Any]], tools: Row[Any]) -> Usage:
        recent = {int(row.name): int(row.calls) for row in seconds if self._is_recent(int(row.name))}
        return Usage(
            calls=used.calls,
            tools=tools.tools,
            new_tool=not tools.this,
            argument_bytes=used.argument_bytes,
            result_bytes=used.result_bytes,
            cost=used.cost,
            wall_s=used.wall_s,
            calls_per_minute=sum(recent.values()),
            room_in_s=max(min(recent) + _MINUTE_S + 1 - self._clock(), 0.0) if recent else 0.0,
        )

    def _count(self, connection: Connection, taken: Taken, more: int) -> None:
        """One call more or less of its tool and in its second."""
        names = {"tool": _digest(taken.tool), "second": str(int(taken.at))}
        rows = [self._ids | {"kind": kind, "name": name, "calls": more} for kind, name in names.items()]
        adding = insert_into(BUDGET_COUNT, connection).values(rows)
        keys = list(BUDGET_COUNT.primary_key)
        connection.execute(
            adding.on_conflict_do_update(index_elements=keys, set_={"calls": _COUNTED.calls + adding.excluded.calls})
        )


def _digest(tool: str) -> str:
    return hashlib.sha256(tool.encode("utf-8", "replace")).hexdigest()
