"""What several users share: opened by the first, in a task of its own, and closed with the last."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Hashable
    from contextlib import AbstractAsyncContextManager

_T = TypeVar("_T")


class Shared(Generic[_T]):
    """A context manager entered once for several users, in a task of its own; left with the last of them."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[_T]], forget: Callable[[], None]) -> None:
        self._make, self._forget = make, forget
        self._users = 0
        self._ready: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._unused = asyncio.Event()
        self._life: asyncio.Task[None] | None = None

    async def enter(self) -> _T:
        """One user more. Raises what opening it raised."""
        self._users += 1
        if self._life is None:
            self._life = asyncio.create_task(self._live())
        try:
            return await asyncio.shield(self._ready)
        except BaseException:
            await self.leave()
            raise

    async def leave(self) -> None:
        """One user less; when it was the last, returns once all is closed."""
        self._users -= 1
        if self._users:
            return
        self._forget()
        self._unused.set()
        assert self._life is not None
        if not self._ready.done():
            self._life.cancel()
        await asyncio.gather(self._life, return_exceptions=True)

    async def _live(self) -> None:
        try:
            async with self._make() as value:
                self._ready.set_result(value)
                await self._unused.wait()
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)
            self._ready.exception()  # seen


_shared: dict[Hashable, Shared[object]] = {}  # by the loop of their users, too


@asynccontextmanager
async def sharing(key: Hashable, make: Callable[[], AbstractAsyncContextManager[_T]]) -> AsyncGenerator[_T]:
    """What has `key`, opened by `make` if nobody uses it yet."""
    loop_key = (asyncio.get_running_loop(), key)
    shared = _shared.get(loop_key)
    if shared is None:
        shared = _shared[loop_key] = Shared(make, lambda: _shared.pop(loop_key, None))  # pyright: ignore[reportArgumentType]
    value = await shared.enter()
    try:
        yield value  # pyright: ignore[reportReturnType]
    finally:
        await shared.leave()
