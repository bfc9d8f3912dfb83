"""A session as it lives in the runtime's thread. Everything here is called in that thread's event loop only.

INVARIANT: an execution whose caller is gone is interrupted, and waited for: its variables and files stay, and its end
is on record, before the caller hears of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from moonpool.core.errors import InputError, MoonpoolError
from moonpool.core.languages import PYTHON
from moonpool.core.phrases import on_one_line
from moonpool.engine.answering import answered_by
from moonpool.engine.branches import Checkpoint
from moonpool.engine.current_catalog import CurrentCatalog
from moonpool.engine.direct_calls import call_directly
from moonpool.engine.interruption import interruptible
from moonpool.engine.packages.model import PackageError
from moonpool.network.rules import HeaderCredential, parse_domain
from moonpool.sandboxes.shielding import finish
from moonpool.sdk.approve_functions import answers_of
from moonpool.sdk.argument_types import must_be
from moonpool.sdk.checkpoints import undone_of
from moonpool.sdk.engines import same_tenant, tenant_for
from moonpool.sdk.hosted_stream import HostedStream
from moonpool.sdk.results import Result, Usage, result_of
from moonpool.sdk.runtime_thread import CLOSED
from moonpool.sdk.tool_search import definition, found, listed
from moonpool.sdk.transfers import put
from moonpool.terminal.approver import TerminalApprover
from moonpool.terminal.forms import TerminalForms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Sequence

    from moonpool.catalog.catalog import Catalog
    from moonpool.configuration.servers import McpConfig
    from moonpool.core.calls import ToolCallOutcome
    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.files.service import SessionFiles
    from moonpool.engine.packages.model import InstalledPackages
    from moonpool.engine.server_request_events import QuestionKind
    from moonpool.engine.sessions import Session
    from moonpool.features.approvals.events import ApprovalQuestion
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.sdk.approve_functions import Caller, EventTypes
    from moonpool.sdk.checkpoints import Undone
    from moonpool.sdk.engines import OpenTenant
    from moonpool.sdk.options import SessionOptions
    from moonpool.sdk.runtime_thread import RuntimeThread
    from moonpool.sdk.session_host import SessionHost
    from moonpool.sdk.tool_search import Form, Tool
    from moonpool.tools.snapshot import ToolSnapshot

_log = logging.getLogger("moonpool.sdk")
_T = TypeVar("_T")


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
        self._calls: set[asyncio.Future[Any]] = set()  # which closing ends: tool calls, installations, resets, forks
        self._rules = options.network_rules()  # that the next kernel begins with
        self._closed = False
        self._told: set[str] = set()  # servers whose problems are in the log
        self.usage = Usage()
        thread.closers.add(self.close)

    # --- life

    async def open(self) -> None:
        """Open it, once. Raises what opening raises, again each time it is tried."""
        self._check_open()
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
        self._check_open()  # it may have been closed since then

    def _check_open(self) -> None:
        if self._closed:
            raise InputError(CLOSED)

    async def _open(self) -> None:
        async with AsyncExitStack() as stack:
            opened = await stack.enter_async_context(tenant_for(self._options))
            self._begin(stack, opened, await self._kernel_of(opened))
            await self._put_files()
            self._stack, self._opened = stack.pop_all(), opened
            self._tell_problems()

    def _begin(self, stack: AsyncExitStack, opened: OpenTenant, session: Session) -> None:
        self._session = session
        stack.push_async_callback(self._close_kernel)
        self._catalog = CurrentCatalog(opened.tenant.tool_registry, opened.tenant.vectors)
        stack.push_async_callback(self._catalog.close)

    def _tell_problems(self) -> None:
        """Log why servers cannot be used, as soon as it is known: each server once in a session."""
        assert self._opened is not None
        tenant = self._opened.tenant
        for server_id, error in tenant.tool_registry.problems.items():
            if server_id not in self._told:
                self._told.add(server_id)
                _log.warning("%s", on_one_line(tenant.runtime.redactor.text(str(error), Counter())))

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
        await self._unless_closed(self._reset(), InputError(CLOSED))

    async def _reset(self) -> None:
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
            _grant_of(opened),
            final=options.final,
            checkpoints=options.checkpoints,
            network=self._rules,
            folders=folders,
        )

    async def install(self, packages: tuple[str, ...]) -> InstalledPackages:
        """Install packages into the kernel in use. Raises PackageError, also when the session is closed meanwhile."""
        if wrong := [one for one in cast("tuple[object, ...]", packages) if not isinstance(one, str)]:
            raise InputError(f'install takes strings: install("numpy>=2", "pandas"), not {type(wrong[0]).__name__}')
        over = PackageError("nothing was installed: the session was closed meanwhile")
        return await self._unless_closed((await self._kernel()).install("\n".join(packages)), over)

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

    async def allow(self, domains: tuple[str, ...], credential: HeaderCredential | None) -> None:
        """Let code reach more from now on."""
        _check_domains(domains)
        must_be(credential, HeaderCredential | None, "the credential", "a moonpool.HeaderCredential")
        rules = tuple(parse_domain(text, credential) for text in domains)
        (await self._kernel()).network.allow(rules)

    async def deny(self, patterns: tuple[str, ...]) -> None:
        """Let code reach these no longer."""
        _check_domains(patterns)
        (await self._kernel()).network.deny(patterns)

    # --- checkpoints

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Those that are kept, the oldest first."""
        return () if self._session is None else self._session.checkpoints.kept

    async def checkpoint(self, name: str) -> Checkpoint:
        """Keep the state as it is."""
        must_be(name, str, "the name of a checkpoint", "a string")
        return await (await self._kernel()).checkpoints.take(name)

    async def undo(self, n: int, to: Checkpoint | None) -> Undone:
        """Go back."""
        if not isinstance(cast("object", to), Checkpoint | None):
            raise InputError(f"`to` is what `checkpoint()` returned, or one of `checkpoints`, not {to!r}")
        if not isinstance(cast("object", n), int) or isinstance(n, bool):
            raise InputError(f"n is the number of executions to undo, not {n!r}; a checkpoint is given as undo(to=...)")
        return undone_of(await (await self._kernel()).checkpoints.undo(n, to=to))

    async def fork(self, made: list[SessionHost]) -> None:
        """Put into `made` another session, with the state of this one. Whoever has the list closes it, also when this
        raises, and leaves its thread.
        """
        await self.open()
        await self._unless_closed(self._fork(made), InputError(CLOSED))

    async def _fork(self, made: list[SessionHost]) -> None:
        assert self._opened is not None
        assert self._session is not None
        forked = HostedSession(self.thread, self._options, self.types)
        self.thread.stay()  # while this session keeps it
        made.append(forked)
        opened = await forked._stack.enter_async_context(same_tenant(self._opened))
        forked._begin(forked._stack, opened, await self._session.checkpoints.fork())
        forked._opened, forked._told = opened, self._told

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
            return self._done(await interruptible(self._session, request))
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
        answers = answers_of(self._options, caller, answer_all=answer_all)
        stream = HostedStream(self.thread, self.types, self._session, self._done, answers)
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
        self._tell_problems()
        return result

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

    async def search(self, queries: str | Sequence[str], server: str | None, limit: int) -> tuple[Tool, ...]:
        """The tools that fit best."""
        return found(await self._current(), queries, server, limit)

    async def tools(self, server: str | None) -> tuple[Tool, ...]:
        """All tools, or one server's."""
        return listed(await self._current(), server)

    async def definition(self, path: str, form: Form) -> str | JsonObject:
        """All of one tool's definition."""
        return definition(await self._current(), path, form)

    async def _current(self) -> Catalog:
        """The catalog of the tools as they are now."""
        await self.open()
        assert self._catalog is not None
        catalog = await self._catalog.get()
        self._tell_problems()
        return catalog


def _check_domains(domains: tuple[str, ...]) -> None:
    for domain in domains:
        must_be(domain, str, "a domain", "a string")


def _grant_of(opened: OpenTenant) -> CallerGrant:
    grant, approver = opened.tenant.caller_grant, opened.approver
    if isinstance(approver, TerminalApprover):
        grant = answered_by(grant, lambda: TerminalForms(approver.terminal, name=approver.name))
    return grant
