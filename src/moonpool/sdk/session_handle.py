"""A session as its face in the application holds it. May be used from any thread."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from moonpool.core.errors import InputError
from moonpool.sdk.hosted_session import HostedSession
from moonpool.sdk.results import Usage
from moonpool.sdk.runtime_thread import CLOSED, RuntimeThread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from moonpool.sdk.approve_functions import Caller, EventTypes
    from moonpool.sdk.checkpoints import Checkpoint
    from moonpool.sdk.options import SessionOptions
    from moonpool.sdk.runtime_thread import Call
    from moonpool.sdk.session_host import EventStream, SessionHost

_T = TypeVar("_T")


class SessionHandle:
    """Reaches one session in the runtime's thread, which its first use opens."""

    def __init__(
        self,
        options: SessionOptions,
        types: EventTypes,
        caller: Callable[[], Caller],
        *,
        begin: Callable[[RuntimeThread, SessionOptions, EventTypes], SessionHost] = HostedSession,
    ) -> None:
        """`caller` is asked at each execution for how functions of the application are called; `begin` makes the
        session, here or at a service. Raises InputError.
        """
        self._reached: tuple[RuntimeThread, SessionHost] | None = None
        options.check()
        self._options, self._types, self.caller = options, types, caller
        self._begin = begin
        self._lock = threading.Lock()
        self._closed = False
        self._calls: WeakSet[Call[Any]] = WeakSet()  # those under way are among them

    @property
    def usage(self) -> Usage:
        """What the session used so far."""
        return Usage() if self._reached is None else self._reached[1].usage

    def call(self, work: Callable[[SessionHost], Coroutine[Any, Any, _T]]) -> Call[_T]:
        """Begin `work` in the open session. Raises InputError once it is closed."""
        with self._lock:
            if self._reached is None:
                if self._closed:
                    raise InputError(CLOSED)
                thread = RuntimeThread.join()
                self._reached = thread, self._begin(thread, self._options, self._types)
            thread, hosted = self._reached

            async def opened() -> _T:
                await hosted.open()
                return await work(hosted)

            call = thread.call(opened)
            self._calls.add(call)
            return call

    def call_here(self, work: Callable[[HostedSession], Coroutine[Any, Any, _T]]) -> Call[_T]:
        """`call`, for what only sessions of this machine have."""

        def of_this_machine(hosted: SessionHost) -> Coroutine[Any, Any, _T]:
            assert isinstance(hosted, HostedSession)
            return work(hosted)

        return self.call(of_this_machine)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, for good."""
        return self._closed

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Those that are kept, the oldest first."""
        return () if self._reached is None else self._reached[1].checkpoints

    @property
    def allowed(self) -> tuple[str, ...]:
        """The domains that code may reach now."""
        if self._reached is not None:
            return self._reached[1].allowed
        rules = self._options.network_rules()
        return () if rules is None else tuple(map(str, rules.domains))

    @property
    def refused(self) -> tuple[str, ...]:
        """Why the newest connections were refused."""
        return () if self._reached is None else self._reached[1].refused

    def forked(self, hosted: SessionHost) -> SessionHandle:
        """A handle of a session that was forked from this one, to use it or to close it."""
        handle = SessionHandle(self._options, self._types, self.caller, begin=self._begin)
        handle._reached = hosted.thread, hosted
        return handle

    def interrupt(self) -> None:
        """Interrupt the code that runs now, if any. Returns at once."""
        reached = self._reached
        if reached is not None:
            with suppress(RuntimeError):
                reached[0].loop.call_soon_threadsafe(reached[1].interrupt)

    def close(self) -> Call[None] | None:
        """Begin to end the session; None when it is not open."""
        with self._lock:
            self._closed = True
            return self._end()

    def give_up(self) -> Call[None] | None:
        """Opening it failed: begin to end it, unless somebody else uses it. It may be opened again."""
        with self._lock:
            return self._end() if all(one.is_over for one in self._calls) else None

    def _end(self) -> Call[None] | None:
        reached, self._reached = self._reached, None
        if reached is None or not reached[0].is_here:  # in a forked child it is the parent's
            return None
        thread, hosted = reached
        closing = thread.call(hosted.close, is_end=True)
        closing.then(thread.leave)
        return closing

    def __del__(self) -> None:
        if self._reached is not None:
            thread, hosted = self._reached
            with suppress(Exception):
                closing = thread.begin(hosted.close)
                if closing is not None:
                    closing.then(thread.leave)
                    warnings.warn("a session of Moonpool was not closed", ResourceWarning, source=self, stacklevel=2)


class StreamHandle:
    """Reaches the events of one execution."""

    def __init__(
        self, session: SessionHandle, begin: Callable[[SessionHost, Caller], Coroutine[Any, Any, EventStream]]
    ) -> None:
        self._session, self._begin = session, begin
        self._thread: RuntimeThread | None = None  # once its first event was asked for
        self._beginning = asyncio.Lock()  # of the runtime's thread
        self._stream: EventStream | None = None
        self._read: deque[Any] = deque()  # events that are here already
        self.over = False  # nothing more is to be read

    def take(self) -> object | None:
        """An event that is here already, None if there is none."""
        with suppress(IndexError):
            return self._read.popleft()
        return None

    def fetch(self) -> Call[list[Any]]:
        """Begin to fetch the next events, none after the last; the first call begins the execution."""
        if self._thread is not None and self._session.is_closed:
            raise InputError("the session was closed before this stream was read to its end")
        caller = self._session.caller()

        async def read(hosted: SessionHost) -> list[Any]:
            self._thread = hosted.thread
            async with self._beginning:
                if self._stream is None and not self.over:
                    self._stream = await self._begin(hosted, caller)
            return [] if self._stream is None else await self._stream.next()

        return self._session.call(read)

    def first(self, events: list[Any]) -> Any:
        """Keep what was fetched, and take the first event of it; None after the last, and once it is closed."""
        self.over = self.over or not events
        if self.over:
            return None
        self._read.extend(events[1:])
        return events[0]

    def close(self) -> Call[None] | None:
        """Begin to end the execution if it runs or begins; None when there is nothing to end."""
        self.over = True
        self._read.clear()
        if self._thread is None:
            return None
        if self._session.is_closed:  # its code has ended with the session, and with that perhaps the thread
            self._thread.begin(self._end)
            return None
        return self._thread.call(self._end, is_end=True)

    async def _end(self) -> None:
        async with self._beginning:
            if self._stream is not None:
                await self._stream.close()

    def __del__(self) -> None:
        if not self.over and self._thread is not None:
            with suppress(Exception):
                self._thread.begin(self._end)
