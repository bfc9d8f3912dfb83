"""The application's `approve` function: where it is called, and what its answers mean."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from moonpool.core.errors import InputError
from moonpool.features.approvals.model import ApprovalAnswerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.sdk.options import SessionOptions

_log = logging.getLogger("moonpool.sdk")
Caller: TypeAlias = "Callable[[Callable[[], Any]], Awaitable[Any]]"
"""Calls a function of the application where such functions run: in its event loop, or in a thread."""
_NOBODY = "nobody answers questions of this session; give approve= to moonpool.session, or read them with stream()"


class Question(Protocol):
    """A question about a call, in the runtime's thread."""

    @property
    def withdrawn(self) -> asyncio.Event:
        """Set once it is over without an answer."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether it waits for an answer."""
        ...

    async def approve(self) -> object:
        """Allow the call. Raises ApprovalAnswerError."""
        ...

    async def deny(self, note: str = "") -> None:
        """Refuse it. Raises ApprovalAnswerError."""
        ...


class EventTypes:
    """Which classes of events a face gives to its application."""

    def __init__(self, request: type[Any], question: type[Any]) -> None:
        self.request, self.question = request, question


class Answers:
    """Has the application's function answer questions, several at a time; without one, refuses them."""

    def __init__(self, function: Callable[[Any], Any] | None, caller: Caller) -> None:
        self._function, self._caller = function, caller
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, question: Question, request: Any) -> None:
        """Begin to answer a question, which the function sees as `request`.

        A function that still thinks when it is over is cancelled, where that can be.
        """
        task = asyncio.ensure_future(self._settle(question, request))
        over = asyncio.ensure_future(question.withdrawn.wait())
        over.add_done_callback(lambda _: task.cancel())
        task.add_done_callback(lambda _: over.cancel())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, question: Question, request: Any) -> None:
        try:
            await self._answer(question, request)
        except ApprovalAnswerError as error:
            _log.debug("%s", error)
            if question.is_open:  # else it is too late, or the function has answered it itself
                with suppress(ApprovalAnswerError):
                    await question.deny("policy wants a person to answer, and the approve function named none")

    async def _answer(self, question: Question, request: Any) -> None:
        function = self._function
        if function is None:
            await question.deny(_NOBODY)
            return
        try:
            said = await self._caller(lambda: function(request))
        except BaseException as error:  # whatever the application raises is no yes, and none ends this thread
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            _log.exception("the approve function of the session failed")
            await question.deny(f"the application's approve function failed ({type(error).__name__})")
            return
        if not question.is_open:
            return
        if said is True:
            await question.approve()
        elif said is False or said is None or isinstance(said, str):
            await question.deny(said or "")
        else:
            _log.error(
                "the approve function of the session returned %s; return True, False or why not",
                type(cast("object", said)),
            )
            await question.deny("the application's approve function gave no answer")


def answers_of(options: SessionOptions, caller: Caller, *, answer_all: bool) -> Answers | None:
    """Who answers questions about calls: the session's function; with `answer_all` nobody; None: a reader of events."""
    if callable(options.approve):
        return Answers(options.approve, caller)
    return Answers(None, caller) if answer_all else None


async def in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], Any]) -> Any:
    """Call a function of the application in its event loop, and await what it returns if that can be awaited."""

    async def call() -> Any:
        said = function()
        return await said if inspect.isawaitable(said) else said

    calling = call()
    try:
        said = asyncio.run_coroutine_threadsafe(calling, loop)
    except RuntimeError:  # the loop is closed
        calling.close()
        raise
    return await asyncio.wrap_future(said)


async def in_a_thread(function: Callable[[], Any]) -> Any:
    """Call a function of the application in a thread of its own."""
    outcome: Future[Any] = Future()

    def call() -> None:
        outcome.set_running_or_notify_cancel()  # from here on nobody can cancel it
        try:
            outcome.set_result(function())
        except BaseException as error:  # noqa: BLE001  raised where it is awaited
            outcome.set_exception(error)

    # not one of the loop's few threads: functions that take long would hold them all, and exits wait for those
    threading.Thread(target=call, name="moonpool approve", daemon=True).start()
    said = await asyncio.wrap_future(outcome)
    if inspect.isawaitable(said):
        close = getattr(said, "close", None)
        if close is not None:
            close()
        raise InputError("the approve function is a coroutine function; use moonpool.session for it")
    return said
