"""Bounds messages that one connection receives beside the answers it waits for, where messages are decoded here (stdio,
legacy SSE).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

from moonpool.net.throttle import cost, unasked

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp.types import JSONRPCMessage


class Intake:
    """Requests that were sent, against messages that came."""

    def __init__(self) -> None:
        self._owed = 0
        self._unasked = unasked()

    def sent(self, message: JSONRPCMessage) -> None:
        """An answer to a request costs nothing."""
        self._owed += isinstance(message, JSONRPCRequest)

    async def took(self, messages: Collection[JSONRPCMessage], size_bytes: int) -> None:
        """Wait if too many messages came that answer no request; `messages` is what so many bytes were decoded to."""
        unowed = 0
        for message in messages:
            if self._owed and isinstance(message, JSONRPCResponse | JSONRPCError):
                self._owed -= 1
            else:
                unowed += 1
        if unowed or not messages:
            await self._unasked.spend(cost(size_bytes) + max(unowed - 1, 0))
