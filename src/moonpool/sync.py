"""`moonpool.sync`: sessions without an event loop, for scripts and notebooks; inside a running loop, too.

Each call blocks its thread until it is done. Sessions may be used from several threads; executions run one after the
other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar, cast

from moonpool.core.languages import PYTHON
from moonpool.sdk import events, transfers
from moonpool.sdk.approve_functions import EventTypes, in_a_thread
from moonpool.sdk.events import CallEventsDropped, Output, Progress, ToolCallEnded, ToolCallStarted
from moonpool.sdk.options import SessionOptions
from moonpool.sdk.remote.address import service_address
from moonpool.sdk.remote.local_copies import copied_here
from moonpool.sdk.requests import checked_kinds, code_request
from moonpool.sdk.results import Display, Result
from moonpool.sdk.service import beginning, check_approve, remote_options
from moonpool.sdk.session_handle import SessionHandle, StreamHandle

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
    from pathlib import Path

    from moonpool.core.json import JsonObject
    from moonpool.engine.files.service import FileEntry
    from moonpool.engine.packages.model import InstalledPackages
    from moonpool.engine.server_request_events import QuestionKind
    from moonpool.network.rules import HeaderCredential
    from moonpool.sdk.checkpoints import Checkpoint, Undone
    from moonpool.sdk.options import AllowedDomains, FileContent, Limits, Servers
    from moonpool.sdk.remote.address import ServiceAddress
    from moonpool.sdk.results import Usage
    from moonpool.sdk.runtime_thread import Call
    from moonpool.sdk.session_host import FilesOfSession, SessionHost
    from moonpool.sdk.tool_search import Form, Tool

__all__ = [
    "ApprovalRequest",
    "Event",
    "Files",
    "NetworkAccess",
    "ServerQuestion",
    "Service",
    "Session",
    "Stream",
    "Tools",
    "connect",
    "run",
    "session",
]

_T = TypeVar("_T")


class ApprovalRequest(events.ApprovalRequest):
    """A call that policy wants somebody to approve; see `moonpool.ApprovalRequest`. Answers block."""

    __slots__ = ()

    def approve(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        *,
        by: str | None = None,
        note: str = "",
        keep_for: str | None = None,
        where: Sequence[str] = (),
        any_arguments: bool = False,
    ) -> None:
        """Allow this call; see `moonpool.ApprovalRequest.approve`."""
        self._answering.approve(by, note, keep_for, where, any_arguments=any_arguments).result()

    def deny(self, note: str = "", *, by: str | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Refuse the call; `note` reaches the code. Raises ApprovalAnswerError."""
        self._answering.deny(note, by).result()


