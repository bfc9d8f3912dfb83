"""What a server says while it works on a call, for the client that made it: progress and log messages, in their order.

SECURITY: both are the server's text. They are redacted, a message above a size is left out, and so is what comes faster
than the client reads, or than `LOGS_PER_SECOND_MAX`: the queue is bounded. Progress that does not grow is left out too
(A-085).
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
import msgspec
from mcp_types import LOG_LEVEL_META_KEY

from moonpool.core.calls import LogMessage
from moonpool.core.phrases import storable
from moonpool.redaction.redactor import Tally
from moonpool.server.mcp.input_rounds import SEALED_FROM
from moonpool.upstreams.server_logging import LEVELS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcp.server.context import ServerRequestContext

    from moonpool.core.calls import CallProgress
    from moonpool.redaction.redactor import Redactor
    from moonpool.server.mcp.progress import Report

    Context = ServerRequestContext[Any, Any]

WAITING_MAX: Final = 256
LOG_BYTES_MAX: Final = 64 * 1024
LOGS_PER_SECOND_MAX: Final = 100
"""Log messages of one call."""
_LOGGER_CHARS_MAX: Final = 200
_UNCHOSEN: Final = "info"
_TOO_LARGE: Final = "(a log message above 64 KiB was left out)"


def log_level(ctx: Context, chosen: str) -> str:
    """From which level on the client of this request wants log messages; empty: it wants none.

    Up to 2025-11-25 a client sets it for its connection (`chosen`).
    """
    if ctx.protocol_version < SEALED_FROM:
        return chosen or _UNCHOSEN
    wanted: Any = (ctx.meta or {}).get(LOG_LEVEL_META_KEY)
    return wanted if wanted in LEVELS else ""


class CallRelay:
    """Hears a call (`engine.pending_calls.Listener`) and tells the client of one request."""

    def __init__(self, ctx: Context, redactor: Redactor, *, report: Report | None, level: str) -> None:
        """`report`: where progress goes, if the client asked for it; `level`: see `log_level`."""
        self._ctx, self._redactor, self._report = ctx, redactor, report
        self._from = LEVELS.index(level) if level else len(LEVELS)
        self._waiting: deque[CallProgress | LogMessage] = deque(maxlen=WAITING_MAX)
        self._news = asyncio.Event()
        self._reached = float("-inf")
        self._second, self._logs = 0, 0

    def hear(self, stream: object, data: bytes, /) -> None:
        """Nothing: no code prints here."""

    def hear_progress(self, told: CallProgress) -> None:
        if self._report is not None and told.progress > self._reached:
            self._reached = told.progress
            self._put(told)

    def hear_log(self, told: LogMessage) -> None:
        if told.level not in LEVELS or LEVELS.index(told.level) < self._from:
            return
        if (second := int(asyncio.get_running_loop().time())) != self._second:
            self._second, self._logs = second, 0
        self._logs += 1
        if self._logs <= LOGS_PER_SECOND_MAX:
            self._put(told)

    @asynccontextmanager
    async def telling(self) -> AsyncGenerator[None]:
        """Tell the client until the block ends, and then what is left. Nothing is told after it (A-087)."""
        pump = asyncio.ensure_future(self._pump())
        try:
            yield
        finally:
            pump.cancel()
            await asyncio.wait({pump})
        await self._tell()

    def _put(self, told: CallProgress | LogMessage) -> None:
        self._waiting.append(told)  # the oldest gives way
        self._news.set()

    async def _pump(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self._tell()

    async def _tell(self) -> None:
        while self._waiting:
            told = self._waiting.popleft()
            if isinstance(told, LogMessage):
                await self._tell_log(told)
            elif self._report is not None:
                message = self._redactor.text(storable(told.message), Tally())
                await self._report(told.progress, told.total, message or None)

    async def _tell_log(self, told: LogMessage) -> None:
        try:
            encoded = msgspec.json.encode(told.data)
        except (ValueError, TypeError, RecursionError):
            return
        data: Any = _TOO_LARGE
        if len(encoded) <= LOG_BYTES_MAX:
            data = self._redactor.json(told.data, Tally(), encoded=encoded)
        if data is None:
            data = "null"  # the SDK leaves None out, and a message must have data
        name = self._redactor.text(storable(told.logger[:_LOGGER_CHARS_MAX]), Tally())
        level: Any = told.level
        params = types.LoggingMessageNotificationParams(level=level, data=data, logger=name or None)
        await self._ctx.session.send_notification(
            types.LoggingMessageNotification(params=params), related_request_id=self._ctx.request_id
        )
