"""Says of a call that nobody awaited that it was not made, and how to make it.

Python's own words ("was never awaited") come when a coroutine is thrown away; a coroutine that a variable still holds
at the end of the code is as lost, and Python says nothing of it.
"""

import inspect
import os
import sys
import warnings
from types import CodeType, CoroutineType
from typing import Any

_GUEST_ROOT = os.path.dirname(os.path.dirname(__file__)) + "/"
_NAMES_MAX = 5
_NEVER = "was never awaited, so nothing of it was done; write `await` before the call"


def install() -> None:
    """Replace what CPython calls when an unstarted coroutine is freed."""
    warnings._warn_unawaited_coroutine = _warn  # pyright: ignore[reportAttributeAccessIssue]


def held_by(code: CodeType, namespace: "dict[str, Any]") -> str:
    """A line for each of the names in `code` that holds a coroutine which was never started; empty for none."""
    lost = [name for name in code.co_names if _is_unstarted(namespace.get(name))]
    told = (f"{_named(namespace[name])} in {name!r} {_NEVER}\n" for name in lost[:_NAMES_MAX])
    return "".join(f"RuntimeWarning: {line}" for line in told)


def _warn(coroutine: Any) -> None:
    frame = inspect.currentframe()
    holder = frame.f_back if frame is not None else None
    if holder is not None and holder.f_code.co_filename.startswith(_GUEST_ROOT):  # a last expression's value: no line
        sys.stderr.write(f"RuntimeWarning: {_named(coroutine)} {_NEVER}\n")
        return
    warnings.warn(f"{_named(coroutine)} {_NEVER}", RuntimeWarning, stacklevel=2)


def _named(coroutine: Any) -> str:
    return f"coroutine {getattr(coroutine, '__qualname__', '?')!r}"


def _is_unstarted(value: object) -> bool:
    return isinstance(value, CoroutineType) and inspect.getcoroutinestate(value) == inspect.CORO_CREATED  # pyright: ignore[reportUnknownArgumentType]
