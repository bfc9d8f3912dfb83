"""A session as it lives in the runtime's thread. Everything here is called in that thread's event loop only.

INVARIANT: an execution whose caller is gone is interrupted, and waited for: its variables and files stay, and its end
is on record, before the caller hears of it.
"""

from __future__ import annotations

import asyncio
import codecs
import inspect
import logging
import os
import threading
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from moonpool.core.calls import CallEnded, CallProgress, CallStarted
from moonpool.core.errors import InputError, MoonpoolError
from moonpool.core.languages import PYTHON
from moonpool.engine.answering import answered_by
from moonpool.engine.direct_calls import call_directly
from moonpool.engine.events import CallEventsDropped as HostedDropped
from moonpool.engine.events import OutputChunk, RunEnded, run_events
from moonpool.engine.packages.model import PackageError
from moonpool.engine.server_request_events import ServerQuestion as HostedQuestion
from moonpool.features.approvals.events import ApprovalQuestion
from moonpool.features.approvals.model import ApprovalAnswerError
from moonpool.sandboxes.shielding import finish
from moonpool.sdk.checkpoints import undone_of
from moonpool.sdk.engines import same_tenant, tenant_for
from moonpool.sdk.events import CallEventsDropped, Output, approval_fields, call_event, question_fields
from moonpool.sdk.results import Result, Usage, result_of
from moonpool.sdk.transfers import put
from moonpool.server.mcp.catalogs import CurrentCatalog
from moonpool.terminal.approver import TerminalApprover
from moonpool.terminal.forms import TerminalForms

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine

    from moonpool.configuration.servers import McpConfig
    from moonpool.core.calls import ToolCallOutcome
    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.events import RunEvent, RunEvents
    from moonpool.engine.files.service import SessionFiles
    from moonpool.engine.packages.model import InstalledPackages
    from moonpool.engine.server_request_events import QuestionKind
    from moonpool.engine.sessions import Session
    from moonpool.network.rules import DomainRule
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.sdk.checkpoints import Checkpoint, Undone
    from moonpool.sdk.engines import OpenTenant
    from moonpool.sdk.events import ApprovalFields, Progress, QuestionFields, ToolCallEnded, ToolCallStarted
    from moonpool.sdk.options import SessionOptions
    from moonpool.sdk.results import Display
    from moonpool.sdk.runtime_thread import RuntimeThread
    from moonpool.tools.snapshot import ToolSnapshot

    Told = Output | ToolCallStarted | ToolCallEnded | CallEventsDropped | Progress
    Event: TypeAlias = Told | ApprovalFields | QuestionFields | Display | Result

_log = logging.getLogger("moonpool.sdk")
_EVENTS_MAX = 256  # that are handed over at once
_T = TypeVar("_T")
Caller: TypeAlias = "Callable[[Callable[[], Any]], Awaitable[Any]]"
"""Calls a function of the application where such functions run: in its event loop, or in a thread."""
_NOBODY = "nobody answers questions of this session; give approve= to moonpool.session, or read them with stream()"


class EventTypes:
    """Which classes of events a face gives to its application."""

    def __init__(self, request: type[Any], question: type[Any]) -> None:
        self.request, self.question = request, question


