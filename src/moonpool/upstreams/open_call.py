"""A tool call that its server is working on, with what is needed when the server asks something meanwhile.

The execution that made the call knows who can be asked; the callers that started clocks register them. While a person
or client is asked, the clocks and the execution's deadline are paused (D-048); the handler has its own time limit.

A server of 2026-07-28 asks in its answer, so in the task of the call: `OPEN_CALL` says which. An older one asks by a
request that names no call; then `PendingServerRequests` knows which are under way. SECURITY: tasks that outlive a call
must not take `OPEN_CALL` from the context they were started in: it would stay the first caller's.
"""

from __future__ import annotations

import math
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import anyio

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator, Sequence
    from contextlib import AbstractContextManager

    from moonpool.core.calls import CallProgress, LogMessage
    from moonpool.tracing.calls import CallSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingClient:
    """A client that makes a call itself, without code: what its server may know of it and tell it."""

    abilities: frozenset[str]  # of `form`, `url`, `sampling`, `roots`: what it can be asked
    log_level: str = ""  # it wants log messages from this level on; none: no messages
    log: Callable[[LogMessage], None]


class CallingExecution(Protocol):
    """What is needed here of the execution that made a call (`moonpool.pipeline.call_state.CallContext`)."""

    @property
    def client(self) -> CallingClient | None: ...
    @property
    def progress(self) -> Callable[[CallProgress], None] | None: ...
    @property
    def pause_deadline(self) -> Callable[[], AbstractContextManager[object]]: ...


C = TypeVar("C", bound=CallingExecution)


class Clock(Protocol):
    """Something that ends a call when its time is over."""

    def stop(self) -> None: ...
    def go_on(self) -> None: ...


class ScopeClock:
    """The deadline of a cancel scope."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope, self._left_s = scope, 0.0

    def stop(self) -> None:
        self._left_s, self._scope.deadline = self._scope.deadline - anyio.current_time(), math.inf

    def go_on(self) -> None:
        self._scope.deadline = anyio.current_time() + self._left_s


class TimeoutClock:
    """An `asyncio.timeout`."""

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout, self._left_s = timeout, 0.0

    def stop(self) -> None:
        due = self._timeout.when()
        self._left_s = 0.0 if due is None else due - anyio.current_time()
        if not self._timeout.expired():
            self._timeout.reschedule(None)

    def go_on(self) -> None:
        if not self._timeout.expired():
            self._timeout.reschedule(anyio.current_time() + self._left_s)


class OpenCall(Generic[C]):
    """One call and the clocks that run for it."""

    def __init__(self, context: C, tool: str, span: CallSpan | None = None) -> None:
        self.context, self.tool, self.span = context, tool, span
        self.task_id = ""  # that the server carries it out as
        self._clocks: list[Clock] = []
        self._open = 0

    @contextmanager
    def ticking(self, clock: Clock) -> Generator[None]:
        """`clock` runs during a `with` block."""
        self._clocks.append(clock)
        if self._open:  # a request that is sent again while a person is asked
            clock.stop()
        try:
            yield
        finally:
            self._clocks.remove(clock)

    @contextmanager
    def paused(self) -> Generator[None]:
        """All clocks are paused during a `with` block."""
        self._open += 1
        if self._open == 1:
            for clock in self._clocks:
                clock.stop()
        try:
            with self.context.pause_deadline():
                yield
        finally:
            self._open -= 1
            if self._open == 0:
                for clock in self._clocks:
                    clock.go_on()


OPEN_CALL: ContextVar[OpenCall[Any] | None] = ContextVar("moonpool_call_in_hand", default=None)


@contextmanager
def open_call_of(call: OpenCall[Any], timeout: asyncio.Timeout) -> Generator[None]:
    """`call` is at its server during a `with` block; `timeout` is its time limit."""
    token = OPEN_CALL.set(call)
    try:
        with call.ticking(TimeoutClock(timeout)):
            yield
    finally:
        OPEN_CALL.reset(token)


@contextmanager
def ticking(scope: anyio.CancelScope) -> Generator[None]:
    """`scope` is a clock of the current call, if there is one."""
    call = OPEN_CALL.get()
    if call is None:
        yield
        return
    with call.ticking(ScopeClock(scope)):
        yield


@contextmanager
def all_paused(calls: Sequence[OpenCall[Any]]) -> Generator[None]:
    """The clocks of all `calls` are paused."""
    with ExitStack() as stack:
        for call in calls:
            stack.enter_context(call.paused())
        yield
