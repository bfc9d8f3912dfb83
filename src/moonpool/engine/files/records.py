"""Transfers in the audit journal: which file, which way, how many bytes, which digest, how it ended. Never contents."""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from moonpool.core.audit_records import FileTransferRecord, time_stamp
from moonpool.core.errors import MoonpoolError
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractContextManager

    from moonpool.core.audit import Journal
    from moonpool.redaction.redactor import Redactor


@dataclass(slots=True)
class TransferTally:
    """What passed so far. The digest is set when all has."""

    size: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRecorder:
    """Records the transfers of one session."""

    journal: Journal
    redactor: Redactor
    principal: str
    session_id: str
    under_way: Callable[[], AbstractContextManager[None]] = nullcontext  # from before a transfer until it is recorded

    @asynccontextmanager
    async def recording(self, direction: str, what: str, path: str) -> AsyncGenerator[TransferTally]:
        """Yield a tally; put it on record whatever happens. Raises JournalError, and the transfer does not count."""
        tally = TransferTally()
        ended_by = "Cancelled"
        with self.under_way():
            try:
                yield tally
                ended_by = ""
            except MoonpoolError as error:
                ended_by = error.code
                raise
            except Exception as error:
                ended_by = type(error).__name__
                raise
            finally:
                await finish(self._record(direction, what, path, tally, ended_by))

    async def _record(self, direction: str, what: str, path: str, tally: TransferTally, ended_by: str) -> None:
        await self.journal.record(
            FileTransferRecord(
                run_id=f"transfer_{uuid.uuid4().hex}",
                at=time_stamp(datetime.now(UTC)),
                principal=self.principal,
                session_id=self.session_id,
                direction=direction,
                what=what,
                path=self.redactor.text(path, Counter()),
                bytes=tally.size,
                digest=f"sha256:{tally.sha256}" if tally.sha256 else "",
                error_type=ended_by,
            )
        )
