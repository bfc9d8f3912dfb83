"""A child process as an MCP transport: the stream pair that the SDK's dispatcher reads and writes.

There is no task between the process and the dispatcher: its read loop awaits the next line itself, and a caller's
request is written by the caller's own task. Lines that are no MCP messages are skipped, counted and remembered, so
that a server which prints a banner works and one which prints nothing else is named as such. Whatever answers no
request of ours is throttled.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCRequest

from moonpool.core.phrases import said
from moonpool.net.message_limits import RESULT_BYTES_MAX
from moonpool.upstreams.frames import decode_frame, encode_frame, oversized_answer
from moonpool.upstreams.line_buffer import OversizedLine
from moonpool.upstreams.streams import EndOfMessages

if TYPE_CHECKING:
    from mcp.types import JSONRPCMessage

    from moonpool.upstreams.message_rate import Intake
    from moonpool.upstreams.process import ServerProcess

GARBAGE_LINES_MAX: Final = 10_000
"""A server that printed so many lines of garbage is not an MCP server; the connection ends."""


class LineReader(EndOfMessages):
    """The dispatcher's read stream."""

    def __init__(self, process: ServerProcess, intake: Intake) -> None:
        super().__init__()
        self.garbage_lines = 0
        self.garbage_sample = ""
        self._process = process
        self._intake = intake
        self._decoded: deque[JSONRPCMessage] = deque()

    async def receive(self) -> SessionMessage:
        while not self._decoded:
            if self.garbage_lines > GARBAGE_LINES_MAX:
                self.ended.set()
                raise anyio.EndOfStream
            try:
                line = await self._process.receive_line()
            except anyio.EndOfStream:
                self.ended.set()
                raise
            messages = self._messages(line)
            self._decoded.extend(messages)
            await self._intake.took(messages, RESULT_BYTES_MAX if isinstance(line, OversizedLine) else len(line))
        return SessionMessage(self._decoded.popleft())

    def _messages(self, line: bytes | OversizedLine) -> list[JSONRPCMessage]:
        if isinstance(line, OversizedLine):
            answer = oversized_answer(line.head, line.tail)
            return [] if answer is None else [answer]
        messages = decode_frame(line)
        if not messages and line.strip():
            self.garbage_lines += 1
            self.garbage_sample = self.garbage_sample or said(line[:400].decode(errors="replace"), 200)
        return messages


class LineWriter:
    """The dispatcher's write stream. SECURITY: nothing but MCP messages is ever written to a server (B-005)."""

    def __init__(self, process: ServerProcess, intake: Intake) -> None:
        self._process, self._intake = process, intake

    async def send(self, item: SessionMessage, /) -> None:
        self._intake.sent(item.message)
        # A cancel notification must not wait for a server that hangs and reads nothing.
        await self._process.send(encode_frame(item.message), patient=isinstance(item.message, JSONRPCRequest))

    async def aclose(self) -> None:
        """Nothing to do: `open_process` closes stdin as the first step of the shutdown order."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None
