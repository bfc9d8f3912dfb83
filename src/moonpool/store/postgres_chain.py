"""One tenant's chain of audit records in PostgreSQL: appending to it from several processes at once.

The table `audit_head` names the last record of each chain. A batch is appended by one statement, which moves the head
only if it is the one that the batch was chained to, and inserts the batch only if it moved the head: compare and swap.
A process that lost the race looks where the head is now, chains its batch anew and tries again. The same look settles
what became of a batch whose statement got no answer: the chain either holds it, or cannot take it any more since the
head has moved on, or the very same statement is sent again.

Commits that need not wait for the disk are asynchronous. If the server crashes, it may lose the last of them, although
they were acknowledged. So each process keeps those until a later commit has waited for the disk, and writes what is
missing again when it finds the server back.

INVARIANT: nothing is appended to a chain that does not hold, as this process wrote it, what it saw synced. SECURITY:
every statement names the tenant. The queue of a journal is `moonpool.store.postgres_journal`.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from moonpool.core.audit import GENESIS, JournalError, JournalLostError, JournalUncertainError, chain_hash
from moonpool.store.postgres_connections import VERSION_MIN, DatabaseAwayError
from moonpool.store.postgres_schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from moonpool.store.journal_entries import Entry
    from moonpool.store.postgres_connections import PostgresConnections, Row

_log = logging.getLogger(__name__)

_FITNESS: Final = """
SELECT current_setting('server_version_num')::int, current_setting('fsync'),
    obj_description('audit_record'::regclass, 'pg_class')"""
_BEGIN: Final = f"INSERT INTO audit_head VALUES ($1, 0, '{GENESIS}') ON CONFLICT DO NOTHING"  # noqa: S608  a constant
_TAKE_PART: Final = """
INSERT INTO replica_tenant SELECT $1, tenant_id, seq FROM audit_head WHERE tenant_id = $2 ON CONFLICT DO NOTHING"""
_LOOK: Final = """
SELECT h.seq, h.hash, ARRAY(
    SELECT r.hash FROM audit_record r WHERE r.tenant_id = $1 AND (r.seq = h.seq OR r.seq = ANY($2::bigint[]))
), EXISTS (SELECT FROM audit_record r WHERE r.tenant_id = $1 AND r.seq > h.seq),
$3::text IS NULL OR EXISTS (SELECT FROM replica WHERE replica_id = $3)
FROM audit_head h WHERE h.tenant_id = $1"""
_STANDING: Final = """
SELECT run_id, kind, body FROM audit_record
WHERE tenant_id = $1 AND run_id = ANY($2::text[]) AND body = ANY($3::bytea[])"""
_APPEND: Final = """
WITH living AS (
    SELECT FROM replica WHERE replica_id = $11 FOR KEY SHARE
), moved AS (
    UPDATE audit_head SET seq = $4, hash = $5 WHERE tenant_id = $1 AND seq = $2 AND hash = $3 AND (
        $2 = 0 OR EXISTS (SELECT FROM audit_record WHERE tenant_id = $1 AND seq = $2 AND hash = $3)
    ) AND ($11::text IS NULL OR EXISTS (SELECT FROM living)) RETURNING 1
), kept AS (
    INSERT INTO audit_record (tenant_id, seq, kind, run_id, body, hash)
    SELECT $1, $2 + batch.number, batch.kind, batch.run_id, batch.body, batch.hash
    FROM unnest($6::text[], $7::text[], $8::bytea[], $9::text[])
        WITH ORDINALITY AS batch (kind, run_id, body, hash, number)
    WHERE EXISTS (SELECT FROM moved) RETURNING 1
)
SELECT (SELECT count(*) FROM moved), (SELECT count(*) FROM kept), set_config('synchronous_commit', CASE
    WHEN NOT $10 THEN 'off' WHEN current_setting('synchronous_commit') = 'off' THEN 'on'
    ELSE current_setting('synchronous_commit') END, true)"""

_UNSYNCED_COUNT_MAX: Final = 256
_PAUSE_S: Final = 0.05
_PAUSE_S_MAX: Final = 0.5


class Head(NamedTuple):
    """A record by its number and hash; the hash says what all before it are."""

    seq: int
    hash: str


_EMPTY: Final = Head(0, GENESIS)


@dataclass(slots=True)
class _Batch:
    """Entries chained to one head. At most one of several statements that send it can be carried out."""

    before: Head
    entries: Sequence[Entry]
    heads: Sequence[Head]  # what each entry makes the head
    durable: bool
    stands: bool = False
    is_uncertain: bool = False  # a statement that sent it got no answer

    @property
    def after(self) -> Head:
        return self.heads[-1]


class PostgresChain:
    """The chain of one tenant, to which this process appends one batch after the other."""

    def __init__(
        self, connections: PostgresConnections, tenant_id: str, *, patience_s: float, replica_id: str | None = None
    ) -> None:
        """`patience_s`: how long it is tried to append a batch while the database is away. `replica_id`: whose lease
        this process has (`moonpool.store.postgres_leases`); without it nothing is appended any more.
        """
        self._connections, self._tenant_id, self._patience_s = connections, tenant_id, patience_s
        self._replica_id = replica_id
        self.name = f"the audit journal of tenant {tenant_id!r} in {connections.name}"
        self._is_open = False
        self._head: Head | None = None  # None: it must be looked for
        self._synced = _EMPTY
        self._unsynced: list[tuple[Head, Entry]] = []  # acknowledged; a crash of the server may lose the last ones
        self._again: list[Entry] = []  # what it has lost
        self._sent: _Batch | None = None  # not settled yet
        self._deadline = 0.0

    async def open(self) -> None:
        """Find or begin the chain. Raises JournalError."""
        await self._insist(self._look)

    async def append(self, entries: Sequence[Entry], *, durable: bool) -> None:
        """Commit `entries` as one transaction; `durable` waits for the disk.

        Raises JournalUncertainError when nobody can tell yet whether they are committed, another JournalError when
        they are not.
        """
        mine: _Batch | None = None

        async def advance() -> None:
            nonlocal mine
            while mine is None or not mine.stands:
                self._patience_left()
                if self._head is None:
                    await self._look()
                elif self._sent is not None:
                    await self._send(self._sent)
                elif (mine := await self._chained(self._head, entries, durable=durable)) is None:
                    return
                else:
                    self._sent = mine

        try:
            await self._insist(advance)
        except JournalLostError:
            raise
        except JournalError as exc:
            if mine is None or mine is not self._sent or not mine.is_uncertain:
                raise
            raise JournalUncertainError(f"{exc}; whether the record stands there is not known yet") from exc
        finally:
            if self._sent is not None and not self._sent.is_uncertain:
                self._sent = None

    async def close(self) -> None:
        """Write again what a crash of the server has lost since. Raises JournalError."""
        if self._unsynced or self._again:
            self._head = None
            await self.append((), durable=True)

    async def _insist(self, action: Callable[[], Awaitable[None]]) -> None:
        """Repeat `action` while the database is away, until the patience ends."""
        self._deadline, pause_s = _now() + self._patience_s, _PAUSE_S
        while True:
            try:
                await action()
            except DatabaseAwayError as exc:
                self._head = None
                if _now() + pause_s >= self._deadline:
                    raise JournalError(f"{self.name} cannot be reached: {exc}") from exc
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_S_MAX)

    def _patience_left(self) -> float:
        if (left := self._deadline - _now()) <= 0:
            raise DatabaseAwayError("other processes append to it all the time", sent=False)
        return left

    async def _fetch(self, query: str, *arguments: object) -> Sequence[Row]:
        return await self._connections.fetch(query, *arguments, within_s=self._patience_left())

    async def _look(self) -> None:
        """Find the head; settle what was sent; note what the server has lost."""
        if not self._is_open:
            await self._check_fitness()
        marks = [self._synced.seq, *(head.seq for head, _ in self._unsynced)]
        if self._sent is not None:
            marks.append(self._sent.after.seq)
        seq, digest, standing, goes_on = await self._looked(marks)
        head = Head(seq, digest)
        if goes_on:
            raise self._lost(f"its head is record {seq}, but there are later ones")
        for mark in (head, self._synced):
            if mark != _EMPTY and mark.hash not in standing:
                raise self._lost(f"record {mark.seq} is not there any more as it was written")
        if self._sent is not None and self._sent.after.hash in standing:
            self._took(self._sent)
        elif self._sent is not None and self._sent.before != head:
            self._sent = None  # it cannot be carried out any more: the head has moved on
        self._note_losses([item for item in self._unsynced if item[0].hash in standing])
        self._head, self._is_open = head, True

    async def _looked(self, marks: Sequence[int]) -> tuple[int, str, Sequence[str], bool]:
        """The head, which records of `marks` stand, and whether there are later ones."""
        rows = await self._fetch(_LOOK, self._tenant_id, marks, self._replica_id)
        if not rows and not self._is_open:
            await self._fetch(_BEGIN, self._tenant_id)
            rows = await self._fetch(_LOOK, self._tenant_id, marks, self._replica_id)
        if not rows:
            raise self._lost("it has no head any more")
        seq, digest, standing, goes_on, lives = rows[0]
        if not lives:
            raise JournalLostError(
                f"{self.name} takes no records of this replica any more: another has taken it for dead, and its "
                "executions are on record as lost. It ends; start it again"
            )
        if self._replica_id is not None and not self._is_open:  # INVARIANT: before it appends anything
            await self._fetch(_TAKE_PART, self._replica_id, self._tenant_id)
        return seq, digest, standing, goes_on

    async def _check_fitness(self) -> None:
        ((version, fsync, schema),) = await self._fetch(_FITNESS)
        if version < VERSION_MIN:
            raise JournalError(f"{self.name} needs PostgreSQL 14 or newer; this one is {version // 10_000}")
        if fsync != "on":
            raise JournalError(f"{self.name} cannot be kept: the server runs with fsync=off and would lose records")
        if schema != SCHEMA_VERSION:
            raise JournalError(f"{self.name} was written by another version of Moonpool; use that one")

    def _note_losses(self, kept: list[tuple[Head, Entry]]) -> None:
        """`kept`: those of the unsynced entries that stand."""
        lost = self._unsynced[len(kept) :]
        if kept != self._unsynced[: len(kept)]:
            raise self._lost("a record is not there any more, but a later one is")
        if lost:
            _log.warning("%s lost its last %d records, as after a crash; they are written again", self.name, len(lost))
            self._unsynced, self._again = kept, [*(entry for _, entry in lost), *self._again]

    async def _chained(self, head: Head, entries: Sequence[Entry], *, durable: bool) -> _Batch | None:
        """What is to be appended after `head`; None when all of it stands already."""
        durable = durable or bool(self._again) or len(self._unsynced) >= _UNSYNCED_COUNT_MAX
        new = [*self._again, *await self._missing(entries)]
        heads: list[Head] = []
        last = head
        for entry in new:
            last = Head(last.seq + 1, chain_hash(last.hash, last.seq + 1, entry.body))
            heads.append(last)
        return _Batch(head, new, heads, durable) if new else None

    async def _missing(self, entries: Sequence[Entry]) -> list[Entry]:
        """`entries` without those that must stand once and do. INVARIANT: asked after the head was seen, so that what
        was appended since makes the swap fail.
        """
        if not (once := [entry for entry in entries if entry.once]):
            return list(entries)
        rows = await self._fetch(
            _STANDING, self._tenant_id, [entry.run_id for entry in once], [entry.body for entry in once]
        )
        there = {tuple(row) for row in rows}
        missing: list[Entry] = []
        for entry in entries:
            if not entry.once or (entry.run_id, entry.kind, entry.body) not in there:
                missing.append(entry)
            if entry.once:
                there.add((entry.run_id, entry.kind, entry.body))
        return missing

    async def _send(self, batch: _Batch) -> None:
        entries = batch.entries
        try:
            ((moved, kept, _),) = await self._fetch(
                _APPEND, self._tenant_id, *batch.before, *batch.after,
                [entry.kind for entry in entries], [entry.run_id for entry in entries],
                [entry.body for entry in entries], [head.hash for head in batch.heads], batch.durable,
                self._replica_id,
            )  # fmt: skip
        except DatabaseAwayError as exc:
            batch.is_uncertain |= exc.sent
            raise
        if not moved:
            self._head = None
        elif kept == len(entries):
            self._took(batch)
        else:  # a foreign trigger or rule interfered
            self._head, self._sent = None, None
            raise self._lost(f"it did not take all of {len(entries)} records")

    def _took(self, batch: _Batch) -> None:
        batch.stands = True
        self._head, self._sent, self._again = batch.after, None, []
        if batch.durable:
            self._synced = batch.after
            self._unsynced.clear()
        else:
            self._unsynced += zip(batch.heads, batch.entries, strict=True)

    def _lost(self, why: str) -> JournalLostError:
        return JournalLostError(
            f"{self.name} is not the one that this process wrote to: {why}. Nothing is recorded any more, so nothing "
            "is called: restore the database, or keep what is left as evidence and start again with a new one"
        )


def _now() -> float:
    return asyncio.get_running_loop().time()
