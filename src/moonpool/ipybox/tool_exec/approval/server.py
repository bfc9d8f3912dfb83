"""`ApprovalChannel`: questions to one approval client, as JSON-RPC over its WebSocket."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from starlette.websockets import WebSocketDisconnect

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

OPEN_MAX: Final = 256
"""Questions that may wait at once."""
_NO_ANSWER: Final = 1003  # close code: what came is no answer


class ApprovalChannel:
    """Asks the approval client that is connected, if approval is required. Used on one event loop."""

    def __init__(self, approval_required: bool = False, approval_timeout: float | None = None) -> None:
        """`approval_timeout`: how many seconds a question waits; None: for ever."""
        self.approval_required, self.approval_timeout = approval_required, approval_timeout
        self._websocket: WebSocket | None = None
        self._requests: dict[str, asyncio.Future[bool]] = {}
        self._closed = asyncio.Event()
        self._closed.set()

    @property
    def open(self) -> bool:
        """Whether an approval client is connected."""
        return not self._closed.is_set()

    async def join(self, timeout: float = 5) -> None:
        """Wait until no client is connected. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            await self._closed.wait()

    async def connect(self, websocket: WebSocket) -> None:
        """Accept a client and take its answers until it has gone. One that sends anything else is disconnected.

        Raises RuntimeError while another client is connected.
        """
        if self.open:
            raise RuntimeError("another approval client is connected")
        self._closed.clear()
        try:
            await websocket.accept()
            self._websocket = websocket
            while True:
                self._take(await websocket.receive_json())
        except WebSocketDisconnect:
            pass
        except (ValueError, KeyError, TypeError, RecursionError):
            with suppress(RuntimeError):
                await websocket.close(_NO_ANSWER)
        finally:
            self._drop()

    async def disconnect(self) -> None:
        """Disconnect the client. Open questions raise RuntimeError."""
        websocket = self._websocket
        self._drop()
        if websocket is not None:
            with suppress(RuntimeError):
                await websocket.close()

    async def request(self, server_name: str, tool_name: str, tool_args: dict[str, Any]) -> bool:
        """Whether a call is accepted; True at once where no approval is required.

        Raises RuntimeError when no client is connected or it has gone, TimeoutError.
        """
        if not self.approval_required:
            return True
        if self._websocket is None:
            raise RuntimeError("Approval channel not connected")
        if len(self._requests) >= OPEN_MAX:
            raise RuntimeError(f"{OPEN_MAX} approval requests are open already; answer them first")
        request_id, answer = str(uuid4()), asyncio.get_running_loop().create_future()
        self._requests[request_id] = answer
        params = {"server_name": server_name, "tool_name": tool_name, "tool_args": tool_args}
        try:
            async with asyncio.timeout(self.approval_timeout):
                await self._websocket.send_json(
                    {"jsonrpc": "2.0", "method": "approve", "params": params, "id": request_id}
                )
                return await answer
        except WebSocketDisconnect:
            raise RuntimeError("Approval channel disconnected") from None
        finally:
            self._requests.pop(request_id, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # seen

    def _take(self, answer: Any) -> None:
        """Take an answer; the first to each question counts. Raises TypeError, KeyError."""
        accepted = answer["result"] if "error" not in answer else False
        if not isinstance(accepted, bool):
            raise TypeError("an answer is true or false")
        waiting = self._requests.get(answer["id"])
        if waiting is not None and not waiting.done():
            waiting.set_result(accepted)

    def _drop(self) -> None:
        self._websocket = None
        for waiting in self._requests.values():
            if not waiting.done():
                waiting.set_exception(RuntimeError("Approval channel disconnected"))
        self._requests.clear()
        self._closed.set()
