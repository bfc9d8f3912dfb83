"""The faces of sessions, so that one contract suite holds for all: coroutines, plain calls in a thread, a service.

The suite is every test that takes the fixture `face`. Another implementation is one more `Face` in
`FACES`; the tests use what `moonpool` exports and nothing else (`test_public_api.py` holds that).
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import moonpool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from sdk.service import ServiceThread


class Face(Protocol):
    """One way to open sessions: what it yields has the methods of `moonpool.Session`, awaited, and its errors."""

    name: str

    def session(self, **options: Any) -> AbstractAsyncContextManager[Any]:
        """A session that is open, with the parameters of `moonpool.session`; closed at the end of the block."""
        ...

    async def run(self, code: str, **options: Any) -> moonpool.Result:
        """As `moonpool.run`."""
        ...


class Coroutines:
    """`moonpool.session`."""

    name = "coroutines"

    @asynccontextmanager
    async def session(self, **options: Any) -> AsyncGenerator[Any]:
        async with moonpool.session(**options) as opened:
            yield opened

    async def run(self, code: str, **options: Any) -> moonpool.Result:
        return await moonpool.run(code, **options)


class _Awaited:
    """An object whose plain methods are called in a thread and awaited."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if name in {"usage", "checkpoints", "allowed", "refused"}:
            return value
        if name == "fork":
            return self._fork
        if name in {"files", "tools", "network"}:
            return _Awaited(value)
        if name == "stream":
            return lambda *given, **options: _stream(value(*given, **options))
        if name == "interrupt":
            return value
        return lambda *given, **options: asyncio.to_thread(value, *given, **options)

    async def _fork(self) -> Any:
        return _Awaited(await asyncio.to_thread(self._target.fork))


class PlainCalls:
    """`moonpool.sync.session`, each call in a thread."""

    name = "plain calls"

    @asynccontextmanager
    async def session(self, **options: Any) -> AsyncGenerator[Any]:
        opened = moonpool.sync.session(**options)
        await asyncio.to_thread(opened.start)
        try:
            yield _Awaited(opened)
        finally:
            await asyncio.to_thread(opened.close)

    async def run(self, code: str, **options: Any) -> moonpool.Result:
        return await asyncio.to_thread(moonpool.sync.run, code, **options)


async def _stream(stream: Any) -> AsyncIterator[Any]:
    try:
        while (event := await asyncio.to_thread(next, stream, None)) is not None:
            questions = moonpool.sync.ApprovalRequest | moonpool.sync.ServerQuestion
            yield _Question(event) if isinstance(event, questions) else event
    finally:
        await asyncio.to_thread(stream.close)


class _Question(_Awaited):
    """A question whose answers are awaited; to `isinstance` and `match` it is what it is."""

    @property
    def __class__(self) -> Any:
        return self._target.__class__

    def __getattr__(self, name: str) -> Any:
        if name in {"approve", "deny", "accept"}:
            return super().__getattr__(name)
        return getattr(self._target, name)


_OF_THE_OPERATOR = ("servers", "policy", "workspace")


class Connected:
    """`moonpool.connect`, over a socket, to a service whose operator chose servers, rules and bounds as the test does.

    The application answers approvals with a second key.
    """

    name = "connected"
    service: ServiceThread  # started by `conftest.py`

    @asynccontextmanager
    async def session(self, **options: Any) -> AsyncGenerator[Any]:
        chosen = {name: options.pop(name) for name in _OF_THE_OPERATOR if name in options}
        if isinstance(packages := options.get("packages"), list):
            chosen["packages"] = packages
        async with self.service.organisation(**chosen) as organisation:
            connected = moonpool.connect(self.service.url, organisation.key, approver=organisation.other_key)
            async with connected as service, service.session(**options) as opened:
                yield opened

    async def run(self, code: str, **options: Any) -> moonpool.Result:
        async with self.service.organisation() as organisation:
            return await moonpool.connect(self.service.url, organisation.key).run(code, **options)


CONNECTED = Connected()
LOCAL_FACES = (Coroutines(), PlainCalls())
FACES: tuple[Face, ...] = (*LOCAL_FACES, CONNECTED)
