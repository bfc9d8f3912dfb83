"""Keeps a resource open in a task of its own, so that any task may open and close it.

What opens task groups and cancel scopes must be left by the task that entered it; the handlers of a service's requests
are tasks that come and go. So each resource has an owner task, which enters it, waits, and leaves it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from moonpool.core.errors import InputError
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

_T = TypeVar("_T")


class OwnerTask(Generic[_T]):
    """One resource and the task that owns it. `task` is done when the resource is closed."""

    def __init__(self, resource: AbstractAsyncContextManager[_T], what: str) -> None:
        """Starts opening. `what` names it in errors."""
        self._what = what
        self._opened: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self.task = asyncio.create_task(self._own(resource))

    async def _own(self, resource: AbstractAsyncContextManager[_T]) -> None:
        async with resource as value:
            self._opened.set_result(value)
            await self._leave.wait()

    async def opened(self) -> _T:
        """The open resource. Raises what opening it raised, and InputError when it was closed before it was open.

        A cancellation closes it again and is raised when that is done.
        """
        try:
            await asyncio.wait({self.task, self._opened}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.close()
            raise
        if self._leave.is_set():
            await self.close()
            raise InputError(f"{self._what} was closed while it opened; open it again")
        if not self._opened.done():
            self.task.result()
        return self._opened.result()

    async def close(self) -> None:
        """Close it, or stop opening it, and wait for the end, also when cancelled meanwhile. May be called again.

        Raises what closing it raised.
        """
        if not self._opened.done():
            self.task.cancel()
        self._leave.set()
        await finish(_ended(self.task))
        if self._opened.done() and not self.task.cancelled():
            self.task.result()


class OwnerTasks(Generic[_T]):
    """What is open now, by name: one of each."""

    def __init__(self) -> None:
        self._tasks: dict[str, OwnerTask[_T]] = {}
        self._closed = False

    def start(self, name: str, resource: AbstractAsyncContextManager[_T], what: str) -> OwnerTask[_T]:
        """Open `resource`. Raises InputError when `name` is taken, or nothing is opened any more."""
        if self._closed:
            raise InputError(f"{what} cannot be opened: Moonpool is closing")
        if name in self._tasks:
            raise InputError(f"{what} is open already; close it first")
        owner = self._tasks[name] = OwnerTask(resource, what)
        owner.task.add_done_callback(lambda _: self._tasks.pop(name))
        return owner

    async def close(self, name: str) -> None:
        """Close what has this name, if anything has; also while it opens, and while another task closes it."""
        if (owner := self._tasks.get(name)) is not None:
            await owner.close()

    async def close_all(self) -> None:
        """Close everything; nothing is opened from now on. Raises the first error, when all is closed."""
        self._closed = True
        ended = await asyncio.gather(*map(self.close, tuple(self._tasks)), return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # seen, so that asyncio does not report it
