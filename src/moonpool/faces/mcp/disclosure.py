"""What one connection's model was shown of the tools, in tokens: in envelopes' metrics and, at the end, on record.

Nobody waits for the counting: it is done in a thread, and figures appear in the metrics once they are there. Counted is
what a model reads in order to know the tools: the handshake's instructions, our own three definitions, answers of
searches and definitions. What its code returns is not.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from datetime import UTC, datetime
from threading import Event
from typing import TYPE_CHECKING, Final

from moonpool.catalog.tokens import DefinitionCosts, TokenReport, count_tokens
from moonpool.core.audit import JournalError
from moonpool.core.audit_records import DisclosureRecord, time_stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.core.audit import Journal
    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import Manifest, ToolDefinition

_log = logging.getLogger(__name__)
_CLOSE_S: Final = 2.0


def own_tools_text(tools: Sequence[JsonObject]) -> str:
    """Our own definitions as a model's API takes them, which is what is counted."""
    shown = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in tools]
    return "\n".join(json.dumps(one, separators=(",", ":")) for one in shown)


class Disclosure:
    """Adds up one connection. Used on one event loop."""

    def __init__(self, journal: Journal, principal: str) -> None:
        self._journal, self._principal = journal, principal
        self._costs = DefinitionCosts()
        self._shown: dict[str, int] = {}
        self._once: set[str] = set()
        self._manifest: Manifest | None = None
        self._upfront: tuple[int, int] | None = None  # tools, tokens
        self._executions = 0
        self._stop = Event()
        self._turn = asyncio.Lock()  # one thread at a time counts
        self._tasks: set[asyncio.Task[None]] = set()

    def showed(self, kind: str, text: str, *, once: bool = False) -> None:
        """The model was shown `text`; `once` when clients show it once however often they ask."""
        if once and kind in self._once:
            return
        self._once.add(kind)
        self._soon(lambda: count_tokens(text), lambda tokens: self._add(kind, tokens))

    def listed(self, tools: Sequence[JsonObject]) -> None:
        """The client was given our own definitions."""
        self.showed("own_tools", own_tools_text(tools), once=True)

    def know(self, manifest: Manifest) -> None:
        """These are the tools behind this connection now."""
        if manifest is self._manifest:
            return
        self._manifest = manifest
        tools = tuple(manifest.tools())
        self._soon(lambda: self._count_all(tools), lambda tokens: self._know(manifest, len(tools), tokens))

    def ran(self) -> None:
        """The model had code executed."""
        self._executions += 1

    def metrics(self) -> JsonObject:
        """For an envelope; nothing until the tools are counted."""
        if self._upfront is None:
            return {}
        return {"tokens": self._report(self._upfront[1]).to_json()}

    async def settled(self) -> None:
        """Wait until all is counted."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """Put the figures on record, if the model did anything and they are there in a moment."""
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self.settled()
        except TimeoutError:
            _log.info("what the model was shown is not counted yet, and not on record")
        self._stop.set()
        used = self._executions or self._once - {"manifest", "own_tools"}
        if self._upfront is None or not used:
            return
        tools, upfront = self._upfront
        record = DisclosureRecord(
            run_id=f"disclosure_{uuid.uuid4().hex}",
            at=time_stamp(datetime.now(UTC)),
            principal=self._principal,
            executions=self._executions,
            tools=tools,
            upfront=upfront,
            shown=dict(sorted(self._shown.items())),
        )
        try:
            await self._journal.record(record)
        except JournalError as error:
            _log.error("what the model was shown is not on record: %s", error)

    def _report(self, upfront: int) -> TokenReport:
        return TokenReport(upfront=upfront, spent=sum(self._shown.values()), by_kind=tuple(sorted(self._shown.items())))

    def _add(self, kind: str, tokens: int) -> None:
        self._shown[kind] = self._shown.get(kind, 0) + tokens

    def _know(self, manifest: Manifest, tools: int, tokens: int) -> None:
        if manifest is self._manifest:
            self._upfront = (tools, tokens)

    def _count_all(self, tools: Sequence[ToolDefinition]) -> int:
        total = 0
        for tool in tools:
            if self._stop.is_set():
                break
            total += self._costs.of(tool)
        return total

    def _soon(self, count: Callable[[], int], done: Callable[[int], None]) -> None:
        task = asyncio.ensure_future(self._count(count, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _count(self, count: Callable[[], int], done: Callable[[int], None]) -> None:
        async with self._turn:
            if self._stop.is_set():
                return
            tokens = await asyncio.to_thread(count)
        if not self._stop.is_set():
            done(tokens)
