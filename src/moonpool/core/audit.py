"""Audit trail as data: the rows of a journal, their canonical bytes, the hash chain and its verification. Pure.

What is recorded is `audit_records`. Each stored row is chained to the one before it, so a changed, removed or inserted
row shows.

A chain that is cut off at its end still verifies by itself; `verify_rows(anchor=...)` with a head noted elsewhere finds
that too. The SQLite adapter is `moonpool.store.journal`, its twins are `moonpool.store.postgres_journal` and, in
memory, `moonpool.store.fake`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, cast

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.core.json import JsonObject, JsonValue, canonical_json, finite_number

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from moonpool.core.audit_records import AuditRecord

GENESIS: Final = "0" * 64
"""The hash that the first row is chained to."""
_NUMBER_MAX: Final = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One row as stored. `body` is canonical JSON; `kind` and `run_id` repeat members of it for searching."""

    seq: int
    kind: str
    run_id: str
    body: bytes
    hash: str

    def to_json(self) -> JsonObject:
        """Its members. Of a row that was tampered with, those that can be read: never others than the columns say."""
        columns: JsonObject = {"seq": self.seq, "hash": self.hash, "kind": self.kind, "run_id": self.run_id}
        return {**columns, **_members(self.body), **columns}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOutcome:
    """What verification found. `head` is the hash of the last good row."""

    rows: int
    head: str
    broken_seq: int | None = None
    why: str = ""

    @property
    def ok(self) -> bool:
        return not self.why


class JournalError(MoonpoolError):
    """The audit trail cannot be written or read. The call or execution it belongs to is refused."""

    code = "journal_unavailable"
    fault = Fault.HOST
    retryable = True

    def _told_elsewhere(self) -> str:
        return "the audit journal cannot be used now; the service's log says why"


class JournalLostError(JournalError):
    """The journal is no longer the file that this process opened: nothing more is called until it is put back."""

    code = "journal_lost"
    retryable = False


class JournalUncertainError(JournalError):
    """Nobody can tell yet whether the record is kept: the database went away while it was written."""

    code = "journal_uncertain"


class Journal(Protocol):
    """Append-only audit trail; must pass `tests/store/test_journal_contract.py`."""

    def record(self, entry: AuditRecord) -> Awaitable[None]:
        """Append `entry`; the result may be awaited and is done when the entry is committed.

        The entry is taken over before this method returns, so a caller that is being cancelled records without
        waiting. Raises JournalError, at once or on await, when the entry cannot be kept, and JournalUncertainError
        when it may have been, or may be yet. Intents, changes of the
        library and an `OutboxRecord` survive a power loss once awaited; other records survive the death of the process.
        An `OutboxRecord` that stands already, byte for byte, is not appended again.
        """
        ...


class JournalReader(Protocol):
    """The audit trail for those who read it; must pass `tests/store/test_journal_readers.py`. Blocking; every method
    raises JournalError. Rows come as they are stored: only `verify` says whether they are ours.
    """

    name: str  # what it is and where, for messages

    def identity(self) -> object:
        """Another value when another journal has taken its place; None while there is none."""
        ...

    def rows(self, *, run_id: str | None = None, tail: int | None = None, after: int = 0) -> Iterator[AuditRow]:
        """In order: all, those of one run, those that came `after` one, and of them the last `tail`."""
        ...

    def run(self, run_id: str) -> list[tuple[str, AuditRow]]:
        """The rows of one execution in order, each with the hash of the row before it."""
        ...

    def ended(self, run_ids: Sequence[str]) -> set[str]:
        """Those of `run_ids` whose end is on record."""
        ...

    def newest_run(self) -> str | None:
        """The execution that began last, other than replays; None when there is none."""
        ...

    def has(self, run_id: str, kind: str) -> bool:
        """Whether there is a record of this kind under this id."""
        ...

    def is_gone(self, process: str) -> bool | None:
        """Whether the process that records name so has ended; None if that is unknown."""
        ...

    def stored_rows(self) -> Iterator[AuditRow]:
        """Every row, also those that no record of ours can be."""
        ...

    def verify(self, *, anchor: tuple[int, str] | None = None) -> ChainOutcome:
        """Walk the whole chain; `anchor` is a (seq, hash) noted earlier."""
        ...


