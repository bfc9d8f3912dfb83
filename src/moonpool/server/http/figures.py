"""Metrics of a serving process or a data folder, rendered on request.

One reader at a time works; requests that arrive meanwhile, or within `FRESH_S`, get the same text, so frequent requests
are cheap. `moonpool.server.http.metrics` serves it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from moonpool.core.version import VERSION
from moonpool.features.usage.statistics import FollowedJournal
from moonpool.server.http.exposition import Exposed, PoolGauges, prometheus_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.core.audit import JournalReader
    from moonpool.engine.runtime import Runtime
    from moonpool.features.usage.measures import Measures
    from moonpool.features.usage.model import ToolTokens

FRESH_S: Final = 1.0
SERVED_RECORDS: Final = 20_000
"""How many of the newest records a server reads at first, so that this takes tenths of a second."""


class Metrics:
    """Renders the text. For use on one event loop."""

    def __init__(
        self,
        journal: JournalReader,
        expose: Callable[[Measures], Exposed],
        *,
        records: int = SERVED_RECORDS,
        fresh_s: float = FRESH_S,
    ) -> None:
        self._journal, self._expose, self._fresh_s = FollowedJournal(journal, records=records), expose, fresh_s
        self._making: asyncio.Task[None] | None = None
        self._text = ""
        self._made_at = 0.0

    async def text(self) -> str:
        """The metrics of this moment in Prometheus text format. Raises JournalError.

        INVARIANT: one thread at a time reads, also when the first request was cancelled: a thread cannot be.
        """
        if self._making is None and (not self._text or self._now() - self._made_at >= self._fresh_s):
            self._making = asyncio.ensure_future(self._make())
            self._making.add_done_callback(self._made)
        if self._making is not None:
            await asyncio.shield(self._making)
        return self._text

    async def _make(self) -> None:
        since = self._now()
        recorded = await asyncio.to_thread(self._journal.measures)
        self._text, self._made_at = prometheus_text(self._expose(recorded)), since

    def _made(self, making: asyncio.Task[None]) -> None:
        self._making = None
        if not making.cancelled():
            making.exception()  # retrieved here because perhaps nobody awaits it any more

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def metrics_of_runtime(runtime: Runtime, journal: JournalReader, *, fresh_s: float = FRESH_S) -> Metrics:
    """Live metrics of a serving process, and the metrics of all records."""

    def expose(recorded: Measures) -> Exposed:
        pool, tools = runtime.statistics(), runtime.tool_registry
        listed = tools.current is not None or not tools.server_ids
        return Exposed(
            version=VERSION,
            recorded=recorded,
            configuration=runtime.tokens.now(tools.current) if listed else None,
            open=[one.figures_now() for one in runtime.tokens.connections],
            pool=PoolGauges(
                alive=pool.alive, ready=pool.ready, opening=pool.opening, waiting=pool.waiting, refused=pool.refused
            ),
        )

    return Metrics(journal, expose, fresh_s=fresh_s)


def metrics_of_records(journal: JournalReader, configuration: ToolTokens | None, *, records: int) -> Metrics:
    """Metrics of a data folder. The caller counts `configuration` once."""

    def expose(recorded: Measures) -> Exposed:
        return Exposed(version=VERSION, recorded=recorded, configuration=configuration)

    return Metrics(journal, expose, records=records)