class ServerQuestion(events.ServerQuestion):
    """A server asks during a call; see `moonpool.ServerQuestion`. Answers block."""

    __slots__ = ()

    def accept(self, content: JsonObject | None = None, *, by: str | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The person filled in the form, or agrees to open the address."""
        self._answering.give("accept", by, content).result()

    def decline(self, *, by: str | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The person said no."""
        self._answering.give("decline", by).result()

    def cancel(self, *, by: str | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The person dismissed the question without an answer."""
        self._answering.give("cancel", by).result()

    def sampled(self, result: JsonObject, *, by: str | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What the model said, as the protocol's `CreateMessageResult`."""
        self._answering.give("sampled", by, result).result()


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
Approve: TypeAlias = "Callable[[ApprovalRequest], bool | str | None] | Literal['ask', 'queue'] | None"
RemoteApprove: TypeAlias = "Callable[[ApprovalRequest], bool | str | None] | None"
_TYPES = EventTypes(ApprovalRequest, ServerQuestion)


class Session:
    """Code that keeps its variables and files from one execution to the next; see `moonpool.Session`."""

    def __init__(self, options: SessionOptions, *, handle: SessionHandle | None = None) -> None:
        self._options = options
        self._handle = handle or SessionHandle(options, _TYPES, lambda: in_a_thread)
        self.files = Files(self._handle)
        self.tools = Tools(self._handle)
        self.network = NetworkAccess(self._handle)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Open the session now; else its first use does."""
        try:
            self._handle.call(lambda hosted: hosted.open()).result()
        except BaseException:
            _end(self._handle.give_up())
            raise

    def run(self, code: str, *, timeout: float | None = None, language: str = PYTHON) -> Result:
        """Run code to its end; see `moonpool.Session.run`. Ctrl-C interrupts the code."""
        request = code_request(code, timeout=timeout, language=language)
        caller = self._handle.caller()
        return self._handle.call(lambda hosted: hosted.run(request, caller)).result()

    def stream(
        self,
        code: str,
        *,
        timeout: float | None = None,
        language: str = PYTHON,
        questions: Collection[QuestionKind] = (),
    ) -> Stream:
        """Run code and yield its events, the `Result` last; see `moonpool.Session.stream`."""
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
        """Interrupt the code that runs now, from another thread. Its result has the error `Cancelled`."""
        self._handle.interrupt()

    def install(self, *packages: str) -> InstalledPackages:
        """Install packages for this session; see `moonpool.Session.install`."""
        return self._handle.call(lambda hosted: hosted.install(packages)).result()

    def reset(self) -> None:
        """Begin anew: variables and files are gone; packages and the `files` given to the session are there again."""
        self._handle.call(lambda hosted: hosted.reset()).result()

    def checkpoint(self, name: str) -> Checkpoint:
        """Keep the state as it is, under a name; see `moonpool.Session.checkpoint`."""
        return self._handle.call(lambda hosted: hosted.checkpoint(name)).result()

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The states to which `undo` can go back, the oldest first. Raises InputError without `checkpoints`."""
        return self._handle.checkpoints

    def undo(self, n: int = 1, *, to: Checkpoint | None = None) -> Undone:
        """Put the state back; see `moonpool.Session.undo`."""
        return self._handle.call(lambda hosted: hosted.undo(n, to)).result()

    def fork(self) -> Session:
        """Another session that begins with the state of this one; see `moonpool.Session.fork`."""
        made: list[SessionHost] = []
        try:
            self._handle.call(lambda hosted: hosted.fork(made)).result()
        except BaseException:  # interrupted, perhaps when the work was done
            for forked in made:
                _end(self._handle.forked(forked).close())
            raise
        return Session(self._options, handle=self._handle.forked(made[0]))

    def close(self) -> None:
        """End the session and what runs in it. Closing twice is fine."""
        _end(self._handle.close())


class Stream:
    """The events of one execution: `for event in session.stream(code)`. Read in one place, once."""

    def __init__(self, handle: StreamHandle) -> None:
        self._handle = handle

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        if self._handle.over:
            raise StopIteration
        if (event := self._handle.take()) is not None:
            return cast("Event", event)
        try:
            event = self._handle.first(self._handle.fetch().result())
        except KeyboardInterrupt:
            self.close()
            raise
        except Exception:
            self._handle.over = True
            raise
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Interrupt the code if it still runs, and wait for its end."""
        _end(self._handle.close())


class Files:
    """Files of a session: paths are in `/workspace` unless they begin with a slash."""

    def __init__(self, session: SessionHandle) -> None:
        self._session = session

    def write(self, path: str, content: bytes | str) -> None:
        """Write a file, whole or not at all; a string as UTF-8. Raises FileTransferError."""
        self._do(lambda files: transfers.put(files, path, content, replace=True))

    def read(self, path: str) -> bytes:
        """All bytes of a file. Raises FileTransferError."""
        return self._do(lambda files: transfers.read(files, path))

    def list(self, path: str = ".", *, recursive: bool = False) -> tuple[FileEntry, ...]:
        """What is in a folder, at most 10,000 entries. Raises FileTransferError."""
        return self._do(lambda files: files.list(path, recursive=recursive)).entries

    def put(self, local: str | os.PathLike[str], path: str | None = None, *, replace: bool = True) -> None:
        """Copy a file of this machine into the session. Raises FileTransferError, LocalFileError."""
        self._do(lambda files: transfers.send(files, local, path, replace=replace))

    def get(self, path: str, local: str | os.PathLike[str] | None = None, *, replace: bool = False) -> Path:
        """Copy a file to this machine and return where it is. Raises FileTransferError, LocalFileError."""
        return self._do(lambda files: transfers.get(files, path, local, replace=replace))

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, an empty folder, or with `recursive` a folder and all in it. Raises FileTransferError."""
        self._do(lambda files: files.delete(path, recursive=recursive))

    def _do(self, work: Callable[[FilesOfSession], Coroutine[Any, Any, _T]]) -> _T:
        async def reached(hosted: SessionHost) -> _T:
            return await work(await hosted.files())

        return self._session.call(reached).result()


class Tools:
    """The tools that code in a session can call."""

    def __init__(self, session: SessionHandle) -> None:
        self._session = session

    def search(self, queries: str | Sequence[str], *, server: str | None = None, limit: int = 10) -> tuple[Tool, ...]:
        """The tools that fit one question or several best. Raises CatalogQueryError, NotInCatalogError."""
        return self._session.call(lambda hosted: hosted.search(queries, server, limit)).result()

    def list(self, server: str | None = None) -> tuple[Tool, ...]:
        """All tools, or those of one server. Raises NotInCatalogError."""
        return self._session.call(lambda hosted: hosted.tools(server)).result()

    def definition(self, path: str, form: Form = "stub") -> str | JsonObject:
        """All of a tool's definition; see `moonpool.Tools.definition`. Raises NotInCatalogError."""
        return self._session.call(lambda hosted: hosted.definition(path, form)).result()


class NetworkAccess:
    """What the code of a session may reach, while it lives; see `moonpool.NetworkAccess`."""

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

    def allow(self, *domains: str, credential: HeaderCredential | None = None) -> None:
        """Allow these too, from now on; see `moonpool.NetworkAccess.allow`."""
        self._session.call(lambda hosted: hosted.allow(domains, credential)).result()

    def deny(self, *domains: str) -> None:
        """Allow these no longer; connections to them end. See `moonpool.NetworkAccess.deny` for what is refused."""
        self._session.call(lambda hosted: hosted.deny(domains)).result()


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
    """A session in a sealed sandbox; the parameters are those of `moonpool.session`.

    `approve` may be a plain function, which is called in a thread of its own.
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


def run(  # noqa: PLR0913  those of a session, and of a run
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
    with Session(options) as opened:
        return opened.run(code, timeout=timeout, language=language)


class Service:
    """A service that runs sessions. Made by `moonpool.sync.connect`; see `moonpool.Service`."""

    def __init__(self, address: ServiceAddress) -> None:
        self._address = address
        self._sessions: list[Session] = []

    def __repr__(self) -> str:
        return f"<moonpool service {self._address.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the sessions that were opened by `session` and are open still."""
        sessions, self._sessions = self._sessions, []
        for one in sessions:
            one.close()

    def session(
        self,
        *,
        environment: str | None = None,
        approve: RemoteApprove = None,
        files: Mapping[str, FileContent] | None = None,
        limits: Limits | None = None,
        checkpoints: bool = False,
        network: AllowedDomains = None,
        packages: str | Sequence[str] | None = None,
    ) -> Session:
        """A session at the service; see `moonpool.Service.session`. A function is called in a thread of its own."""
        options = remote_options(
            approve=approve,
            environment=environment,
            files=files,
            limits=limits,
            checkpoints=checkpoints,
            network=network,
            packages=packages,
        )
        check_approve(self._address, options)
        handle = SessionHandle(options, _TYPES, lambda: in_a_thread, begin=beginning(self._address))
        self._sessions = [one for one in self._sessions if not one.is_closed]
        self._sessions.append(session := Session(options, handle=handle))
        return session

    def run(  # noqa: PLR0913  those of a session, and of a run
        self,
        code: str,
        *,
        timeout: float | None = None,
        language: str = PYTHON,
        environment: str | None = None,
        approve: RemoteApprove = None,
        files: Mapping[str, FileContent] | None = None,
        limits: Limits | None = None,
        network: AllowedDomains = None,
    ) -> Result:
        """Run one piece of code in a sandbox of its own at the service; see `moonpool.Service.run`."""
        with self.session(
            environment=environment, approve=approve, files=files, limits=limits, network=network
        ) as opened:
            result = opened.run(code, timeout=timeout, language=language)

            async def get(path: str, local: Path) -> Path:
                return await asyncio.to_thread(opened.files.get, path, local)

            return asyncio.run(copied_here(result, get))


def connect(url: str, key: str | None = None, *, approver: str | None = None, allow_http: bool = False) -> Service:
    """Sessions at a service: `with moonpool.sync.connect("https://...", key) as service: ...`.

    The parameters are those of `moonpool.connect`.
    """
    return Service(service_address(url, key, approver, allow_http=allow_http))


def _end(closing: Call[None] | None) -> None:
    if closing is not None:
        closing.result()
