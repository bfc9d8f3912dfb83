"""The queue of approvals and the approval grants, opened for one command or one approver."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.features.approvals.notification import Announcer
from moonpool.features.approvals.queue_approver import QueueApprover
from moonpool.store.process_marks import own_mark

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from contextlib import AbstractContextManager

    from moonpool.features.approvals.model import Answerer, ApprovalGrant, ApprovalRequest
    from moonpool.features.approvals.service import Approvals, ApprovalStorage, GrantTerms


@dataclass(frozen=True, slots=True)
class KeptGrants:
    """The approval grants of the command line's tenant, opened for each change. Blocking."""

    opened: Callable[[], AbstractContextManager[Approvals]]

    def give(
        self, request: ApprovalRequest, answerer: Answerer, terms: GrantTerms, *, saw_whole: bool
    ) -> ApprovalGrant:
        """See `moonpool.features.approvals.service.Approvals.give`."""
        with self.opened() as approvals:
            return approvals.give(request, answerer, terms, saw_whole=saw_whole)

    def remove(self, given: ApprovalGrant, answerer: Answerer) -> None:
        """Remove a grant that was given too late."""
        with self.opened() as approvals:
            approvals.remove_grant(given.answer_id, answerer)


@asynccontextmanager
async def open_queue(
    store: ApprovalStorage, report: Callable[[str], None], command: str, environ: Mapping[str, str]
) -> AsyncGenerator[QueueApprover]:
    """Yield the approver whose questions `moonpool approvals` answers; `store` is closed with it.

    `report` is told of each question; `command` is started for each, with `environ` (`Settings.approval_command`).
    """
    announcer = Announcer(command, environ)
    try:
        async with QueueApprover(store, owner=own_mark(), report=report, announcer=announcer) as approver:
            yield approver
    finally:
        await asyncio.to_thread(store.close)
