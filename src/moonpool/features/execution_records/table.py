"""Records of executions by one call in the service's database.

SECURITY: every query that answers a caller names the organisation, and the principal unless an administrator asks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, column, delete, exists, func, insert, literal, not_, or_, select, table, true, update

from moonpool.features.execution_records.model import (
    KEPT_COUNT_MAX,
    KEPT_OUTPUT_BYTES_MAX,
    LOST,
    ExecutionRecord,
    labels_of,
    sought_labels,
)
from moonpool.features.webhooks.model import new_delivery_id
from moonpool.store.database.clock import shared_now
from moonpool.store.database.tables import EXECUTION_LABEL, EXECUTION_RECORD, WEBHOOK_DELIVERY

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Select

    from moonpool.features.execution_records.model import RunQuery
    from moonpool.store.database.base import Database

_R: Final = EXECUTION_RECORD.c
_ADD: Final = insert(EXECUTION_RECORD)
_ADD_LABELS: Final = insert(EXECUTION_LABEL)
_OUTPUT: Final = frozenset({"stdout", "stderr"})
_CHANNEL: Final = "moonpool"
_LOST_AT_ONCE: Final = 1_000
_REPLICA: Final = table("replica", column("replica_id"))  # see `store.postgres_schema`
_LIVES: Final = exists().where(_R.process == literal("replica/").concat(_REPLICA.c.replica_id))


class RecordTable:
    """Every method raises DatabaseError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, organisation: str, record: ExecutionRecord, *, process: str, durable: bool) -> None:
        values = {"organisation_id": organisation, "process": process, "cancel_asked": False, **_values(record)}
        labels = [
            {"organisation_id": organisation, "trace_id": record.trace_id, "key": key, "value": value}
            for key, value in labels_of(record.metadata).items()
        ]

        def work(connection: Connection) -> None:
            connection.execute(_ADD, values)  # values as parameters: SQLAlchemy then has the statement ready
            if labels:
                connection.execute(_ADD_LABELS, labels)

        await self._database.write(work, durable=durable)

    async def end(self, organisation: str, record: ExecutionRecord) -> bool:
        """Keep how it ended, and have its webhook delivered. False: it is on record as over, or as none, already."""
        values = _values(record)

        def work(connection: Connection) -> bool:
            change = update(EXECUTION_RECORD).where(_is(organisation, record.trace_id), _R.status == "running")
            if not connection.execute(change.values(values)).rowcount:
                return False
            _deliver(connection, organisation, record.trace_id, record.webhook_url)
            _signal(connection, f"sandbox-run/{record.trace_id}")
            return True

        return await self._database.write(work)

    async def remove(self, organisation: str, trace_id: str) -> None:
        """One that never began."""

        def work(connection: Connection) -> None:
            _forget(connection, organisation, [trace_id])

        await self._database.write(work, durable=False)

    async def find(self, organisation: str, trace_id: str, principal: str | None) -> tuple[ExecutionRecord, str] | None:
        """It, and the process that runs it. `principal` None: of whomever."""
        where = and_(_is(organisation, trace_id), _of(principal))
        rows = await self._database.read(select(EXECUTION_RECORD).where(where))
        return (_record(rows[0]), rows[0].process) if rows else None

    async def page(
        self, organisation: str, principal: str | None, query: RunQuery, after: tuple[float, str] | None, count: int
    ) -> Sequence[ExecutionRecord]:
        """`count` records without output, the newest first, older than the one at `after`."""
        columns = [one for one in EXECUTION_RECORD.columns if one.name not in _OUTPUT]
        found = select(*columns).where(_R.organisation_id == organisation, _of(principal), *_filters(query))
        if after is not None:
            created_at, trace_id = after
            older = or_(_R.created_at < created_at, and_(_R.created_at == created_at, _R.trace_id < trace_id))
            found = found.where(older)
        ordered: Select[Any] = found.order_by(_R.created_at.desc(), _R.trace_id.desc()).limit(count)
        return [_record(row) for row in await self._database.read(ordered)]

    # --- cancelling at another replica

    async def ask_cancel(self, organisation: str, trace_id: str) -> None:
        """The process that runs it is told."""

        def work(connection: Connection) -> None:
            where = and_(_is(organisation, trace_id), _R.status == "running")
            connection.execute(update(EXECUTION_RECORD).where(where).values(cancel_asked=True))
            process = connection.execute(select(_R.process).where(where)).scalar_one_or_none()
            if process is not None:
                _signal(connection, f"sandbox-cancels/{process}")

        await self._database.write(work, durable=False)

    async def cancels_asked(self, process: str) -> Sequence[tuple[str, str]]:
        """Organisation and trace id of those that this process is to cancel."""
        where = and_(_R.status == "running", _R.process == process, _R.cancel_asked)
        columns = [_R.organisation_id, _R.trace_id]
        query = select(*columns).where(where).limit(_LOST_AT_ONCE)
        rows = await self._database.read(query)
        return [(row.organisation_id, row.trace_id) for row in rows]

    # --- those whose process has ended

    async def running_processes(self) -> Sequence[str]:
        """Who runs something, according to the records."""
        return [
            row.process
            for row in await self._database.read(select(_R.process).where(_R.status == "running").distinct())
        ]

    async def lose(self, processes: Collection[str] | None) -> int:
        """End the records of these processes, or of replicas whose lease is gone; how many."""
        gone = not_(_LIVES) if processes is None else _R.process.in_(processes)

        def work(connection: Connection) -> int:
            now = shared_now(connection)
            columns = (_R.organisation_id, _R.trace_id, _R.created_at, _R.webhook_url)
            found = select(*columns).where(_R.status == "running", gone).limit(_LOST_AT_ONCE)
            count = 0
            for row in connection.execute(found).all():
                duration_ms = max(0, round((now - row.created_at) * 1000))
                lost = {
                    "status": "failed", "error": LOST, "exit_code": -1, "stdout": b"", "stderr": b"",
                    "completed_at": now, "duration_ms": duration_ms, "last_seq": 2,
                }  # fmt: skip
                where = and_(_is(row.organisation_id, row.trace_id), _R.status == "running")
                if connection.execute(update(EXECUTION_RECORD).where(where).values(lost)).rowcount:
                    count += 1
                    _deliver(connection, row.organisation_id, row.trace_id, row.webhook_url)
                    _signal(connection, f"sandbox-run/{row.trace_id}")
            return count

        return await self._database.write(work)

    # --- retention

    async def sweep(self, organisations: Collection[str], before: float) -> int:
        """Remove records from before `before`, and what is too much of these organisations; how many."""

        def work(connection: Connection) -> int:
            count = 0
            old = select(_R.organisation_id, _R.trace_id).where(_R.created_at < before).limit(_LOST_AT_ONCE)
            for row in connection.execute(old).all():
                count += _forget(connection, row.organisation_id, [row.trace_id])
            for organisation in organisations:
                count += _forget(connection, organisation, connection.execute(_too_much(organisation)).scalars().all())
            return count

        return await self._database.write(work, durable=False)


