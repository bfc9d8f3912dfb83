"""Waiting for something that nobody announces."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def until(holds: Callable[[], object], *, within_s: float = 30, pause_s: float = 0.01) -> None:
    """Let others run until `holds`. Raises TimeoutError."""
    with anyio.fail_after(within_s):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(pause_s)


async def until_true(holds: Callable[[], Awaitable[object]], *, within_s: float = 30, pause_s: float = 0.02) -> None:
    """The same where it has to be asked for. Raises TimeoutError."""
    with anyio.fail_after(within_s):
        while not await holds():  # noqa: ASYNC110
            await anyio.sleep(pause_s)


def wait_until(holds: Callable[[], object], *, within_s: float) -> None:
    """The same where no loop runs."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, f"not within {within_s:g} s"
        time.sleep(0.01)
