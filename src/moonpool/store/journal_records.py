"""Records from threads, written through the journal that the event loop has open."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.core.audit_records import AuditRecord


@dataclass(frozen=True, slots=True)
class JournalRecords:
    """Waits until a record is written. For threads other than the event loop's. Raises JournalError."""

    loop: asyncio.AbstractEventLoop
    write: Callable[[AuditRecord], Awaitable[None]]

    def __call__(self, record: AuditRecord) -> None:
        asyncio.run_coroutine_threadsafe(self._write(record), self.loop).result()

    async def _write(self, record: AuditRecord) -> None:
        await self.write(record)
