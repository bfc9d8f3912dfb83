"""Lets `asyncio.run()` work in code that also uses top-level `await`.

Top-level `await` runs on the kernel's loop; CPython then refuses a second loop in the same thread. A nested
`asyncio.run` is harmless here: the outer loop just waits, as it would for any blocking call. So while a top-level
coroutine runs, `asyncio.run` sets the outer loop aside, runs the inner one to its end and puts the outer one back.
"""

import sys

_ssl = sys.modules.get("ssl", sys)  # `sys` stands for: was not imported
sys.modules["ssl"] = None  # pyright: ignore[reportArgumentType]  asyncio does without; it would cost 5 MB in each fork

import asyncio  # noqa: E402
from asyncio import events, tasks  # noqa: E402
from typing import Any  # noqa: E402

if _ssl is sys:
    del sys.modules["ssl"]
else:
    sys.modules["ssl"] = _ssl

_run = asyncio.run


def _run_nested(main: Any, **options: Any) -> Any:
    outer = events._get_running_loop()
    if outer is None:
        return _run(main, **options)
    task = tasks.current_task(outer)
    events._set_running_loop(None)
    if task is not None:
        tasks._leave_task(outer, task)
    try:
        return _run(main, **options)
    finally:
        if task is not None:
            tasks._enter_task(outer, task)
        events._set_running_loop(outer)
        events.set_event_loop(outer)


def allow_nested_run() -> None:
    """Replace `asyncio.run` for user code."""
    _run_nested.__doc__ = _run.__doc__
    _run_nested.__name__ = _run_nested.__qualname__ = "run"
    asyncio.run = _run_nested  # pyright: ignore[reportAttributeAccessIssue]
