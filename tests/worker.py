"""What the tests of a worker share lives in one event loop, until the last of them is over."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

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


@contextmanager
def lasting() -> Generator[None]:
    """Tasks that begin inside belong to what several modules share."""
    before = asyncio.all_tasks()
    yield
    _runners.update(asyncio.all_tasks() - before)


def tasks_left(within_s: float = 20) -> list[str]:
    """What does not end by itself in the loop of all tests, which does not run now; the runner of tests aside."""
    left: list[str] = []
    for loop in _loops:
        if tasks := asyncio.all_tasks(loop) - _runners:  # the shared backend may be ending what it has replaced
            _, pending = loop.run_until_complete(asyncio.wait(tasks, timeout=within_s))
            left += map(repr, pending)
    return left
