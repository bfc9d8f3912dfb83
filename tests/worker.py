"""What the tests of a worker share lives in one event loop, until the last of them is over."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

UNTIL_THE_END: Final = AsyncExitStack()
_loops: list[asyncio.AbstractEventLoop] = []


@asynccontextmanager
async def one_loop() -> AsyncGenerator[None]:
    """What is pushed on `UNTIL_THE_END` ends with this context."""
    _loops.append(asyncio.get_running_loop())
    async with UNTIL_THE_END:
        yield


def in_shared_loop() -> bool:
    """Whether the caller runs in the loop of all tests, not in one that a test made itself."""
    return asyncio.get_running_loop() in _loops
