"""`arun`: blocking functions beside an event loop."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


async def arun(func: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """The result of a blocking function, called in a thread."""
    return await asyncio.get_running_loop().run_in_executor(None, partial(func, *args, **kwargs))
