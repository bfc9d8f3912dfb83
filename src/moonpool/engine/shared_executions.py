"""Executions that outlive their requests, kept in PostgreSQL: the `KeptExecutions` of a replica of the service.

Any replica can wait for an execution and cancel it, whichever runs it: it reads the row, and is told by a signal when
that changes. A cancel is a mark in the row, which the replica that runs the execution is told of. What the code prints
meanwhile is with that replica alone; the outcome has it for all.

SECURITY: every statement names the tenant and the principal, or the process itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Final

import anyio

from moonpool.core.audit import JournalError
from moonpool.engine.kept_executions import EXECUTION_ID, ExecutionLostError, ExecutionUnknownError
from moonpool.engine.outcomes import AGE_S_MAX, COUNT_MAX, FILE_BYTES_MAX
from moonpool.engine.pending_calls import ExecutionCancelledError
from moonpool.store.database.base import DatabaseError
from moonpool.store.postgres_connections import DatabaseAwayError, on_one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.executions import Executions
    from moonpool.store.postgres_connections import PostgresConnections, Row
    from moonpool.store.signals import Signals

_log = logging.getLogger(__name__)
_WITHIN_S: Final = 5.0
_OWED_MAX: Final = 1000
_LOOK_S: Final = 2.0
"""How often it is looked whether the replica that runs an execution still lives."""
_MARK: Final = """
INSERT INTO kept_execution (tenant_id, execution_id, principal, process) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING"""
_KEEP: Final = """
INSERT INTO kept_execution (tenant_id, execution_id, principal, envelope) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant_id, execution_id) DO UPDATE SET envelope = EXCLUDED.envelope, changed_at = now()
    WHERE kept_execution.principal = EXCLUDED.principal"""
_END: Final = """
WITH ended AS (
    UPDATE kept_execution SET process = NULL, changed_at = now() WHERE tenant_id = $1 AND execution_id = $2
    RETURNING execution_id
) SELECT pg_notify('moonpool', 'execution/' || execution_id) FROM ended"""
_FORGET: Final = """
WITH gone AS (DELETE FROM kept_execution WHERE tenant_id = $1 AND execution_id = $2 RETURNING execution_id)
SELECT pg_notify('moonpool', 'execution/' || execution_id) FROM gone"""
_TIDY: Final = """
DELETE FROM kept_execution WHERE tenant_id = $1 AND (changed_at < now() - make_interval(secs => $2) OR (
    process IS NULL AND execution_id IN (SELECT execution_id FROM kept_execution
        WHERE tenant_id = $1 AND process IS NULL ORDER BY changed_at DESC OFFSET $3)))"""
_FIND: Final = """
SELECT envelope, process, EXISTS (SELECT FROM replica r WHERE 'replica/' || r.replica_id = k.process)
FROM kept_execution k WHERE tenant_id = $1 AND execution_id = $2 AND principal = $3
    AND changed_at >= now() - make_interval(secs => $4)"""
_CANCEL: Final = """
WITH asked AS (
    UPDATE kept_execution SET cancelled = true
    WHERE tenant_id = $1 AND execution_id = $2 AND principal = $3 AND process IS NOT NULL RETURNING process
) SELECT pg_notify('moonpool', 'cancels/' || process) FROM asked"""
_CANCELLED: Final = """
SELECT tenant_id, principal, execution_id FROM kept_execution WHERE process = $1 AND cancelled"""
_OUTCOME: Final = "SELECT envelope FROM kept_execution WHERE tenant_id = $1 AND execution_id = $2"


class SharedExecutions:
    """Of one tenant."""

    def __init__(self, connections: PostgresConnections, signals: Signals, tenant_id: str, process: str) -> None:
        self._connections, self._signals, self._tenant_id, self._process = connections, signals, tenant_id, process
        self._owed: dict[str, str] = {}  # by id, what could not be said of those that have ended

    async def mark(self, execution_id: str, principal: str) -> None:
        await self._attempt(f"{execution_id} is not known to other replicas", _MARK, execution_id, principal,
                            self._process)  # fmt: skip
        await self._tidy()

    async def keep(self, envelope: Envelope, principal: str) -> None:
        content = json.dumps(envelope.to_json(), separators=(",", ":")).encode()
        if len(content) > FILE_BYTES_MAX:
            _log.error("the outcome of %s could not be kept: the envelope is too large", envelope.run_id)
            return
        await self._attempt(f"the outcome of {envelope.run_id} could not be kept", _KEEP, envelope.run_id, principal,
                            content)  # fmt: skip
        await self._tidy()

    async def end(self, execution_id: str, principal: str) -> None:  # noqa: ARG002  see `KeptExecutions`
        await self._ended(execution_id, _END)

    async def forget(self, execution_id: str) -> None:
        await self._ended(execution_id, _FORGET)

    async def find(
        self, execution_id: str, principal: str, *, within_s: float = 0.0, cancel: bool = False
    ) -> JsonObject | None:
        if EXECUTION_ID.fullmatch(execution_id) is None:
            raise ExecutionUnknownError(execution_id)
        with self._signals.listening(f"execution/{execution_id}") as changed:
            found = await self._look(execution_id, principal)
            if found is None and cancel:
                await self._fetch(_CANCEL, self._tenant_id, execution_id, principal)
            with anyio.move_on_after(within_s):
                while found is None:
                    with anyio.move_on_after(_LOOK_S):
                        await changed.wait()
                    try:
                        found = await self._look(execution_id, principal)
                    except ExecutionUnknownError:  # it was there
                        raise ExecutionCancelledError(execution_id) from None
        return found

    async def _look(self, execution_id: str, principal: str) -> JsonObject | None:
        """Its outcome; None while it goes on elsewhere. Raises ExecutionUnknownError, ExecutionLostError."""
        rows = await self._fetch(_FIND, self._tenant_id, execution_id, principal, AGE_S_MAX)
        envelope, process, lives = rows[0] if rows else (None, None, False)
        if envelope is not None:
            return _envelope(envelope)
        if process is None or process == self._process:  # what runs here is in memory
            raise ExecutionUnknownError(execution_id)
        if not lives:
            raise ExecutionLostError(execution_id)
        return None

    async def _ended(self, execution_id: str, query: str) -> None:
        """Other replicas would take it for one that goes on, so it is said later if it cannot be said now."""
        said = await self._attempt(f"the end of {execution_id} could not be marked yet", query, execution_id)
        if not said and len(self._owed) < _OWED_MAX:
            self._owed[execution_id] = query

    async def _tidy(self) -> None:
        while self._owed:
            execution_id, query = self._owed.popitem()
            if not await self._attempt(f"the end of {execution_id} could not be marked yet", query, execution_id):
                self._owed[execution_id] = query
                return
        await self._attempt("old outcomes could not be removed", _TIDY, AGE_S_MAX, COUNT_MAX)

    async def _attempt(self, otherwise: str, query: str, *arguments: object) -> bool:
        try:
            await self._fetch(query, self._tenant_id, *arguments)
        except DatabaseError as error:
            _log.error("%s: %s", otherwise, error)
            return False
        return True

    async def _fetch(self, query: str, *arguments: object) -> Sequence[Row]:
        return await _fetched(self._connections, query, *arguments)


async def _fetched(connections: PostgresConnections, query: str, *arguments: object) -> Sequence[Row]:
    """Raises DatabaseError."""
    try:
        return await connections.fetch(query, *arguments, within_s=_WITHIN_S)
    except (DatabaseAwayError, JournalError) as error:
        raise DatabaseError(f"{connections.name} cannot be used: {on_one_line(error)}") from error


def _envelope(content: bytes) -> JsonObject:
    found: JsonValue = json.loads(content)
    assert isinstance(found, dict), "envelopes are ours"
    return found


async def end_cancelled(
    connections: PostgresConnections, signals: Signals, process: str, tenants: Mapping[str, Executions]
) -> None:
    """End the executions of this process, by their tenants' ids, that were cancelled at another one. Until cancelled
    itself.
    """
    ending: set[asyncio.Task[None]] = set()
    with signals.listening(f"cancels/{process}") as changed:
        while True:
            await changed.wait()
            try:
                rows = await _fetched(connections, _CANCELLED, process)
            except DatabaseError as error:
                _log.warning("whether an execution was cancelled is not known: %s", error)
                continue
            for tenant_id, principal, execution_id in rows:
                tenant = tenants.get(tenant_id)
                call = None if tenant is None else tenant.of(principal).find(execution_id)
                if call is not None and not call.over:
                    task = asyncio.create_task(call.cancel())
                    ending.add(task)
                    task.add_done_callback(ending.discard)


async def kept_outcome(connections: PostgresConnections, tenant_id: str, run_id: str) -> JsonObject | None:
    """The outcome of an execution, for the operator. Raises DatabaseError."""
    rows = await _fetched(connections, _OUTCOME, tenant_id, run_id)
    return _envelope(rows[0][0]) if rows and rows[0][0] is not None else None
