"""Profiles whose every request stands alone: no session, no handshake, and nothing of one request meets another.

They answer JSON-RPC themselves, without the SDK's server, because their answers are fixed byte by byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from moonpool.server.mcp.messages import Payload, Request


@runtime_checkable
class StatelessTools(Protocol):
    """The tools of one caller."""

    @property
    def is_busy(self) -> bool:
        """Whether an execution goes on; `close` would end it."""
        ...

    def prepare(self) -> None:
        """Begin in the background what the first call would wait for."""
        ...

    def runs(self, name: object, /) -> bool:
        """Whether a call of the tool `name` begins an execution."""
        ...

    async def answer(self, request: Request, /) -> Payload:
        """The whole answer, also to what cannot be done. Cancelling it cancels the execution that it waits for."""
        ...

    async def close(self) -> None:
        """End every execution whose request waits."""
        ...
