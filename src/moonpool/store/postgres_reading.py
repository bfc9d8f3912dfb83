"""Reading and verifying the audit journal in PostgreSQL. Blocking; never on the loop.

Rows are read in pages, so that a long journal needs little memory; a page begins behind the last number, so that
records that are appended meanwhile disturb nothing. What the head says is compared, too: it shows that the end was cut
off, unless the head was set back as well.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.core.audit import GENESIS, AuditRow, ChainOutcome, JournalError, verify_rows
from moonpool.store.journal_reading import is_replay
from moonpool.store.postgres_connections import fault_of, load_asyncpg, open_connection
from moonpool.store.process_marks import is_gone

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from moonpool.store.database.addresses import PostgresAddress
    from moonpool.store.postgres_connections import Connection, Row

_PAGE_COUNT: Final = 1000
_WITHIN_S: Final = 60.0
REPLICA: Final = "replica/"
"""How the marks of replicas begin (`moonpool.store.postgres_leases`)."""
_COLUMNS: Final = "seq, kind, run_id, body, hash"


class _Ask(Protocol):
    def __call__(self, query: str, /, *arguments: object) -> Sequence[Row]: ...


class PostgresJournalReader:
    """The `JournalReader` of one tenant. Each method opens a connection of its own."""

    def __init__(self, address: PostgresAddress, tenant_id: str) -> None:
        self._address, self._tenant_id = address, tenant_id
        self.name = f"the audit journal of tenant {tenant_id!r} in {address}"

    def identity(self) -> object:
        with self._asking() as ask:
            found = ask("SELECT hash FROM audit_record WHERE tenant_id = $1 ORDER BY seq LIMIT 1", self._tenant_id)
        return found[0][0] if found else None

    def rows(self, *, run_id: str | None = None, tail: int | None = None, after: int = 0) -> Generator[AuditRow]:
        with self._asking() as ask:
            if tail is not None:
                query = f"""SELECT min(seq) FROM (SELECT seq FROM audit_record WHERE tenant_id = $1 AND seq > $2
                    {"" if run_id is None else "AND run_id = $4"} ORDER BY seq DESC LIMIT $3) AS newest"""  # noqa: S608
                extra = () if run_id is None else (run_id,)
                ((first,),) = ask(query, self._tenant_id, after, tail, *extra)
                if first is None:
                    return
                after = first - 1
            yield from self._pages(ask, after, run_id)

    def run(self, run_id: str) -> list[tuple[str, AuditRow]]:
        query = """SELECT p.hash, r.seq, r.kind, r.run_id, r.body, r.hash FROM audit_record r
            LEFT JOIN audit_record p ON p.tenant_id = r.tenant_id AND p.seq = r.seq - 1
            WHERE r.tenant_id = $1 AND r.run_id = $2 ORDER BY r.seq"""
        with self._asking() as ask:
            return [(row[0] or GENESIS, _row(row[1:])) for row in ask(query, self._tenant_id, run_id)]

    def ended(self, run_ids: Sequence[str]) -> set[str]:
        query = """SELECT DISTINCT run_id FROM audit_record
            WHERE tenant_id = $1 AND run_id = ANY($2::text[]) AND kind = 'execution_end'"""
        with self._asking() as ask:
            return {run_id for (run_id,) in ask(query, self._tenant_id, list(run_ids))}

    def newest_run(self) -> str | None:
        query = """SELECT seq, run_id, body FROM audit_record
            WHERE tenant_id = $1 AND kind = 'execution_start' AND seq < $2 ORDER BY seq DESC LIMIT 100"""
        before = 2**63 - 1
        with self._asking() as ask:
            while page := ask(query, self._tenant_id, before):
                for before, run_id, body in page:  # noqa: B007  the last one is where the next page begins
                    if not is_replay(body):
                        return str(run_id)
        return None

    def has(self, run_id: str, kind: str) -> bool:
        query = "SELECT 1 FROM audit_record WHERE tenant_id = $1 AND run_id = $2 AND kind = $3 LIMIT 1"
        with self._asking() as ask:
            return bool(ask(query, self._tenant_id, run_id, kind))

    def is_gone(self, process: str) -> bool | None:
        if not process.startswith(REPLICA):
            return is_gone(process)
        query = "SELECT CASE WHEN expires_at >= now() THEN true END FROM replica WHERE replica_id = $1"
        with self._asking() as ask:
            found = ask(query, process.removeprefix(REPLICA))
        if not found:
            return True
        return False if found[0][0] else None  # it may come back as long as no other replica has fenced it

    def stored_rows(self) -> Generator[AuditRow]:
        with self._asking() as ask:
            yield from self._pages(ask, -(2**63), None)

    def verify(self, *, anchor: tuple[int, str] | None = None) -> ChainOutcome:
        with self._asking() as ask:
            found = ask("SELECT seq, hash FROM audit_head WHERE tenant_id = $1", self._tenant_id)
            if not found:
                raise JournalError(f"there is no {self.name.removeprefix('the ')}; the first execution begins it")
            seq, digest = found[0]
            named: list[str] = [GENESIS] if seq == 0 else []

            def noted() -> Iterator[AuditRow]:
                for row in self._pages(ask, -(2**63), None):
                    if row.seq == seq:
                        named.append(row.hash)
                    yield row

            outcome = verify_rows(noted(), anchor=anchor)
            if outcome.ok and digest not in named:
                why = f"its head names record {seq} with another hash, or one that is not there: the end was cut off"
                return ChainOutcome(rows=outcome.rows, head=outcome.head, broken_seq=seq, why=why)
            return outcome

    def _pages(self, ask: _Ask, after: int, run_id: str | None) -> Generator[AuditRow]:
        where = "" if run_id is None else "AND run_id = $4"
        query = f"""SELECT {_COLUMNS} FROM audit_record WHERE tenant_id = $1 AND seq > $2 {where}
            ORDER BY seq LIMIT $3"""  # noqa: S608  names of ours
        extra = () if run_id is None else (run_id,)
        while page := ask(query, self._tenant_id, after, _PAGE_COUNT, *extra):
            yield from map(_row, page)
            after = page[-1][0]

    @contextmanager
    def _asking(self) -> Generator[_Ask]:
        """A function that reads, on one connection that cannot write. Raises JournalError."""
        asyncpg = load_asyncpg()
        errors = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError)

        def failed(cause: Exception) -> JournalError:
            return JournalError(f"{self.name} cannot be read: {fault_of(cause)}")

        with asyncio.Runner() as runner:
            try:
                connection = runner.run(_connect(self._address))
            except errors as exc:
                raise failed(exc) from exc

            def ask(query: str, /, *arguments: object) -> Sequence[Row]:
                try:
                    return runner.run(_fetch(connection, query, arguments))
                except errors as exc:
                    raise failed(exc) from exc

            try:
                yield ask
            finally:
                connection.terminate()


async def _connect(address: PostgresAddress) -> Connection:
    async with asyncio.timeout(_WITHIN_S):
        return await open_connection(address, read_only=True)


async def _fetch(connection: Connection, query: str, arguments: Sequence[object]) -> Sequence[Row]:
    async with asyncio.timeout(_WITHIN_S):
        return await connection.fetch(query, *arguments)


def _row(row: Row) -> AuditRow:
    seq, kind, run_id, body, digest = row
    return AuditRow(seq=seq, kind=kind, run_id=run_id, body=body, hash=digest)
