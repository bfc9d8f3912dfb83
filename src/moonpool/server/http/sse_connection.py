"""One stream of the transport of revision 2024-11-05, and the server behind it."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, Final

from moonpool.server.mcp.gated_server import GatedServer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from mcp.server import Server

KEEP_ALIVE_S: Final = 15.0
_UNSENT_MAX: Final = 64


class SseConnection:
    """One stream. When it breaks, calls in progress go on to their end, which nobody hears."""

    def __init__(self, server: Server[Any]) -> None:
        self.session_id = str(uuid.uuid4())
        self._server = GatedServer(server, to_client=self.send)
        self._unsent: asyncio.Queue[bytes | None] = asyncio.Queue(_UNSENT_MAX)
        self.left = False  # nobody reads any more

    @property
    def idle(self) -> asyncio.Event:
        return self._server.gate.idle

    async def take(self, value: object, ended: Callable[[], None]) -> None:
        """Take one decoded message or batch. `ended` is called when nothing of it runs any more."""
        try:
            await self._server.gate.take(value, _Reply(self.send, ended))
        except BaseException:
            ended()
            raise

    async def send(self, line: bytes, /) -> None:
        """A message of the server; waits while the client is slow."""
        if not self.left:
            await self._unsent.put(line)

    async def frames(self, path: str) -> AsyncGenerator[bytes]:
        """What the client is sent."""
        yield f"event: endpoint\ndata: {path}?sessionId={self.session_id}\n\n".encode()
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    line = await self._unsent.get()
            except TimeoutError:
                yield b": keep-alive\n\n"
                continue
            if line is None:
                return
            yield b"event: message\ndata: " + line.rstrip(b"\n") + b"\n\n"

    def leave(self) -> None:
        """The client is gone, or has to go. The stream ends; what runs goes on."""
        if self.left:
            return
        self.left = True
        while not self._unsent.empty():  # so that nobody waits for room
            self._unsent.get_nowait()
        self._unsent.put_nowait(None)

    async def wait_idle(self) -> None:
        """Wait until nothing runs, then end. Meanwhile nobody waits for room among what is not sent any more."""
        dropping = asyncio.create_task(self._drop())
        await self._server.gate.idle.wait()
        await self._server.close()
        dropping.cancel()

    async def _drop(self) -> None:
        while True:
            await self._unsent.get()

    async def close(self) -> None:
        """End its calls."""
        self.leave()
        await self._server.close()


class _Reply:
    """The reply to one message, on the stream of all."""

    takes_requests = True

    def __init__(self, send: Callable[[bytes], Awaitable[None]], on_end: Callable[[], None]) -> None:
        self._send, self._on_end = send, on_end

    async def send(self, line: bytes, /) -> None:
        await self._send(line)

    def end(self) -> None:
        """The stream stays."""
        self._on_end()
