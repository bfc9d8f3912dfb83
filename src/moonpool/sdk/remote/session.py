"""One session at a service.

INVARIANT: an execution whose caller is gone is ended at the service, too, and its end waited for, where that can be
reached; else the service ends the session when nobody comes back.
"""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from moonpool.core.errors import InputError, MoonpoolError
from moonpool.engine.branches import Checkpoint
from moonpool.engine.packages.model import PackageError
from moonpool.network.rules import HeaderCredential
from moonpool.sandboxes.shielding import finish
from moonpool.sdk.approve_functions import answers_of
from moonpool.sdk.argument_types import is_strings, must_be
from moonpool.sdk.remote import answers
from moonpool.sdk.remote.connection import Connection
from moonpool.sdk.remote.files import RemoteFiles
from moonpool.sdk.remote.lines import ExecutionLines
from moonpool.sdk.remote.stream import RemoteStream
from moonpool.sdk.results import Result, Usage
from moonpool.sdk.runtime_thread import CLOSED
from moonpool.sdk.tool_search import Tool
from moonpool.sdk.transfers import put
from moonpool.server.http.sessions import messages

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Sequence

    from moonpool.core.json import JsonObject
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.packages.model import InstalledPackages
    from moonpool.engine.server_request_events import QuestionKind
    from moonpool.sdk.approve_functions import Caller, EventTypes
    from moonpool.sdk.checkpoints import Undone
    from moonpool.sdk.options import SessionOptions
    from moonpool.sdk.remote.address import ServiceAddress
    from moonpool.sdk.runtime_thread import RuntimeThread
    from moonpool.sdk.session_host import SessionHost
    from moonpool.sdk.tool_search import Form
    from moonpool.server.http.sessions.lines import ResultLine

_log = logging.getLogger("moonpool.sdk")
_T = TypeVar("_T")
_CLOSE_S: Final = 30.0
_LATE_S: Final = 5.0


