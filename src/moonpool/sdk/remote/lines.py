"""The lines of one execution, read from a connection, and from another behind the last line where one breaks.

INVARIANT: every line is given once, in order; what the service no longer has is told by it (`MissedLine`).
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import msgspec

from moonpool.core.errors import MoonpoolError
from moonpool.sdk.remote.connection import READ_S, translated
from moonpool.sdk.remote.errors import ServiceAnswerError, ServiceUnavailableError
from moonpool.server.http.sessions.lines import LINE_BYTES_MAX, AliveLine, ErrorLine, Line, PrintedLine, ResultLine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from moonpool.sdk.remote.connection import Connection
    from moonpool.server.http.sessions.messages import RunCode

AWAY_S: Final = 60.0
"""How long the service may be away before an execution is given up."""
_WAIT_S: Final = 0.1
_WAIT_S_MAX: Final = 3.0
_decoder: Final = msgspec.json.Decoder(Line)


class ExecutionLines:
    """Sends the code with the first read."""

    def __init__(
        self, connection: Connection, session_path: str, asked: RunCode, *, away_s: float | None = None
    ) -> None:
        """`asked` has an id, so that the code runs once however often it is sent. The service may be away for `away_s`
        (`AWAY_S`); 0: code is sent once, and what breaks is not read on.
        """
        assert asked.id is not None
        self._connection, self._asked = connection, asked
        self._away_s = AWAY_S if away_s is None else away_s
        self.path = f"{session_path}/executions"
        self._seq = 0
        self._opened: AsyncExitStack | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._rest = bytearray()
        self.is_sent = False  # the service may know the execution
        self.is_over = False

    @property
    def execution_id(self) -> str:
        """What the execution is called."""
        assert self._asked.id is not None
        return self._asked.id

    async def several(self) -> list[Line]:
        """The next lines, none after the last. Raises MoonpoolError; ServiceError when the service stays away."""
        loop = asyncio.get_running_loop()
        away_at, wait = loop.time() + self._away_s, _WAIT_S
        while not self.is_over:
            try:
                lines = await self._read()
                if lines:
                    return lines
                if lines is not None:
                    away_at, wait = loop.time() + self._away_s, _WAIT_S
            except ServiceUnavailableError:
                await self._drop()
                if loop.time() + wait > away_at:
                    self.is_over = True
                    raise
                await asyncio.sleep(wait)
                wait = min(2 * wait, _WAIT_S_MAX)
            except MoonpoolError:
                await self._drop()
                self.is_over = True
                raise
            except BaseException:  # cancelled: it can be read on
                await self._drop()
                raise
        return []

    async def close(self) -> None:
        """Read no more."""
        await self._drop()

    async def _read(self) -> list[Line] | None:
        """What comes next: lines; none of them for a sign of life; None for a part of a line."""
        if self._pieces is None:
            await self._open()
        assert self._pieces is not None
        with translated():
            piece = await anext(self._pieces, None)
        if piece is None:
            raise ServiceUnavailableError("the service broke off what it told of an execution")
        self._rest += piece
        if len(self._rest) > LINE_BYTES_MAX:
            self.is_over = True
            raise _unreadable("a line that is too long")
        if b"\n" not in piece:
            return None
        *whole, rest = self._rest.split(b"\n")
        self._rest = bytearray(rest)
        lines = [line for text in whole if text for line in self._line(bytes(text))]
        if self.is_over:
            await self._drop()
        return lines

    def _line(self, text: bytes) -> list[Line]:
        try:
            line = _decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.is_over = True
            raise _unreadable("something else than lines of an execution") from None
        if isinstance(line, AliveLine) or line.seq <= self._seq:
            return []
        self._seq = line.seq
        self.is_over = isinstance(line, ResultLine | PrintedLine | ErrorLine)
        return [line]

    async def _open(self) -> None:
        stack = AsyncExitStack()
        self.is_sent = True
        try:
            if self._seq:
                events = f"{self.path}/{self.execution_id}/events"
                opened = self._connection.answer("GET", events, params={"after": self._seq})
            else:
                opened = self._connection.answer("POST", self.path, content=msgspec.json.encode(self._asked))
            response = await stack.enter_async_context(opened)
        except BaseException:
            await stack.aclose()
            raise
        self._rest.clear()
        self._opened, self._pieces = stack, response.aiter_raw()

    async def _drop(self) -> None:
        opened, self._opened, self._pieces = self._opened, None, None
        if opened is not None:
            try:
                async with asyncio.timeout(READ_S):
                    await opened.aclose()
            except Exception:  # noqa: BLE001  it is dropped
                pass


def _unreadable(what: str) -> ServiceAnswerError:
    return ServiceAnswerError(f"the service tells {what}; it is newer than this Moonpool, or none")