def _too_much(organisation: str) -> Select[Any]:
    """The ids of the oldest records of an organisation that are over and beyond what is kept."""
    newest = (_R.created_at.desc(), _R.trace_id.desc())
    ranked = (
        select(
            _R.trace_id,
            _R.status,
            _R.webhook_status,
            func.row_number().over(order_by=newest).label("place"),
            func.sum(_R.output_bytes).over(order_by=newest, rows=(None, 0)).label("size"),
        )
        .where(_R.organisation_id == organisation)
        .subquery()
    )
    is_open = or_(ranked.c.status == "running", func.coalesce(ranked.c.webhook_status, "") == "pending")
    beyond = or_(ranked.c.place > KEPT_COUNT_MAX, ranked.c.size > KEPT_OUTPUT_BYTES_MAX)
    return select(ranked.c.trace_id).where(beyond, not_(is_open)).limit(_LOST_AT_ONCE)


def _forget(connection: Connection, organisation: str, trace_ids: Sequence[str]) -> int:
    if not trace_ids:
        return 0
    for one in (EXECUTION_LABEL, WEBHOOK_DELIVERY):
        connection.execute(delete(one).where(one.c.organisation_id == organisation, one.c.trace_id.in_(trace_ids)))
    where = and_(_R.organisation_id == organisation, _R.trace_id.in_(trace_ids))
    return connection.execute(delete(EXECUTION_RECORD).where(where)).rowcount


def _deliver(connection: Connection, organisation: str, trace_id: str, url: str | None) -> None:
    """INVARIANT: in the transaction that ends the record, so that no result is on record without its delivery."""
    if url is None:
        return
    connection.execute(
        insert(WEBHOOK_DELIVERY).values(
            organisation_id=organisation,
            delivery_id=new_delivery_id(),
            trace_id=trace_id,
            url=url,
            attempts=0,
            next_at=0.0,
            claimed_until=0.0,
        )
    )


def _signal(connection: Connection, topic: str) -> None:
    """Wake who listens to it at another replica (`store.signals`)."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_notify(_CHANNEL, topic)))


def _filters(query: RunQuery) -> Sequence[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if query.status is not None:
        found.append(_R.status == query.status)
    if query.thread_id is not None:
        found.append(_R.thread_id == query.thread_id)
    if query.since is not None:
        found.append(_R.created_at >= query.since)
    label = EXECUTION_LABEL.c
    for key, value in query.metadata.items():
        own = and_(label.organisation_id == _R.organisation_id, label.trace_id == _R.trace_id, label.key == key)
        found.append(exists().where(own, label.value.in_(sought_labels(value))))
    return found


def _is(organisation: str, trace_id: str) -> ColumnElement[bool]:
    return and_(_R.organisation_id == organisation, _R.trace_id == trace_id)


def _of(principal: str | None) -> ColumnElement[bool]:
    return true() if principal is None else _R.principal == principal


def _values(record: ExecutionRecord) -> dict[str, Any]:
    stdout, stderr = (None if text is None else text.encode() for text in (record.stdout, record.stderr))
    return {
        "trace_id": record.trace_id,
        "principal": record.principal,
        "run_id": record.run_id,
        "language": record.language,
        "delivery_mode": record.delivery_mode,
        "status": record.status,
        "thread_id": record.thread_id,
        "metadata": json.dumps(dict(record.metadata)),
        "exit_code": record.exit_code,
        "stdout": stdout,
        "stderr": stderr,
        "output_bytes": len(stdout or b"") + len(stderr or b""),
        "output_truncated": record.output_truncated,
        "error": record.error,
        "duration_ms": record.duration_ms,
        "created_at": record.created_at,
        "completed_at": record.completed_at,
        "last_seq": record.last_seq,
        "webhook_url": record.webhook_url,
        "webhook_status": record.webhook_status,
    }


def _record(row: Row[Any]) -> ExecutionRecord:
    values = dict(row._mapping)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  a public name of SQLAlchemy's
    for name in ("organisation_id", "process", "cancel_asked", "output_bytes"):
        values.pop(name)
    for name in _OUTPUT & values.keys():
        values[name] = None if values[name] is None else bytes(values[name]).decode(errors="replace")
    return ExecutionRecord(**{**values, "metadata": json.loads(values["metadata"])})
