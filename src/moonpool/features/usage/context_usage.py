"""What one connection's model was shown of the tools, in tokens: in envelopes' metrics and, at the end, on record.

Counted is what a model reads in order to know the tools: the handshake's instructions, our own definitions, answers of
searches and definitions. What its code returns is not. The counting is done in a thread, by the book
(`moonpool.features.usage.token_accounting`); a search never waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from moonpool.core.audit import JournalError
from moonpool.core.audit_records import ContextUsageRecord, time_stamp
from moonpool.features.usage.model import TokenFigures

if TYPE_CHECKING:
    from moonpool.core.audit import Journal
    from moonpool.features.usage.model import ToolTokens
    from moonpool.features.usage.token_accounting import TokenAccounting
    from moonpool.tools.snapshot import ToolSnapshot

_log = logging.getLogger(__name__)
_CLOSE_S: Final = 2.0
_UNASKED: Final = frozenset({"manifest", "own_tools"})


class ContextUsage:
    """Adds up one connection. Used on one event loop; close it."""

    def __init__(self, accounting: TokenAccounting, journal: Journal, principal: str) -> None:
        self._accounting, self._journal, self._principal = accounting, journal, principal
        self._shown: dict[str, int] = {}
        self._kinds: set[str] = set()
        self._snapshot: ToolSnapshot | None = None
        self._executions = 0
        self._closed = False
        self._turn = asyncio.Lock()  # one thread at a time counts
        self._tasks: set[asyncio.Task[None]] = set()
        accounting.connections.add(self)

    def showed(self, kind: str, text: str, *, once: bool = False) -> None:
        """The model was shown `text`; `once` when clients show it once however often they ask."""
        if once and kind in self._kinds:
            return
        self._kinds.add(kind)
        task = asyncio.ensure_future(self._count(kind, text, keep=once))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def know(self, snapshot: ToolSnapshot) -> None:
        """These are the tools behind this connection now."""
        self._snapshot = snapshot
        self._accounting.now(snapshot)

    def ran(self) -> None:
        """The model had code executed."""
        self._executions += 1

    def figures(self, tools: ToolTokens) -> TokenFigures:
        """Of this connection so far, as far as it is counted."""
        return TokenFigures(tools=tools, by_kind=dict(self._shown), executions=self._executions)

    def figures_now(self) -> TokenFigures:
        """The same with the tools that are behind it now."""
        return self.figures(self._accounting.now(self._snapshot))

    async def settled(self, within_s: float) -> bool:
        """Wait until all that was shown is counted, or the time is over; whether it is."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=within_s)
        return not self._tasks

    async def close(self) -> None:
        """Put the figures on record, if the model did anything and they are there in a moment."""
        self._accounting.connections.discard(self)
        used = self._executions or self._kinds - _UNASKED
        if used and self._snapshot is not None:
            settled = await self.settled(_CLOSE_S)
            tools = await self._accounting.known(self._snapshot, _CLOSE_S)
            if settled and not tools.uncounted:
                await self._record(tools)
            else:
                _log.info("what the model was shown is not counted yet, and not on record")
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _record(self, tools: ToolTokens) -> None:
        record = ContextUsageRecord(
            run_id=f"disclosure_{uuid.uuid4().hex}",
            at=time_stamp(datetime.now(UTC)),
            principal=self._principal,
            executions=self._executions,
            tools=tools.tools,
            upfront=tools.upfront,
            shown=dict(sorted(self._shown.items())),
        )
        try:
            await self._journal.record(record)
        except JournalError as error:
            _log.error("what the model was shown is not on record: %s", error)

    async def _count(self, kind: str, text: str, *, keep: bool) -> None:
        async with self._turn:
            if self._closed:
                return
            tokens = await asyncio.to_thread(self._accounting.count, text, keep=keep)
        self._shown[kind] = self._shown.get(kind, 0) + tokens
