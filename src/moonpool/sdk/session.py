"""Sessions for applications with an event loop. The same without one: `moonpool.sync`."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar, cast

from moonpool.core.languages import PYTHON
from moonpool.sdk import transfers
from moonpool.sdk.approve_functions import EventTypes, in_loop
from moonpool.sdk.events import (
    ApprovalRequest,
    CallEventsDropped,
    Output,
    Progress,
    ServerQuestion,
    ToolCallEnded,
    ToolCallStarted,
)
from moonpool.sdk.options import SessionOptions
from moonpool.sdk.requests import checked_kinds, code_request
from moonpool.sdk.results import Display, Result
from moonpool.sdk.session_handle import SessionHandle, StreamHandle

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
    from pathlib import Path

    from moonpool.core.json import JsonObject
    from moonpool.engine.files.service import FileEntry
    from moonpool.engine.packages.model import InstalledPackages
    from moonpool.engine.server_request_events import QuestionKind
    from moonpool.network.rules import HeaderCredential
    from moonpool.sdk.checkpoints import Checkpoint, Undone
    from moonpool.sdk.options import AllowedDomains, FileContent, Limits, Servers
    from moonpool.sdk.results import Usage
    from moonpool.sdk.runtime_thread import Call
    from moonpool.sdk.session_host import FilesOfSession, SessionHost
    from moonpool.sdk.tool_search import Form, Tool

_T = TypeVar("_T")
Event: TypeAlias = (
    Output
    | ToolCallStarted
    | ToolCallEnded
    | CallEventsDropped
    | Progress
    | ApprovalRequest
    | ServerQuestion
    | Display
    | Result
)
"""What `Session.stream` yields; the last is the `Result`."""
Answer: TypeAlias = "bool | str | None"
"""Of an `approve` function: True allows the call; False, None or a string, the reason, refuses it."""
Approve: TypeAlias = "Callable[[ApprovalRequest], Answer | Awaitable[Answer]] | Literal['ask', 'queue'] | None"
"""Who answers: a function, the terminal, `moonpool approvals`. None: whoever reads the stream."""
TYPES = EventTypes(ApprovalRequest, ServerQuestion)


class Session:
    """Code that keeps its variables and files from one execution to the next. Made by `moonpool.session`.

    Used from any event loop, and from several: executions run one after the other, in the order of their calls.
    """

    def __init__(self, options: SessionOptions, *, handle: SessionHandle | None = None) -> None:
        self._options = options
        self._handle = handle or SessionHandle(options, TYPES, lambda: partial(in_loop, asyncio.get_running_loop()))
        self.files = Files(self._handle)
        self.tools = Tools(self._handle)
        self.network = NetworkAccess(self._handle)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Open the session now; else its first use does. Raises ConfigError, HostUnfitError and the like."""
        try:
            await self._handle.call(lambda hosted: hosted.open()).wait()
        except BaseException:
            await _ended(self._handle.give_up())
            raise

    async def run(self, code: str, *, timeout: float | None = None, language: str = PYTHON) -> Result:
        """Run code to its end and return what came of it; code that fails is a result too (`Result.check` raises).

        `timeout` is in seconds and does not count the wait for approvals. Calls that need approval are asked about as
        `approve` of the session says, and refused where it says nothing. Cancelling it interrupts the code; variables
        and files stay. Raises InputError for code that cannot be run, and what opening the session raises.
        """
        request = code_request(code, timeout=timeout, language=language)
        caller = self._handle.caller()
        return await self._handle.call(lambda hosted: hosted.run(request, caller)).wait()

    def stream(
        self,
        code: str,
        *,
        timeout: float | None = None,
        language: str = PYTHON,
        questions: Collection[QuestionKind] = (),
    ) -> Stream:
        """Run code and yield its events, the `Result` last.

        Without `approve` in the session, calls that need approval come as `ApprovalRequest`, and wait for its answer.
        `questions` are the kinds of requests of servers (`"form"`, `"url"`, `"sampling"`) that come as
        `ServerQuestion`; others are declined. Leaving the iteration early interrupts the code. Raises InputError.
        """
        request, kinds = code_request(code, timeout=timeout, language=language), checked_kinds(questions)
        return Stream(StreamHandle(self._handle, lambda hosted, caller: hosted.stream(request, kinds, caller)))

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, for good."""
        return self._handle.is_closed

    @property
    def usage(self) -> Usage:
        """What the session used so far."""
        return self._handle.usage

    def interrupt(self) -> None:
        """Interrupt the code that runs now, if any. Its result has the error `Cancelled`; variables and files stay."""
        self._handle.interrupt()

    async def install(self, *packages: str) -> InstalledPackages:
        """Install packages for this session: `await s.install("numpy>=2", "pandas")`. Code can import them at once.

        The host resolves and fetches wheels in a sandbox of their own, which runs none of their code; the session gets
        no network. They stay until the session is closed, over resets. Raises PackageError, and nothing was installed.
        """
        return await self._handle.call(lambda hosted: hosted.install(packages)).wait()

    async def reset(self) -> None:
        """Begin anew: variables and files are gone; packages and the `files` given to the session are there again."""
        await self._handle.call(lambda hosted: hosted.reset()).wait()

    async def checkpoint(self, name: str) -> Checkpoint:
        """Keep variables and `/workspace` as they are, under a name; up to 10 stay until the session ends.

        Executions need none: the state before each of the last 20 is kept. Raises CheckpointError where it cannot be,
        as while the code has other threads, processes or sockets; InputError for a session without `checkpoints`.
        """
        return await self._handle.call(lambda hosted: hosted.checkpoint(name)).wait()

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The states to which `undo` can go back, the oldest first. Raises InputError without `checkpoints`."""
        return self._handle.checkpoints

    async def undo(self, n: int = 1, *, to: Checkpoint | None = None) -> Undone:
        """Put variables and `/workspace` back to before the last `n` executions, or to a checkpoint.

        Later checkpoints are gone. Waits until what runs has ended. Processes that the undone code left are ended. Tool
        calls are not undone: the answer lists them. Raises CheckpointError, and the state is as it was; InputError.
        """
        return await self._handle.call(lambda hosted: hosted.undo(n, to)).wait()

    async def fork(self) -> Session:
        """Another session that begins with the state of this one. Close it, too.

        Both share one sandbox and its limits, run one at a time, and end together when the sandbox does. Raises
        CheckpointError, InputError.
        """
        made: list[SessionHost] = []
        try:
            await self._handle.call(lambda hosted: hosted.fork(made)).wait()
        except BaseException:  # cancelled, perhaps when the work was done
            for forked in made:
                await _ended(self._handle.forked(forked).close())
            raise
        return Session(self._options, handle=self._handle.forked(made[0]))

    async def close(self) -> None:
        """End the session and what runs in it. Closing twice is fine."""
        await _ended(self._handle.close())


