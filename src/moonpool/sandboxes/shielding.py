"""Ends that must be reached although the task that wants them is being cancelled.

asyncio cancels a task once, anyio at every await until its scope is left. What puts an end on record, or waits for a
sandbox to be gone, is finished under both.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Coroutine

_T = TypeVar("_T")


async def finish(work: Coroutine[object, object, _T]) -> _T:
    """Await `work` to its end. Cancellations that come meanwhile, however many, are raised afterwards."""
    future = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not future.done():
            try:
                await asyncio.wait({future})
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled
    return future.result()
