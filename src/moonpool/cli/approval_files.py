"""The approval files of a data folder, opened for one command. Blocking."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from moonpool.core.audit_records import OutboxRecord
    from moonpool.features.approvals.model import Answerer, ApprovalGrant, ApprovalRequest
    from moonpool.features.approvals.service import Approvals, GrantTerms


@dataclass(frozen=True, slots=True)
class GrantFiles:
    """The approval grants in a data folder's file, which the first grant creates. Blocking."""

    data: Path

    def give(
        self, request: ApprovalRequest, answerer: Answerer, terms: GrantTerms, *, saw_whole: bool
    ) -> ApprovalGrant:
        """See `moonpool.features.approvals.service.Approvals.give`."""
        with opened_approvals(self.data) as approvals:
            return approvals.give(request, answerer, terms, saw_whole=saw_whole)

    def remove(self, given: ApprovalGrant, answerer: Answerer) -> None:
        """Remove a grant that was given too late."""
        with opened_approvals(self.data) as approvals:
            approvals.remove_grant(given.answer_id, answerer)


@contextmanager
def opened_approvals(data: Path) -> Generator[Approvals]:
    """Yield the queue and the approval grants of a data folder. Blocking."""
    from moonpool.features.approvals.service import Approvals
    from moonpool.features.approvals.table import ApprovalStore
    from moonpool.store.paths import approvals_path, journal_path
    from moonpool.store.process_marks import is_gone

    store = ApprovalStore(approvals_path(data), is_gone=is_gone)
    try:
        yield Approvals(store, lambda record: put_on_record(journal_path(data), record))
    finally:
        store.close()


def put_on_record(path: Path, record: OutboxRecord) -> None:
    """Write one record into the journal at `path`. Raises JournalError."""
    from moonpool.store.journal_file import JournalFile, entry_of

    journal = JournalFile(path)
    try:
        journal.append([entry_of(record)], durable=True)
    finally:
        journal.close()
