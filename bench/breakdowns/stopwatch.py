"""Times functions where they stand: own time (what they called that is timed too is taken off), or moments of entry.

INVARIANT: after the `with` block every function is what it was.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping


@dataclass(frozen=True, slots=True)
class Spot:
    """A function or method by the name under which it is called: `module:Class.method` or `module:function`."""

    path: str

    def owner(self) -> tuple[Any, str]:
        """What holds it, and its name there. Raises LookupError."""
        module_name, _, dotted = self.path.partition(":")
        *owners, name = dotted.split(".")
        found: Any = importlib.import_module(module_name)
        try:
            for one in owners:
                found = getattr(found, one)
            getattr(found, name)
        except AttributeError as error:
            raise LookupError(f"{self.path} is not there any more; the breakdown must be told its new place") from error
        return found, name


@dataclass(slots=True)
class _Frame:
    """One timed call under way."""

    inner_s: float = 0.0


@dataclass(slots=True)
class OwnTimes:
    """Seconds by step, since the last `take`."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    _current: ContextVar[_Frame | None] = field(default_factory=lambda: ContextVar("frame", default=None))

    def take(self) -> dict[str, float]:
        taken, self.seconds = self.seconds, {}
        return taken

    def timed(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, with its own time counted under `step`."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def later(*args: Any, **kwargs: Any) -> Any:
                with self._step(step):
                    return await function(*args, **kwargs)

            return later

        @functools.wraps(function)
        def at_once(*args: Any, **kwargs: Any) -> Any:
            with self._step(step):
                return function(*args, **kwargs)

        return at_once

    @contextmanager
    def _step(self, step: str) -> Generator[None]:
        outer, frame = self._current.get(), _Frame()
        token = self._current.set(frame)
        started = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - started
            self._current.reset(token)
            if outer is not None:
                outer.inner_s += elapsed
            self.seconds[step] = self.seconds.get(step, 0.0) + elapsed - frame.inner_s


@contextmanager
def own_times(steps: Mapping[str, tuple[Spot, ...]]) -> Generator[OwnTimes]:
    """Time every spot under its step's name."""
    times = OwnTimes()
    replacing = [(spot, functools.partial(times.timed, step)) for step, spots in steps.items() for spot in spots]
    with _replaced(replacing):
        yield times


@contextmanager
def moments(spots: Mapping[str, tuple[Spot, str]]) -> Generator[dict[str, float]]:
    """When each spot was last entered (`enter`) or left (`leave`), on the monotonic clock that guests share."""
    seen: dict[str, float] = {}
    replacing = [(spot, functools.partial(_noting, seen, name, when)) for name, (spot, when) in spots.items()]
    with _replaced(replacing):
        yield seen


def _noting(seen: dict[str, float], name: str, when: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def later(*args: Any, **kwargs: Any) -> Any:
            if when == "enter":
                seen[name] = time.monotonic()
            answer = await function(*args, **kwargs)
            if when == "leave":
                seen[name] = time.monotonic()
            return answer

        return later

    @functools.wraps(function)
    def at_once(*args: Any, **kwargs: Any) -> Any:
        if when == "enter":
            seen[name] = time.monotonic()
        answer = function(*args, **kwargs)
        if when == "leave":
            seen[name] = time.monotonic()
        return answer

    return at_once


@contextmanager
def _replaced(replacing: list[tuple[Spot, Callable[[Callable[..., Any]], Callable[..., Any]]]]) -> Generator[None]:
    places = [(*spot.owner(), wrap) for spot, wrap in replacing]
    originals: list[tuple[Any, str, Any]] = []
    try:
        for owner, name, wrap in places:
            original = inspect.getattr_static(owner, name)
            originals.append((owner, name, original))
            setattr(owner, name, wrap(original))
        yield
    finally:
        for owner, name, original in reversed(originals):
            setattr(owner, name, original)
