"""Output of running code and progress of its tool calls as progress notifications (A-081 to A-088).

The first is sent at once, then at most ten a second. `progress` is the number of bytes printed so far plus one for each
report of a call, so it only grows; `message` is the newest text. Output that is not sent is still in the result.
"""

from __future__ import annotations

import asyncio
import codecs
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.core.calls import CallProgress, LogMessage

INTERVAL_S: Final = 0.1
MESSAGE_CHARS_MAX: Final = 4_000


class Report(Protocol):
    """Sends one progress notification."""

    async def __call__(self, progress: float, total: float | None = None, message: str | None = None) -> None: ...


class OutputProgress:
    """Collects output and progress, and reports them: a `engine.pending_calls.Listener`."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._decoders: dict[object, codecs.IncrementalDecoder] = {}
        self._text = ""
        self._heard_of = self._reported = 0
        self._heard = asyncio.Event()

    def hear(self, stream: object, data: bytes) -> None:
        """Receive redacted output."""
        if stream not in self._decoders:
            self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = (self._text + self._decoders[stream].decode(data))[-MESSAGE_CHARS_MAX:]
        self._heard_of += len(data)
        self._heard.set()

    def hear_progress(self, told: CallProgress) -> None:
        """Receive the progress of a call, as a separate line."""
        self._text = f"{self._text}{told}\n"[-MESSAGE_CHARS_MAX:]
        self._heard_of += 1
        self._heard.set()

    def hear_log(self, told: LogMessage) -> None:
        """Nothing: what servers log while code calls them is the operator's."""

    @asynccontextmanager
    async def reporting(self) -> AsyncGenerator[None]:
        """Report until the block ends, then once more if it ended normally. Nothing is reported after it (A-087)."""
        pump = asyncio.ensure_future(self._pump())
        try:
            yield
        finally:
            pump.cancel()
            await asyncio.wait({pump})
        await self._send()

    async def _pump(self) -> None:
        while True:
            await self._heard.wait()
            self._heard.clear()
            await self._send()
            await asyncio.sleep(INTERVAL_S)

    async def _send(self) -> None:
        if self._heard_of > self._reported:
            self._reported, text, self._text = self._heard_of, self._text, ""
            await self._report(self._reported, message=text)