class HostedSession:
    """One session: its options, its tenant once it is open, its kernel."""

    def __init__(self, thread: RuntimeThread, options: SessionOptions, types: EventTypes) -> None:
        self.thread, self.types = thread, types
        self._options = options
        self._stack = AsyncExitStack()
        self._opening: asyncio.Task[None] | None = None
        self._opened: OpenTenant | None = None
        self._session: Session | None = None
        self._catalog: CurrentCatalog | None = None
        self._calls: set[asyncio.Future[Any]] = set()  # of the application itself, and installations
        self._rules = options.network_rules()  # that the next kernel begins with
        self._closed = False
        self.usage = Usage()
        thread.closers.add(self.close)

    # --- life

    async def open(self) -> None:
        """Open it, once. Raises what opening raises, again each time it is tried."""
        if self._closed:
            raise InputError("this session is closed; open another one")
        if self._opened is not None:
            return
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        opening = self._opening
        try:
            await asyncio.shield(opening)
        finally:
            if opening.done() and self._opening is opening:
                self._opening = None

    async def _open(self) -> None:
        async with AsyncExitStack() as stack:
            opened = await stack.enter_async_context(tenant_for(self._options))
            await self._begin(stack, opened, await self._kernel_of(opened))
            await self._put_files()
            self._stack, self._opened = stack.pop_all(), opened

    async def _begin(self, stack: AsyncExitStack, opened: OpenTenant, session: Session) -> None:
        self._session = session
        stack.push_async_callback(self._close_kernel)
        self._catalog = CurrentCatalog(opened.tenant.tool_registry, opened.tenant.vectors)
        stack.push_async_callback(self._catalog.close)

    async def close(self) -> None:
        """End the code that runs, the kernel, and what no other session uses. Idempotent."""
        self._closed = True
        self.thread.closers.discard(self.close)
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        if self._session is not None:
            self._session.interrupt(at_once=True)
        stack, self._stack = self._stack, AsyncExitStack()
        await finish(stack.aclose())

    async def reset(self) -> None:
        """A new kernel: variables and files are gone; files given to the session are there again."""
        await self.open()
        assert self._opened is not None
        kernel = await self._kernel_of(self._opened)
        before = self._session
        assert before is not None
        self._session = kernel.with_packages_of(before)
        before.interrupt(at_once=True)
        await finish(before.close())
        await self._put_files()

    def interrupt(self) -> None:
        """End what runs now; its caller gets a result with the error `Cancelled`."""
        if self._session is not None:
            self._session.interrupt()

    async def _close_kernel(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _put_files(self) -> None:
        assert self._session is not None
        for path, content in (self._options.files or {}).items():
            await put(self._session.files, path, content, replace=True)

    async def _kernel_of(self, opened: OpenTenant) -> Session:
        options = self._options
        folders = await asyncio.to_thread(options.folders, dict(os.environ))
        if self._session is not None and self._rules is not None:
            self._rules = self._session.network.rules  # what was denied meanwhile stays denied
        return opened.tenant.runtime.session(
            _grant_of(opened), checkpoints=options.checkpoints, network=self._rules, folders=folders
        )

    async def install(self, text: str) -> InstalledPackages:
        """Install packages into the kernel in use. Raises PackageError, also when the session is closed meanwhile."""
        over = PackageError("nothing was installed: the session was closed meanwhile")
        return await self._unless_closed((await self._kernel()).install(text), over)

    async def expect_servers(self, config: McpConfig) -> None:
        """Let the next execution know more servers. No rule of a policy is added. They end with the tenant."""
        await self.open()
        assert self._opened is not None
        await self._opened.tenant.added_servers.expect(config)

    # --- network

    @property
    def allowed(self) -> tuple[str, ...]:
        """The domains that code may reach now."""
        rules = self._session.network.rules if self._session is not None and self._rules is not None else self._rules
        return () if rules is None else tuple(map(str, rules.domains))

    @property
    def refused(self) -> tuple[str, ...]:
        """Why the newest connections were refused."""
        return () if self._session is None or self._rules is None else self._session.network.refusals()

    async def allow(self, more: tuple[DomainRule, ...]) -> None:
        """Let code reach more from now on."""
        (await self._kernel()).network.allow(more)

    async def deny(self, patterns: tuple[str, ...]) -> None:
        """Let code reach these no longer."""
        (await self._kernel()).network.deny(patterns)

    # --- checkpoints

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Those that are kept, the oldest first."""
        return () if self._session is None else self._session.checkpoints.kept

    async def checkpoint(self, name: str) -> Checkpoint:
        """Keep the state as it is."""
        return await (await self._kernel()).checkpoints.take(name)

    async def undo(self, n: int, to: Checkpoint | None) -> Undone:
        """Go back."""
        return undone_of(await (await self._kernel()).checkpoints.undo(n, to=to))

    async def fork(self) -> HostedSession:
        """Another session that begins with the state of this one."""
        session = await (await self._kernel()).checkpoints.fork()
        assert self._opened is not None
        forked = HostedSession(self.thread, self._options, self.types)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(forked.close)
            opened = await forked._stack.enter_async_context(same_tenant(self._opened))
            await forked._begin(forked._stack, opened, session)
            forked._opened = opened
            stack.pop_all()
        return forked

    async def _kernel(self) -> Session:
        await self.open()
        assert self._session is not None
        return self._session

    # --- executions

    async def run(self, request: CodeRequest, caller: Caller) -> Result:
        """Run code to its end; `caller` calls the application's function. Raises what keeps code from running."""
        request = self._as_read_here(request)
        if self._asks_elsewhere:
            await self.open()
            assert self._session is not None
            return self._done(await _interruptible(self._session, request))
        stream = await self.stream(request, (), caller, answer_all=True)
        try:
            while True:
                events = await stream.next()
                assert events, "the last event of a stream is its result"
                if isinstance(events[-1], Result):
                    return events[-1]
        finally:
            await stream.close()

    async def stream(
        self, request: CodeRequest, questions: Collection[QuestionKind], caller: Caller, *, answer_all: bool = False
    ) -> HostedStream:
        """Begin code whose events are read one by one. `answer_all`: no question is left to the reader."""
        await self.open()
        assert self._opened is not None
        assert self._session is not None
        request = self._as_read_here(request)
        approve = self._options.approve
        answer: Callable[[ApprovalQuestion], None] | None = None
        if callable(approve):
            answer = _Answers(self, approve, caller).begin
        elif answer_all:
            answer = _Answers(self, None, caller).begin
        stream = HostedStream(self, self._session, answer)
        await stream.begin(request, self._opened, questions)
        return stream

    def _as_read_here(self, request: CodeRequest) -> CodeRequest:
        """Where the environment has IPython, it reads Python code."""
        return replace(request, ipython=self._options.environment == "data") if request.language == PYTHON else request

    @property
    def _asks_elsewhere(self) -> bool:
        return isinstance(self._options.approve, str)

    def _done(self, envelope: Envelope) -> Result:
        recovery = None if self._session is None else self._session.last_recovery
        if recovery is not None and recovery[0] == envelope.run_id:
            result = result_of(envelope, undone_of(recovery[1]))
        else:
            result = result_of(envelope)
        self.usage = self.usage.plus(result)
        return result

    done = _done

    # --- files and tools

    async def files(self) -> SessionFiles:
        """The files of the kernel in use."""
        await self.open()
        assert self._session is not None
        return self._session.files

    async def call_tool(
        self, server_id: str, tool: str, arguments: JsonObject, take: Callable[[ApprovalQuestion], None]
    ) -> ToolCallOutcome:
        """Call a tool without code; `take` gets questions about it. Raises JournalError, InputError once it closes."""
        await self.open()
        assert self._opened is not None
        opened = self._opened
        with opened.events.bound(take) as begun:
            runtime, grant = opened.tenant.runtime, _grant_of(opened)
            call = call_directly(runtime, grant, server_id, tool, arguments, begun=begun)
            return await self._unless_closed(call, InputError("the servers were closed during the call"))

    async def _unless_closed(self, work: Coroutine[Any, Any, _T], over: MoonpoolError) -> _T:
        """What `work` comes to. Raises `over` when the session is closed meanwhile."""
        call = asyncio.ensure_future(work)
        self._calls.add(call)
        try:
            return await call
        except asyncio.CancelledError:
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            if self._closed:
                raise over from None
            raise
        finally:
            self._calls.discard(call)

    async def relisted(self, server_id: str) -> ToolSnapshot:
        """The tools after asking this server for its own again."""
        await self.open()
        assert self._opened is not None
        registry = self._opened.tenant.tool_registry
        return await (registry.snapshot() if server_id in registry.left_out else registry.refresh(server_id))

    async def catalog(self) -> Any:
        """The catalog of the tools as they are now, and the module that renders what it finds."""
        await self.open()
        assert self._catalog is not None
        return await self._catalog.get()


class HostedStream:
    """The events of one execution, read in one place: those that wait, at once."""

    def __init__(
        self, hosted: HostedSession, session: Session, answer: Callable[[ApprovalQuestion], None] | None
    ) -> None:
        self._hosted, self._session, self._answer = hosted, session, answer
        self.thread = hosted.thread
        self._stack = AsyncExitStack()
        self._events: RunEvents | None = None
        self._texts = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        self._waiting: list[Event] = []
        self._reading = False
        self._ended = False

    async def begin(self, request: CodeRequest, opened: OpenTenant, questions: Collection[QuestionKind]) -> None:
        """Begin the execution."""
        self._events = await self._stack.enter_async_context(
            run_events(self._session.execute, request, opened.events, asks=questions)
        )

    async def next(self) -> list[Event]:
        """The next events, at least one; none after the last. Raises what kept the code from running.

        A question comes first, or not at all: it is open when it is handed over.
        """
        if self._reading:
            raise InputError("this stream is being read already; read it in one place")
        self._reading = True
        try:
            while not self._waiting and not self._ended:
                await self._read()
            events, self._waiting = self._waiting, []
            return events
        finally:
            self._reading = False

    async def _read(self) -> None:
        assert self._events is not None
        try:
            events = await self._events.several(_EVENTS_MAX)
        except MoonpoolError:
            self._ended = True
            await self._stack.aclose()
            raise
        self._ended = not events
        for event in events:
            await self._take(event)

    async def _take(self, event: RunEvent) -> None:
        match event:
            case OutputChunk():
                self._hear(event)
            case CallStarted() | CallEnded() | CallProgress():
                self._waiting.append(call_event(event))
            case HostedDropped():
                self._waiting.append(CallEventsDropped(count=event.count))
            case ApprovalQuestion() if self._answer is not None:
                self._answer(event)
            case ApprovalQuestion():
                self._waiting.append(self._hosted.types.request(**approval_fields(event, self.thread)))
            case HostedQuestion():
                self._waiting.append(self._hosted.types.question(**question_fields(event, self.thread)))
            case RunEnded():
                self._end(event.envelope)
                await self._stack.aclose()

    def _hear(self, chunk: OutputChunk) -> None:
        name: Any = chunk.stream.name.lower()
        text = self._texts[name].decode(chunk.data)
        if text or chunk.dropped_bytes:
            self._waiting.append(Output(stream=name, text=text, dropped_bytes=chunk.dropped_bytes))

    def _end(self, envelope: Envelope) -> None:
        self._ended = True
        for name, decoder in self._texts.items():
            if text := decoder.decode(b"", final=True):
                stream: Any = name
                self._waiting.append(Output(stream=stream, text=text))
        result = self._hosted.done(envelope)
        self._waiting.extend(result.displays)
        self._waiting.append(result)

    async def close(self) -> None:
        """End the code if it still runs, and wait for its end. Idempotent."""
        if not self._ended and self._events is not None and self._events.run_id:
            self._session.interrupt(run_id=self._events.run_id)
            with suppress(Exception):
                await finish(self._drain())
        self._ended = True
        with suppress(MoonpoolError):  # its reader has gone
            await finish(self._stack.aclose())

    async def _drain(self) -> None:
        """Read to the end. Questions are refused: whoever would answer them has gone."""
        assert self._events is not None
        async for event in self._events:
            if isinstance(event, ApprovalQuestion):
                with suppress(ApprovalAnswerError):
                    await event.deny("the application stopped listening before it answered")
            elif isinstance(event, HostedQuestion):
                event.give_up("the application stopped listening before it answered")
            elif isinstance(event, RunEnded):
                self._hosted.done(event.envelope)


class _Answers:
    """Has the application's function answer questions, several at a time; without one, refuses them."""

    def __init__(self, hosted: HostedSession, function: Callable[[Any], Any] | None, caller: Caller) -> None:
        self._hosted, self._function, self._caller = hosted, function, caller
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, question: ApprovalQuestion) -> None:
        """Begin to answer a question."""
        task = asyncio.ensure_future(self._settle(question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, question: ApprovalQuestion) -> None:
        try:
            await self._answer(question)
        except ApprovalAnswerError as error:
            _log.debug("%s", error)
            if question.is_open:  # else it is too late, or the function has answered it itself
                with suppress(ApprovalAnswerError):
                    await question.deny("policy wants a person to answer, and the approve function named none")

    async def _answer(self, question: ApprovalQuestion) -> None:
        function = self._function
        if function is None:
            await question.deny(_NOBODY)
            return
        hosted = self._hosted
        request = hosted.types.request(**approval_fields(question, hosted.thread))
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


def _grant_of(opened: OpenTenant) -> CallerGrant:
    grant, approver = opened.tenant.caller_grant, opened.approver
    if isinstance(approver, TerminalApprover):
        grant = answered_by(grant, lambda: TerminalForms(approver.terminal, name=approver.name))
    return grant


async def _interruptible(session: Session, request: CodeRequest) -> Envelope:
    """Execute; a cancellation interrupts the code and waits for its end, so that its state stays."""
    begun: list[str] = []
    before = request.begun

    def on_begun(run_id: str) -> None:
        begun.append(run_id)
        if before is not None:
            before(run_id)

    run = asyncio.ensure_future(session.execute(replace(request, begun=on_begun)))
    try:
        return await asyncio.shield(run)
    except asyncio.CancelledError:
        if begun:
            session.interrupt(run_id=begun[0])
        else:
            run.cancel()
        await finish(_settled(run))
        raise


async def _settled(run: asyncio.Future[Envelope]) -> None:
    await asyncio.wait({run})
    if not run.cancelled():
        run.exception()


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
