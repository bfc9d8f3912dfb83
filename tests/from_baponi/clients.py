"""The unmodified `baponi` SDK, both of its clients with one interface, so that a test is written once."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from anyio.from_thread import BlockingPortal, start_blocking_portal
from baponi import AsyncBaponi, Baponi

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class Stream(Protocol):
    trace_id: str | None

    def events(self) -> list[Any]: ...
    def next(self) -> Any: ...
    def close(self) -> None: ...
    def get_final_result(self) -> Any: ...
    def cancel(self) -> Any: ...


class SyncStream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def events(self) -> list[Any]:
        return list(self._stream)

    def next(self) -> Any:
        return next(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class AsyncStream:
    def __init__(self, stream: Any, portal: BlockingPortal) -> None:
        self._stream, self._portal = stream, portal

    def events(self) -> list[Any]:
        async def all_of() -> list[Any]:
            return [event async for event in self._stream]

        return self._portal.call(all_of)

    def next(self) -> Any:
        return self._portal.call(self._stream.__anext__)

    def close(self) -> None:
        self._portal.call(self._stream.close)

    def cancel(self) -> Any:
        return self._portal.call(self._stream.cancel)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Handle:
    """Of `execute_webhook`, in either form."""

    def __init__(self, handle: Any, call: Callable[..., Any]) -> None:
        self._handle, self._call = handle, call
        self.trace_id: str = handle.trace_id

    def wait(self, timeout: float = 60) -> Any:
        return self._call(partial(self._handle.wait, poll_interval=0.05, timeout=timeout))

    def poll(self) -> Any:
        return self._call(self._handle.poll)

    def cancel(self) -> Any:
        return self._call(self._handle.cancel)


class Client:
    """Every method of the SDK's client."""

    def __init__(self, client: Any, call: Callable[..., Any], stream: Callable[[Any], Stream]) -> None:
        self._client, self._call, self._stream = client, call, stream

    def execute_stream(self, code: str, **options: Any) -> Any:
        return self._stream(self._call(partial(self._client.execute_stream, code, **options)))

    def reconnect_stream(self, trace_id: str, **options: Any) -> Any:
        return self._stream(self._call(partial(self._client.reconnect_stream, trace_id, **options)))

    def execute_webhook(self, code: str, **options: Any) -> Handle:
        return Handle(self._call(partial(self._client.execute_webhook, code, **options)), self._call)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return lambda *given, **named: self._call(partial(method, *given, **named))


@contextmanager
def sdk(kind: str, url: str, key: str, **options: Any) -> Generator[Client]:
    """`sync` or `async`."""
    if kind == "sync":
        with Baponi(key, base_url=url, **options) as client:
            yield Client(client, lambda method: method(), SyncStream)
        return
    with start_blocking_portal() as portal:

        async def made() -> Any:
            return AsyncBaponi(key, base_url=url, **options)

        client = portal.call(made)
        try:
            yield Client(client, portal.call, lambda stream: AsyncStream(stream, portal))
        finally:
            portal.call(client.close)
