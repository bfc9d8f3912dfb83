"""One connection over HTTP: the SDK's server in a task of its own, with the gate in front of it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Self

import anyio

from moonpool.server.mcp.protocol_gate import Gate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from mcp.server import Server
    from mcp.shared.message import SessionMessage

_WAITING_MESSAGES_MAX: Final = 512
_log = logging.getLogger(__name__)


class Answers:
    """Hands what the server writes directly to the gate: a stream and a task between them would cost
    event-loop turns.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate, self._closed = gate, False

    async def send(self, item: SessionMessage, /) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        await self._gate.pass_out(item)

    async def aclose(self) -> None:
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class GatedServer:
    """Runs from its creation until `close`. `to_client` sends what belongs to no request."""

    def __init__(self, server: Server[Any], *, to_client: Callable[[bytes], Awaitable[None]]) -> None:
        self._to_server, from_gate = anyio.create_memory_object_stream["SessionMessage"](_WAITING_MESSAGES_MAX)
        self.gate = Gate(
            to_server=self._send,
            to_client=to_client,
            serves=lambda method: server.get_request_handler(method) is not None,
        )
        running = server.run(from_gate, Answers(self.gate), server.create_initialization_options())
        self._task = asyncio.create_task(running)
        self._task.add_done_callback(self._ended)

    @property
    def is_running(self) -> bool:
        return not self._task.done()

    async def close(self) -> None:
        """End it, and every request that runs in it."""
        self._to_server.close()
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _send(self, message: SessionMessage) -> None:
        try:
            await self._to_server.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.gate.abandon()  # it has ended meanwhile

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._to_server.close()
        self.gate.abandon()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the server of a connection has ended", exc_info=error)