class Stream:
    """The events of one execution: `async for event in session.stream(code)`. Read in one place, once."""

    def __init__(self, handle: StreamHandle) -> None:
        self._handle = handle

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._handle.over:
            raise StopAsyncIteration
        if (event := self._handle.take()) is not None:
            return cast("Event", event)
        try:
            event = self._handle.first(await self._handle.fetch().wait())
        except asyncio.CancelledError:
            await self.aclose()  # as a generator is over then; the event that it waited for may be lost
            raise
        except Exception:
            self._handle.over = True
            raise
        if event is None:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Interrupt the code if it still runs, and wait for its end."""
        await _ended(self._handle.close())


class Files:
    """Files of a session: paths are in `/workspace` unless they begin with a slash."""

    def __init__(self, session: SessionHandle) -> None:
        self._session = session

    async def write(self, path: str, content: bytes | str) -> None:
        """Write a file, whole or not at all; a string as UTF-8. Raises FileTransferError."""
        await self._do(lambda files: transfers.put(files, path, content, replace=True))

    async def read(self, path: str) -> bytes:
        """All bytes of a file. Raises FileTransferError."""
        return await self._do(lambda files: transfers.read(files, path))

    async def list(self, path: str = ".", *, recursive: bool = False) -> tuple[FileEntry, ...]:
        """What is in a folder, at most 10,000 entries. Raises FileTransferError."""
        return (await self._do(lambda files: files.list(path, recursive=recursive))).entries

    async def put(self, local: str | os.PathLike[str], path: str | None = None, *, replace: bool = True) -> None:
        """Copy a file of this machine into the session, under its own name or `path`.

        Raises FileTransferError, LocalFileError.
        """
        await self._do(lambda files: transfers.send(files, local, path, replace=replace))

    async def get(self, path: str, local: str | os.PathLike[str] | None = None, *, replace: bool = False) -> Path:
        """Copy a file to this machine, to `local` or into the current directory; return where it is.

        Raises FileTransferError, LocalFileError; then nothing was written.
        """
        return await self._do(lambda files: transfers.get(files, path, local, replace=replace))

    async def delete(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, an empty folder, or with `recursive` a folder and all in it. Raises FileTransferError."""
        await self._do(lambda files: files.delete(path, recursive=recursive))

    async def _do(self, work: Callable[[FilesOfSession], Coroutine[Any, Any, _T]]) -> _T:
        async def reached(hosted: SessionHost) -> _T:
            return await work(await hosted.files())

        return await self._session.call(reached).wait()


