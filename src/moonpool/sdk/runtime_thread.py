"""The thread of a process in which Moonpool lives, with an event loop of its own.

So sessions can be used from any event loop, from several, and from none, and an application that blocks its own loop
stops neither the deadlines of code nor the answers to its calls. The thread starts with the first session and ends
with the last. It is a daemon: a session that nobody closed keeps no process alive, and is closed at its exit.

INVARIANT: `Call` ends only when its work has ended in the thread, cancelled or not; nothing goes on behind a caller.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from moonpool.core.errors import InputError
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_T = TypeVar("_T")
CLOSED: Final = "this session is closed; open another one"
EXIT_S: Final = 10.0
"""How long the exit of the process waits for sessions that nobody closed."""


class Call(Generic[_T]):
    """Work in the runtime's thread, and its outcome for one caller elsewhere."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, _T]], *, is_end: bool = False
    ) -> None:
        """`is_end`: it ends something, and is not cancelled with its caller, who may not be able to ask again."""
        self._loop, self._work, self._is_end = loop, work, is_end
        self._future: Future[_T] = Future()
        self._task: asyncio.Task[_T] | None = None
        self._cancelled = False
        try:
            loop.call_soon_threadsafe(self._begin)
        except RuntimeError:  # the loop is closed
            self._future.set_exception(_gone())

    @property
    def is_over(self) -> bool:
        """Whether the outcome is there."""
        return self._future.done()

    def cancel(self) -> None:
        """Cancel the work. May be called from any thread; the outcome comes when the work has ended."""
        if self._is_end:
            return
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel)

    async def wait(self) -> _T:
        """The outcome, in the caller's event loop. A cancellation cancels the work and waits for its end."""
        ended = asyncio.wrap_future(self._future)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.cancel()
            with suppress(Exception):
                await finish(_awaited(ended))
            raise

    def result(self) -> _T:
        """The outcome; blocks. An interrupt by the keyboard cancels the work and waits for its end."""
        try:
            return self._future.result()
        except KeyboardInterrupt:
            self.cancel()
            with suppress(Exception, asyncio.CancelledError):
                self._future.result()
            raise

    def then(self, step: Callable[[], None]) -> None:
        """Have `step` called when the outcome is there, in whichever thread that is."""
        self._future.add_done_callback(lambda _: step())

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work())
        self._task.add_done_callback(self._end)
        if self._cancelled:
            self._task.cancel()

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[_T]) -> None:
        if task.cancelled():
            self._future.set_exception(asyncio.CancelledError() if self._cancelled else _gone())
        elif (error := task.exception()) is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(task.result())


class RuntimeThread:
    """The one of this process. Sessions `join` it and `leave` it."""

    _current: ClassVar[RuntimeThread | None] = None
    _lock: ClassVar[threading.RLock] = threading.RLock()
    _exit_is_heard: ClassVar[bool] = False

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.closers: set[Callable[[], Coroutine[Any, Any, None]]] = set()  # of sessions that are open
        self._pid = os.getpid()
        self.users = 0
        self._thread = threading.Thread(target=self._serve, name="moonpool", daemon=True)

    @classmethod
    def join(cls) -> RuntimeThread:
        """The thread, started if need be; it lasts until `leave` has been called as often."""
        with cls._lock:
            if cls._current is None or not cls._current.is_here:
                cls._current = cls()
                cls._current.start()
            cls._current.stay()
            return cls._current

    def stay(self) -> None:
        """One user more, of a thread that somebody uses."""
        with RuntimeThread._lock:
            self.users += 1

    @property
    def is_here(self) -> bool:
        """Whether it is of this process: a forked child has no such thread."""
        return self._pid == os.getpid()

    def start(self) -> None:
        """Start the thread. Sessions that are open still at the exit of the process are closed then."""
        self._thread.start()
        if not RuntimeThread._exit_is_heard:
            # `atexit` is too late: Python has ended the threads that closing needs by then
            threading._register_atexit(RuntimeThread._at_exit)  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            RuntimeThread._exit_is_heard = True

    def leave(self) -> None:
        """One user less. The thread ends with the last."""
        with RuntimeThread._lock:
            self.users -= 1
            if self.users:
                return
            if RuntimeThread._current is self:
                RuntimeThread._current = None
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)

    def call(self, work: Callable[[], Coroutine[Any, Any, _T]], *, is_end: bool = False) -> Call[_T]:
        """Begin `work` there. Raises InputError in a process that was forked from the one that opened the session."""
        if not self.is_here:
            raise InputError("this session belongs to the process that this one was forked from; open one here")
        if threading.current_thread() is self._thread:
            raise InputError("a session cannot be used from the thread that serves it; use it from the application's")
        return Call(self.loop, work, is_end=is_end)

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Call[None] | None:
        """Begin `work` that nobody waits for, as finalizers do in whichever thread they run; None in a forked child."""
        return Call(self.loop, work) if self.is_here else None

    @classmethod
    def _at_exit(cls) -> None:
        if cls._current is not None:
            cls._current._close_all()  # noqa: SLF001

    @classmethod
    def forget(cls) -> None:
        """In a child that was just forked: another thread of the parent may have held the lock."""
        cls._lock, cls._current = threading.RLock(), None

    def _close_all(self) -> None:
        """Close the sessions that are open still. Blocking, at most `EXIT_S`; for the exit of the process."""

        async def close() -> None:
            await asyncio.gather(*(closer() for closer in tuple(self.closers)), return_exceptions=True)

        if self.is_here and self._thread.is_alive():
            with suppress(Exception):
                asyncio.run_coroutine_threadsafe(close(), self.loop).result(EXIT_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    self.loop.run_until_complete(task)
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()


os.register_at_fork(after_in_child=RuntimeThread.forget)


async def _awaited(future: asyncio.Future[_T]) -> _T:
    return await future


def _gone() -> InputError:
    return InputError(CLOSED)