class RemoteSession:
    """A `SessionHost` of a service."""

    def __init__(
        self, thread: RuntimeThread, address: ServiceAddress, options: SessionOptions, types: EventTypes
    ) -> None:
        self.thread, self.types = thread, types
        self.usage = Usage()
        self._address, self._options = address, options
        self._connection: Connection | None = None
        self._path = ""  # of the session, once it is open
        self._opening: asyncio.Task[None] | None = None
        self._closed = False
        self._streams: dict[str, RemoteStream] = {}  # of executions that have not ended, by their ids
        self._calls: set[asyncio.Future[Any]] = set()
        self._state = messages.SessionState()
        self._allowed_first = options.network_rules()
        thread.closers.add(self.close)

    # --- life

    async def open(self) -> None:
        """Open it, once. Raises what opening raises, again each time it is tried."""
        self._check_open()
        if self._path and self._opening is None:
            return
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        opening = self._opening
        try:
            await asyncio.shield(opening)
        finally:
            if opening.done() and self._opening is opening:
                self._opening = None
        self._check_open()

    def _check_open(self) -> None:
        if self._closed:
            raise InputError(CLOSED)

    @property
    def _service(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._address)
        return self._connection

    async def _open(self) -> None:
        wanted = answers.wanted_session(self._options)
        try:
            await _settled(self._create(wanted))
            await self._put_files()
        except BaseException:
            with suppress(MoonpoolError):
                await finish(self._end_there())
            raise

    async def _create(self, wanted: messages.CreateSession) -> None:
        """INVARIANT: not given up at once: a session that nobody knows of would stay until it is idle for long."""
        self._take(await self._service.order("POST", "sessions", wanted, messages.SessionAnswer))

    def _take(self, answer: messages.SessionAnswer) -> None:
        self._path, self._state = f"sessions/{answer.id}", answer.state

    async def _put_files(self) -> None:
        files = RemoteFiles(self._service, self._path)
        for path, content in (self._options.files or {}).items():
            await put(files, path, content, replace=True)

    async def close(self) -> None:
        """End it at the service, and what runs in it. Idempotent."""
        self._closed = True
        self.thread.closers.discard(self.close)
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        try:
            await finish(self._end_there())
        except MoonpoolError as error:
            _log.warning("a session at a service could not be closed, and ends when it is idle for long: %s", error)
        if self._calls:
            await asyncio.wait(tuple(self._calls), timeout=_CLOSE_S)
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            await finish(connection.close())

    async def _end_there(self) -> None:
        path, self._path = self._path, ""
        if not path:
            return
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._service.order("DELETE", path, None, type(None))
        except TimeoutError:
            _log.warning("a service did not close a session in time; it ends when it is idle for long")
        except MoonpoolError as error:
            if error.code != "session_unknown":  # it has ended
                raise

    async def _called(self, work: Coroutine[Any, Any, _T]) -> _T:
        """What an order comes to in the open session. Raises InputError when it is closed meanwhile."""
        try:
            await self.open()
        except BaseException:
            work.close()
            raise
        call = asyncio.ensure_future(work)
        self._calls.add(call)
        try:
            return await call
        except MoonpoolError as error:
            if self._closed and error.code == "session_unknown":
                raise InputError(CLOSED) from None
            raise
        except asyncio.CancelledError:
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            raise
        finally:
            self._calls.discard(call)

    async def _order(self, path: str, body: Any, answer: type[_T]) -> _T:
        return await self._service.order("POST", f"{self._path}/{path}", body, answer)

    # --- executions

    async def run(self, request: CodeRequest, caller: Caller) -> Result:
        """Run code to its end. Raises what keeps code from running."""
        stream = await self.stream(request, (), caller, answer_all=True)
        try:
            while True:
                events = await stream.next()
                if not events:
                    raise InputError(CLOSED)
                if isinstance(events[-1], Result):
                    return events[-1]
        finally:
            await stream.close()

    async def stream(
        self, request: CodeRequest, questions: Collection[QuestionKind], caller: Caller, *, answer_all: bool = False
    ) -> RemoteStream:
        """Begin code whose events are read one by one. `answer_all`: no question is left to the reader."""
        await self.open()
        if request.timeout_s is not None and not math.isfinite(request.timeout_s):
            raise InputError(f"the timeout must be a number of seconds, not {request.timeout_s!r}")
        asked = messages.RunCode(
            code=request.code.decode(),
            id=token_hex(16),
            timeout=request.timeout_s,
            language="typescript" if request.typescript else request.language,
            questions=tuple(questions),
        )
        told = ExecutionLines(self._service, self._path, asked)
        answering = answers_of(self._options, caller, answer_all=answer_all)
        stream = RemoteStream(self.thread, self.types, self._service, self._path, told, self._done, answering)
        self._streams = {name: one for name, one in self._streams.items() if not one.has_ended}
        self._streams[told.execution_id] = stream
        return stream

    def _done(self, line: ResultLine) -> Result:
        result = answers.result_of_line(line)
        self._state = line.state
        self.usage = self.usage.plus(result)
        return result

    def interrupt(self) -> None:
        """End what runs now of the executions that were begun here. Returns at once."""
        running = tuple(name for name, one in self._streams.items() if not one.has_ended)
        if not running or not self._path:
            return
        interrupting = asyncio.ensure_future(self._interrupt(messages.Interrupt(executions=running)))
        self._calls.add(interrupting)
        interrupting.add_done_callback(self._calls.discard)

    async def _interrupt(self, asked: messages.Interrupt) -> None:
        try:
            await self._order("interrupt", asked, type(None))
        except MoonpoolError as error:
            _log.warning("code at a service could not be interrupted: %s", error)

    # --- orders

    async def reset(self) -> None:
        """A new kernel: variables and files are gone; files given to the session are there again."""
        await self._called(self._reset())

    async def _reset(self) -> None:
        self._take(await self._order("reset", None, messages.SessionAnswer))
        await self._put_files()

    async def install(self, packages: tuple[str, ...]) -> InstalledPackages:
        """Install packages. Raises PackageError, also when the session is closed meanwhile."""
        if wrong := [one for one in cast("tuple[object, ...]", packages) if not isinstance(one, str)]:
            raise InputError(f'install takes strings: install("numpy>=2", "pandas"), not {type(wrong[0]).__name__}')
        try:
            asked = messages.InstallPackages(packages=packages)
            return answers.installed_of(await self._called(self._order("packages", asked, messages.Installed)))
        except InputError as error:
            if self._closed:
                raise PackageError("nothing was installed: the session was closed meanwhile") from error
            raise

    async def checkpoint(self, name: str) -> Checkpoint:
        """Keep the state as it is."""
        must_be(name, str, "the name of a checkpoint", "a string")
        self._check_checkpoints()
        asked = messages.TakeCheckpoint(name=name)
        answer = await self._called(self._order("checkpoints", asked, messages.CheckpointAnswer))
        self._state = answer.state
        return answers.checkpoint_of(answer.checkpoint)

    async def undo(self, n: int, to: Checkpoint | None) -> Undone:
        """Go back."""
        if not isinstance(cast("object", to), Checkpoint | None):
            raise InputError(f"`to` is what `checkpoint()` returned, or one of `checkpoints`, not {to!r}")
        if not isinstance(cast("object", n), int) or isinstance(n, bool):
            raise InputError(f"n is the number of executions to undo, not {n!r}; a checkpoint is given as undo(to=...)")
        self._check_checkpoints()
        asked = messages.Undo(n=n, to=None if to is None else answers.ref_of(to))
        answer = await self._called(self._order("undo", asked, messages.UndoAnswer))
        self._state = answer.state
        return answers.undone_of(answer.undone)

    async def fork(self, made: list[SessionHost]) -> None:
        """Put another session, with the state of this one, into `made`."""
        self._check_checkpoints()
        await self._called(_settled(self._fork(made)))

    async def _fork(self, made: list[SessionHost]) -> None:
        answer = await self._order("fork", None, messages.SessionAnswer)
        forked = RemoteSession(self.thread, self._address, self._options, self.types)
        self.thread.stay()  # while this session keeps it
        forked._take(answer)
        made.append(forked)

    def _check_checkpoints(self) -> None:
        if not self._options.checkpoints:
            raise InputError("this session keeps no checkpoints; open it with checkpoints=True")

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Those that were kept when the service last answered, the oldest first."""
        self._check_checkpoints()
        return tuple(map(answers.checkpoint_of, self._state.checkpoints or ()))

    # --- network

    @property
    def allowed(self) -> tuple[str, ...]:
        """The domains that code may reach, as the service last said."""
        if self._state.network is not None:
            return self._state.network.allowed
        return () if self._allowed_first is None else tuple(map(str, self._allowed_first.domains))

    @property
    def refused(self) -> tuple[str, ...]:
        """Why the newest connections were refused, as the service last said."""
        return () if self._state.network is None else self._state.network.refused

    async def allow(self, domains: tuple[str, ...], credential: HeaderCredential | None) -> None:
        """Let code reach more from now on."""
        _check_domains(domains)
        must_be(credential, HeaderCredential | None, "the credential", "a moonpool.HeaderCredential")
        given = None if credential is None else answers.credential_of(credential)
        await self._change(messages.ChangeNetwork(allow=domains, credential=given))

    async def deny(self, patterns: tuple[str, ...]) -> None:
        """Let code reach these no longer."""
        _check_domains(patterns)
        await self._change(messages.ChangeNetwork(deny=patterns))

    async def _change(self, asked: messages.ChangeNetwork) -> None:
        self._take(await self._called(self._order("network", asked, messages.SessionAnswer)))

    # --- files and tools

    async def files(self) -> RemoteFiles:
        """The files of the session."""
        await self.open()
        return RemoteFiles(self._service, self._path)

    async def search(self, queries: str | Sequence[str], server: str | None, limit: int) -> tuple[Tool, ...]:
        """The tools that fit best."""
        if not isinstance(cast("object", queries), str) and not is_strings(queries):
            raise InputError("queries must be a question or a list of questions, each a string")
        must_be(server, str | None, "server", "the name of a server")
        must_be(limit, int, "limit", "a number")
        several = (queries,) if isinstance(queries, str) else tuple(queries)
        asked = messages.SearchTools(queries=several, server=server, limit=limit)
        return _tools(await self._called(self._order("tools/search", asked, messages.ToolList)))

    async def tools(self, server: str | None) -> tuple[Tool, ...]:
        """All tools, or one server's."""
        must_be(server, str | None, "server", "the name of a server")
        query = {} if server is None else {"server": server}
        return _tools(await self._asked("tools", messages.ToolList, query))

    async def definition(self, path: str, form: Form) -> str | JsonObject:
        """All of one tool's definition."""
        must_be(path, str, "the path of a tool", "a string")
        must_be(form, str, "form", "stub, typescript or json")
        query = {"path": path, "form": str(form)}
        return (await self._asked("tools/definition", messages.Definition, query)).definition

    async def _asked(self, path: str, answer: type[_T], query: dict[str, str]) -> _T:
        await self.open()
        return await self._called(self._service.get(f"{self._path}/{path}", answer, query))


async def _settled(work: Coroutine[Any, Any, _T]) -> _T:
    """What `work` comes to. A cancellation waits for its end for a moment, so that what it makes is not forgotten."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            await asyncio.wait({task}, timeout=_LATE_S)
        finally:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise


def _tools(found: messages.ToolList) -> tuple[Tool, ...]:
    return tuple(
        Tool(server=one.server, name=one.name, path=one.path, description=one.description) for one in found.tools
    )


def _check_domains(domains: tuple[str, ...]) -> None:
    for domain in domains:
        must_be(domain, str, "a domain", "a string")
