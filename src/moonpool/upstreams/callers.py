"""Who is calling an upstream: the session, or the run where there is none. Set by the pipeline, read in this package.

It decides nothing but whose turn it is (`rate_limit`) and whose subscription it is (`subscriptions`); no server sees
it. It travels as a context variable because `call_tool` runs in its caller's task from end to end.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

_CALLER: Final[ContextVar[str]] = ContextVar("moonpool_upstream_caller", default="")


def caller() -> str:
    """The current caller; empty for the host itself."""
    return _CALLER.get()


@contextmanager
def calling_as(name: str) -> Generator[None]:
    token = _CALLER.set(name)
    try:
        yield
    finally:
        _CALLER.reset(token)
