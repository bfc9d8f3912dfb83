"""Ends that must be reached although the task that wants them is being cancelled.

asyncio cancels a task once, anyio at every await until its scope is left. What puts an end on record, or waits for a
sandbox to be gone, is finished under both. So is a step in a thread, which no cancellation stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Coroutine

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

CLOSE_S: Final = 30.0
"""How long one step of closing may take."""


async def finish(work: Coroutine[object, object, _T], *, given_up: threading.Event | None = None) -> _T:
    """Await `work` to its end, however often it is cancelled meanwhile; the cancellation is raised afterwards.

    `given_up` is set at the cancellation, for work that can then end sooner.
    """
    future = asyncio.ensure_future(work)
    try:
        await _done(future)
    except asyncio.CancelledError:
        if given_up is not None:
            given_up.set()
        with anyio.CancelScope(shield=True):  # only now: a scope costs more than the wait
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait({future})
        if not future.cancelled():
            future.exception()  # seen, so that asyncio does not report it
        raise
    return future.result()


async def _done(future: asyncio.Future[_T]) -> None:
    """Wait for the end of `future`, which a cancellation leaves alone. What `asyncio.wait` does for many costs more."""
    ended: asyncio.Future[None] = future.get_loop().create_future()
    future.add_done_callback(lambda _: ended.done() or ended.set_result(None))
    await ended


async def end_within(what: str, ending: Coroutine[object, object, None]) -> None:
    """Await `ending`, for `CLOSE_S` at most; then it is cancelled, and the log says that `what` has not ended.

    A process that the Linux kernel does not let die, or a bug, must not hold up everything else that closes.
    """
    future = asyncio.ensure_future(ending)
    try:
        ended, _ = await asyncio.wait({future}, timeout=CLOSE_S)
    except asyncio.CancelledError:
        future.cancel()
        raise
    if ended:
        future.result()
    else:
        future.cancel()
        _log.error("%s did not end within %g s and may be left behind", what, CLOSE_S)


async def in_thread(step: Callable[[], _T], *, given_up: threading.Event | None = None) -> _T:
    """Run `step` in a thread. When this returns or raises, a cancellation too, the thread is done with its files."""
    return await finish(asyncio.to_thread(step), given_up=given_up)
