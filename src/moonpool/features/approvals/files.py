"""The files of a data folder that hold approvals, opened for one command or one approver."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from moonpool.features.approvals.notification import Announcer
from moonpool.features.approvals.queue_approver import QueueApprover
from moonpool.features.approvals.service import Approvals, GrantTerms
from moonpool.features.approvals.table import ApprovalStore
from moonpool.store.journals import put_on_record
from moonpool.store.paths import approvals_path
from moonpool.store.process_marks import is_gone, own_mark

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping
    from pathlib import Path

    from moonpool.features.approvals.model import Answerer, ApprovalGrant, ApprovalRequest
    from moonpool.settings import Settings


@dataclass(frozen=True, slots=True)
class GrantFiles:
    """The approval grants in a data folder's file, which the first grant creates. Blocking."""

    settings: Settings
    data: Path

    def give(
        self, request: ApprovalRequest, answerer: Answerer, terms: GrantTerms, *, saw_whole: bool
    ) -> ApprovalGrant:
        """See `moonpool.features.approvals.service.Approvals.give`."""
        with opened_approvals(self.settings, self.data) as approvals:
            return approvals.give(request, answerer, terms, saw_whole=saw_whole)

    def remove(self, given: ApprovalGrant, answerer: Answerer) -> None:
        """Remove a grant that was given too late."""
        with opened_approvals(self.settings, self.data) as approvals:
            approvals.remove_grant(given.answer_id, answerer)


@contextmanager
def opened_approvals(settings: Settings, data: Path) -> Generator[Approvals]:
    """Yield the queue and the approval grants of a data folder. Blocking."""
    store = ApprovalStore(approvals_path(data), is_gone=is_gone)
    try:
        yield Approvals(store, partial(put_on_record, settings, data))
    finally:
        store.close()


@asynccontextmanager
async def open_queue(
    data: Path, report: Callable[[str], None], command: str, environ: Mapping[str, str]
) -> AsyncGenerator[QueueApprover]:
    """Yield the approver whose questions `moonpool approvals` answers.

    `report` is told of each question; `command` is started for each, with `environ` (`Settings.approval_command`).
    """
    store = ApprovalStore(approvals_path(data), is_gone=is_gone)
    announcer = Announcer(command, environ)
    try:
        async with QueueApprover(store, owner=own_mark(), report=report, announcer=announcer) as approver:
            yield approver
    finally:
        await asyncio.to_thread(store.close)
