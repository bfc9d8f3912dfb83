"""What the tests of a worker share lives in one event loop, until the last of them is over."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

UNTIL_THE_END: Final = AsyncExitStack()
_loops: list[asyncio.AbstractEventLoop] = []
_runners: set[asyncio.Task[object] | None] = set()


@asynccontextmanager
async def one_loop() -> AsyncGenerator[None]:
    """What is pushed on `UNTIL_THE_END` ends with this context."""
    _loops.append(asyncio.get_running_loop())
    _runners.add(asyncio.current_task())
    async with UNTIL_THE_END:
        yield


def in_shared_loop() -> bool:
    """Whether the caller runs in the loop of all tests, not in one that a test made itself."""
    return asyncio.get_running_loop() in _loops


def tasks_left() -> list[str]:
    """The tasks in the loop of all tests, which does not run now, but for the one that runs the tests."""
    return [repr(task) for loop in _loops for task in asyncio.all_tasks(loop) - _runners]
