"""What every read stream under the dispatcher shares: iteration, and an event that tells when the peer is gone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import anyio

if TYPE_CHECKING:
    from contextvars import Context

    from mcp.shared._stream_protocols import ReadStream  # pyright: ignore[reportPrivateUsage]  the SDK exports no name
    from mcp.shared.message import SessionMessage


class EndOfMessages(ABC):
    """Base of read streams. Subclasses write `receive`, and set `ended` before they raise EndOfStream."""

    last_context: Context | None = None  # the dispatcher asks for the sender's context variables; there is none

    def __init__(self) -> None:
        self.ended = anyio.Event()

    @abstractmethod
    async def receive(self) -> SessionMessage | Exception: ...

    def __aiter__(self) -> EndOfMessages:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        self.ended.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class WatchedReader(EndOfMessages):
    """The read stream of one of the SDK's own transports, watched for its end."""

    def __init__(self, inner: ReadStream[Any]) -> None:
        super().__init__()
        self._inner = inner

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self.ended.set()
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        self.ended.set()
        await self._inner.aclose()
