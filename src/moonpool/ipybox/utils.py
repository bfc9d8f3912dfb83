"""`arun`: blocking functions beside an event loop. `find_free_port`."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


async def arun(func: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """The result of a blocking function, called in a thread."""
    return await asyncio.get_running_loop().run_in_executor(None, partial(func, *args, **kwargs))


def find_free_port() -> int:
    """A port of this machine that nobody listens at now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
