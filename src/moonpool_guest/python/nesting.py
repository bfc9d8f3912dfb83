"""Lets `asyncio.run()` work in code that also uses top-level `await`.

Top-level `await` runs on the kernel's loop; CPython then refuses a second loop in the same thread. A nested
`asyncio.run` is harmless here: the outer loop just waits, as it would for any blocking call. So while a top-level
coroutine runs, `asyncio.run` sets the outer loop aside, runs the inner one to its end and puts the outer one back.

And it says where an interrupt may be raised. In the middle of asyncio's own code a KeyboardInterrupt can lose a
callback: one that was just taken from the queue (seen: once in 400 interrupts of a coroutine that does nothing but
yield), or one that `Future.set_result`, called by a callback, was about to put there (seen: once in 200 interrupts of
gathered tool calls on a busy machine). Whoever waits for it then waits for ever.
"""

import _weakrefset
import asyncio
import os
import selectors
from asyncio import base_events, events, tasks
from collections.abc import Callable, Collection
from types import CodeType, FrameType
from typing import Any

_run = asyncio.run
_OWN_FILES = (os.path.dirname(asyncio.__file__) + "/", _weakrefset.__file__)
_LOOP_FILES = (*_OWN_FILES, selectors.__file__)
_RUN_ONCE: CodeType = vars(base_events.BaseEventLoop)["_run_once"].__code__
_STOP: Any = vars(base_events)["_run_until_complete_cb"]
settle_interrupt: "list[Callable[[], None]]" = []  # the kernel's: raises what came when a loop was ending


def loop_at_work(frame: FrameType) -> "asyncio.AbstractEventLoop | None":
    """The running loop if its own code is what `frame` runs, not a coroutine or callback.

    An interrupt becomes the next callback of such a loop.
    """
    one: FrameType | None = frame
    while one is not None and one.f_code.co_filename.startswith(_LOOP_FILES):
        if one.f_code is _RUN_ONCE:
            return one.f_locals.get("self")
        one = one.f_back
    return None


def is_in_asyncio(frame: FrameType) -> bool:
    """Whether `frame` is asyncio's own code, called by a coroutine or callback of a running loop.

    An interrupt must wait until that call is over. A selector that somebody else waits on (`subprocess` does, for the
    output of a program) may never be.
    """
    one: FrameType | None = frame
    while one is not None and one.f_code.co_filename == selectors.__file__:
        one = one.f_back
    if one is None or not one.f_code.co_filename.startswith(_OWN_FILES):
        return False
    while one is not None and one.f_code is not _RUN_ONCE:
        one = one.f_back
    return one is not None


def drop_stops(loop: Any, tasks: "Collection[asyncio.Task[Any]]" = ()) -> None:
    """Take back what would end the next run of `loop` too early.

    A run is ended by a callback of its task; an interrupt may leave it there, or in the queue.
    """
    for task in tasks:
        task.remove_done_callback(_STOP)
    for handle in getattr(loop, "_ready", ()):
        if handle._callback is _STOP:
            handle.cancel()


def call_next(loop: Any, callback: Callable[[], None]) -> None:
    """Make `callback` the next that `loop` runs. For signal handlers."""
    loop._ready.appendleft(events.Handle(callback, (), loop))
    loop._write_to_self()


def _run_nested(main: Any, **options: Any) -> Any:
    outer = events._get_running_loop()
    if outer is None:
        result = _run(main, **options)
        _settle()
        return result
    task = tasks.current_task(outer)
    events._set_running_loop(None)
    if task is not None:
        tasks._leave_task(outer, task)
    try:
        result = _run(main, **options)
    finally:
        if task is not None:
            tasks._enter_task(outer, task)
        events._set_running_loop(outer)
        events.set_event_loop(outer)
    _settle()
    return result


def _settle() -> None:
    for settle in settle_interrupt:
        settle()


def allow_nested_run() -> None:
    """Replace `asyncio.run` for user code."""
    _run_nested.__doc__ = _run.__doc__
    _run_nested.__name__ = _run_nested.__qualname__ = "run"
    asyncio.run = _run_nested  # pyright: ignore[reportAttributeAccessIssue]
