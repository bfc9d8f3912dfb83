"""In-memory implementations of the store; each passes the same contract tests as the real one."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from moonpool.core.audit import GENESIS, AuditRow, JournalError, chain_hash, record_bytes
from moonpool.core.audit_records import OutboxRecord
from moonpool.features.recordings.model import (
    NotReplayable,
    RecordedCall,
    RecordedInstall,
    RecordedReply,
    Recording,
    RecordingError,
    RunEnd,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.core.audit_records import AuditRecord
    from moonpool.features.drift.model.acceptance import Accepted
    from moonpool.features.recordings.model import Part, RecordingRef, RunHeader, SharedPart


class MemoryJournal:
    """Keeps rows in a list. `broken` makes every later record fail, as a full disk would."""

    def __init__(self) -> None:
        self.rows: list[AuditRow] = []
        self.entries: list[AuditRecord] = []
        self.broken = ""
        self._closed = False

    def record(self, entry: AuditRecord) -> asyncio.Future[None]:
        if self._closed:
            raise JournalError("the audit journal is closed; Moonpool is shutting down")
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        body = record_bytes(entry)
        if self.broken:
            committed.set_exception(JournalError(self.broken))
            committed.exception()  # a caller that does not wait is not warned about
            return committed
        if isinstance(entry, OutboxRecord) and any(row.body == body for row in self.rows):
            committed.set_result(None)
            return committed
        seq = len(self.rows) + 1
        digest = chain_hash(self.rows[-1].hash if self.rows else GENESIS, seq, body)
        self.rows.append(AuditRow(seq=seq, kind=entry.kind, run_id=entry.run_id, body=body, hash=digest))
        self.entries.append(entry)
        committed.set_result(None)
        return committed

    async def close(self) -> None:
        self._closed = True


class MemoryAcceptances:
    """Acceptances in a dict; passes the same contract tests as `moonpool.features.drift.table`."""

    def __init__(self) -> None:
        self._kept: dict[str, Accepted] = {}
        self._changes: Counter[str] = Counter()

    def load(self, key: str) -> Accepted | None:
        return self._kept.get(key)

    def update(self, key: str, change: Callable[[Accepted | None], Accepted]) -> bool:
        before = self._kept.get(key)
        after = self._kept[key] = change(before)
        self._changes[key] += after != before
        return True

    def stamp(self, key: str) -> int:
        return self._changes[key]


class MemoryRecordings:
    """Recordings in dicts, written at once; passes the same contract tests as `moonpool.features.recordings.writer`."""

    def __init__(self) -> None:
        self._refs: dict[str, RecordingRef] = {}
        self._kept: dict[str, Recording] = {}

    def begin(
        self, ref: RecordingRef, shared: tuple[str, Callable[[], SharedPart]], make: Callable[[], RunHeader]
    ) -> None:
        self._refs[ref.run_id] = ref
        try:
            self._kept[ref.run_id] = Recording(header=make(), shared=shared[1]())
        except NotReplayable as why:
            self._give_up(ref.run_id, str(why))

    def add(self, run_id: str, make: Callable[[], Part]) -> None:
        if run_id not in self._kept:
            return
        kept = self._kept[run_id]
        try:
            part = make()
        except NotReplayable as why:
            self._give_up(run_id, str(why))
            return
        match part:
            case RecordedCall():
                self._kept[run_id] = replace(kept, calls=(*kept.calls, part))
            case RecordedReply():
                self._kept[run_id] = replace(kept, replies=(*kept.replies, part))
            case RecordedInstall():
                self._kept[run_id] = replace(kept, installs=(*kept.installs, part))
            case RunEnd():
                self._kept[run_id] = replace(kept, end=part)

    def _give_up(self, run_id: str, why: str) -> None:
        self._kept.pop(run_id, None)
        self._refs[run_id] = replace(self._refs[run_id], problem=why)

    def close(self) -> None:
        """Nothing is to be written."""

    def load(self, run_id: str) -> Recording:
        if run_id in self._kept:
            return self._kept[run_id]
        ref = self._refs.get(run_id)
        raise RecordingError(f"{run_id} cannot be replayed: {ref.problem}" if ref else f"{run_id} is not recorded")

    def of_sandbox(self, sandbox_id: str) -> list[RecordingRef]:
        found = (ref for ref in self._refs.values() if ref.sandbox_id == sandbox_id)
        return sorted(found, key=lambda ref: ref.position)

    def newest(self, count: int) -> list[RecordingRef]:
        return list(reversed(self._refs.values()))[:count]

    def remove(self, run_ids: list[str] | None) -> int:
        gone = [one for one in self._refs if run_ids is None or one in run_ids]
        for one in gone:
            del self._refs[one]
            self._kept.pop(one, None)
        return len(gone)
