"""Records as the journal's tables take them, and which of them wait for the disk. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from moonpool.core.audit import record_bytes
from moonpool.core.audit_records import (
    AdministrationRecord,
    CallIntentRecord,
    CallOutcomeRecord,
    CallsRefusedRecord,
    ExecutionEndRecord,
    ExecutionLostRecord,
    LibraryIntentRecord,
    LibraryRecord,
    OutboxRecord,
)

if TYPE_CHECKING:
    from moonpool.core.audit_records import AuditRecord


_ONCE: Final = OutboxRecord | ExecutionLostRecord
"""May come twice, with the same bytes."""


class Entry(NamedTuple):
    """One encoded record to append."""

    kind: str
    run_id: str
    body: bytes
    once: bool = False  # not appended if an identical record exists


def entry_of(record: AuditRecord) -> Entry:
    return Entry(record.kind, record.run_id, record_bytes(record), once=isinstance(record, _ONCE))


def waits_for_disk(record: AuditRecord) -> bool:
    """Whether it survives a power loss once it is acknowledged. Others survive the end of the process."""
    return isinstance(
        record, CallIntentRecord | LibraryIntentRecord | LibraryRecord | AdministrationRecord | OutboxRecord
    )


def ends_something(record: AuditRecord) -> bool:
    """Whether its beginning is on record already: it is taken also when too many wait."""
    return isinstance(record, CallOutcomeRecord | CallsRefusedRecord | ExecutionEndRecord)