class Tools:
    """The tools that code in a session can call."""

    def __init__(self, session: SessionHandle) -> None:
        self._session = session

    async def search(
        self, queries: str | Sequence[str], *, server: str | None = None, limit: int = 10
    ) -> tuple[Tool, ...]:
        """The tools that fit one question or several best. Raises CatalogQueryError, NotInCatalogError."""
        return await self._session.call(lambda hosted: hosted.search(queries, server, limit)).wait()

    async def list(self, server: str | None = None) -> tuple[Tool, ...]:
        """All tools, or those of one server. Raises NotInCatalogError."""
        return await self._session.call(lambda hosted: hosted.tools(server)).wait()

    async def definition(self, path: str, form: Form = "stub") -> str | JsonObject:
        """All of a tool's definition, by the path that `search` gives or `server.tool`.

        `form`: `stub` as Python sees it, `typescript`, or `json`, the server's own. Raises NotInCatalogError.
        """
        return await self._session.call(lambda hosted: hosted.definition(path, form)).wait()


class NetworkAccess:
    """What the code of a session may reach, while it lives. Of a session that was opened with `network`."""

    def __init__(self, session: SessionHandle) -> None:
        self._session = session

    @property
    def allowed(self) -> tuple[str, ...]:
        """The domains that may be reached now."""
        return self._session.allowed

    @property
    def refused(self) -> tuple[str, ...]:
        """Why the newest connections were refused, at most 50, a sentence each that names the domain and what helps."""
        return self._session.refused

    async def allow(self, *domains: str, credential: HeaderCredential | None = None) -> None:
        """Allow these too, from now on; with `credential` the host adds it to requests to them.

        Raises NetworkRuleError, and all is as it was; InputError for a session without a network.
        """
        await self._session.call(lambda hosted: hosted.allow(domains, credential)).wait()

    async def deny(self, *domains: str) -> None:
        """Allow these no longer, as they were written; connections to them end.

        Raises as `allow` does, also for a domain that is not in `allowed`, and for one that others there still allow,
        wholly or in part: deny these with it.
        """
        await self._session.call(lambda hosted: hosted.deny(domains)).wait()


def session(  # noqa: PLR0913  what a session has
    *,
    servers: Servers = None,
    environment: str | None = None,
    policy: str | os.PathLike[str] | None = None,
    approve: Approve = None,
    files: Mapping[str, FileContent] | None = None,
    limits: Limits | None = None,
    checkpoints: bool = False,
    network: AllowedDomains = None,
    packages: str | Sequence[str] | None = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Session:
    """A session in a sealed sandbox: `async with moonpool.session() as s: ...`.

    `servers` are MCP servers whose tools the code may call: a configuration file, or its content. `environment` is
    `base` or `data` (numpy, pandas, matplotlib). `policy` is a file of rules for tool calls. `approve` answers calls
    that policy asks about: a function of the `ApprovalRequest`, plain or async, that returns True, False, or why not;
    `"ask"` asks at the terminal, `"queue"` waits for `moonpool approvals`. `files` are put into `/workspace` before the
    first execution. `limits` are of this session. What is not given stands in the settings (`MOONPOOL_...`).
    With `checkpoints` the session can be undone and forked, which costs each execution some milliseconds and memory.
    `network` are the domains that the code may reach, over HTTP and HTTPS: `["example.com", "*.example.org"]` or a
    `Network`. Without it there is no network. `packages` are those that may be installed: `"any"`, or names such as
    `["numpy", "pandas*"]`.
    `workspace` is a folder of this machine: code works in it, at its own path and as `/workspace`, with the rights of
    its owner; credentials in it are hidden, and its runs cannot be replayed or undone.

    Raises InputError; what opening it meets is raised by its first use.
    """
    return Session(
        SessionOptions(
            servers=servers,
            environment=environment,
            policy=policy,
            approve=approve,
            files=files,
            limits=limits,  # pyright: ignore[reportArgumentType]
            checkpoints=checkpoints,
            network=network,
            packages=packages,
            workspace=workspace,
        )
    )


async def run(  # noqa: PLR0913  those of a session, and of a run
    code: str,
    *,
    timeout: float | None = None,
    language: str = PYTHON,
    servers: Servers = None,
    environment: str | None = None,
    policy: str | os.PathLike[str] | None = None,
    approve: Approve = None,
    files: Mapping[str, FileContent] | None = None,
    limits: Limits | None = None,
    network: AllowedDomains = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Result:
    """Run one piece of code in a sandbox of its own. The parameters are those of `session` and `Session.run`."""
    options = SessionOptions(
        servers=servers,
        environment=environment,
        policy=policy,
        approve=approve,
        files=files,
        limits=limits,  # pyright: ignore[reportArgumentType]
        network=network,
        workspace=workspace,
        final=True,
    )
    async with Session(options) as opened:
        return await opened.run(code, timeout=timeout, language=language)


async def _ended(closing: Call[None] | None) -> None:
    if closing is not None:
        await closing.wait()