class OpenJournal(Journal, Protocol):
    """A journal whose owner closes it."""

    async def close(self) -> None:
        """Commit all pending entries."""
        ...


class JournalPlace(Protocol):
    """Where a tenant's journal lies."""

    @property
    def process(self) -> str:
        """How its records name this process."""
        ...

    def open(self, *, lazily: bool) -> AbstractAsyncContextManager[OpenJournal]:
        """Open or begin it; `lazily`: at the first record. Entering raises JournalError."""
        ...

    def reader(self) -> JournalReader: ...


def record_bytes(entry: AuditRecord) -> bytes:
    """Canonical JSON of `entry`, ready to be chained."""
    members: JsonObject = {"kind": entry.kind}
    for name in entry.__slots__:
        value: object = getattr(entry, name)
        members[name] = value if isinstance(value, str) else _plain(value)
    return canonical_json(members)


def chain_hash(previous: str, seq: int, body: bytes) -> str:
    """Hash of row `seq` with `body`, chained to the hash of the row before it."""
    return hashlib.sha256(f"{previous}:{seq}:".encode() + body).hexdigest()


def verify_rows(rows: Iterable[AuditRow], *, anchor: tuple[int, str] | None = None) -> ChainOutcome:
    """Walk `rows` from the first; say which row breaks the chain and why.

    `anchor` is a (seq, hash) noted earlier outside the journal; the chain must contain it.
    """
    previous, seq = GENESIS, 0
    anchored = anchor is None
    for row in rows:
        if why := _row_fault(row, seq + 1, previous):
            return ChainOutcome(rows=seq, head=previous, broken_seq=row.seq, why=why)
        previous, seq = row.hash, row.seq
        if anchor is not None and seq == anchor[0]:
            if previous != anchor[1]:
                why = "its hash is not the one noted earlier: the journal was rewritten from here or before"
                return ChainOutcome(rows=seq - 1, head=previous, broken_seq=seq, why=why)
            anchored = True
    if not anchored and anchor is not None:
        why = f"the journal ends at row {seq} but row {anchor[0]} was noted earlier: its end was cut off"
        return ChainOutcome(rows=seq, head=previous, broken_seq=seq + 1, why=why)
    return ChainOutcome(rows=seq, head=previous)


def _row_fault(row: AuditRow, expected_seq: int, previous: str) -> str:
    if row.seq < 1:
        return "no record of ours has its number: another program inserted it"
    if row.seq < expected_seq:
        return "its number stands twice"
    if row.seq != expected_seq:
        return f"row {expected_seq} is missing"
    if row.hash != chain_hash(previous, row.seq, row.body):
        return "its content or the row before it was changed after it was written"
    members = _members(row.body)
    if members.get("kind") != row.kind or members.get("run_id") != row.run_id:
        return "its kind or run_id column does not agree with its content"
    return ""


def _whole_number(text: str) -> int:
    if abs(number := int(text)) > _NUMBER_MAX:
        raise ValueError(f"{text[:40]} is out of range")
    return number


def _no_number(name: str) -> JsonValue:
    raise ValueError(f"{name} is no JSON")


_decode: Final = json.JSONDecoder(parse_int=_whole_number, parse_float=finite_number, parse_constant=_no_number).decode


def _members(body: bytes) -> JsonObject:
    """SECURITY: of a body that no record of ours has, nothing: its readers calculate with what is in it."""
    try:
        members: JsonValue = _decode(body.decode())
    except (ValueError, RecursionError):
        return {}
    return members if isinstance(members, dict) else {}


def _plain(value: object) -> JsonValue:
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, tuple):
        return [str(item) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, dict):
        return {str(key): int(count) for key, count in cast("dict[object, int]", value).items()}
    raise TypeError(f"an audit record cannot hold {type(value).__name__}")
