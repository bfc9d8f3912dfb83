"""What a face of sessions needs of one session, here (`hosted_session`) or at a service (`remote`).

Everything is called in the runtime's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from moonpool.core.json import JsonObject
    from moonpool.engine.branches import Checkpoint
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.files.service import FileListing, FileReceipt
    from moonpool.engine.files.streams import Sink, Source
    from moonpool.engine.packages.model import InstalledPackages
    from moonpool.engine.server_request_events import QuestionKind
    from moonpool.network.rules import HeaderCredential
    from moonpool.sdk.approve_functions import Caller
    from moonpool.sdk.checkpoints import Undone
    from moonpool.sdk.results import Result, Usage
    from moonpool.sdk.runtime_thread import RuntimeThread
    from moonpool.sdk.tool_search import Form, Tool


class EventStream(Protocol):
    """The events of one execution."""

    async def next(self) -> list[Any]:
        """The next ones, at least one; none after the last."""
        ...

    async def close(self) -> None:
        """End the code if it still runs, and wait for its end. Idempotent."""
        ...


class FilesOfSession(Protocol):
    """Files of a session (`moonpool.engine.files.service.SessionFiles`). Its methods raise FileTransferError."""

    async def put(self, path: str, source: Source, *, mode: int = 0o644, replace: bool = False) -> FileReceipt: ...
    async def get(self, path: str, sink: Sink) -> FileReceipt: ...
    async def list(self, path: str = ".", *, recursive: bool = False) -> FileListing: ...
    async def delete(self, path: str, *, recursive: bool = False) -> None: ...


class SessionHost(Protocol):
    """One session. What its methods raise is said at those of `moonpool.Session`."""

    @property
    def thread(self) -> RuntimeThread: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]: ...
    @property
    def allowed(self) -> tuple[str, ...]: ...
    @property
    def refused(self) -> tuple[str, ...]: ...

    async def open(self) -> None:
        """Open it, once; again each time it is tried where that failed."""
        ...

    async def close(self) -> None:
        """End it. Idempotent."""
        ...

    def interrupt(self) -> None:
        """End what runs now. Returns at once."""
        ...

    async def run(self, request: CodeRequest, caller: Caller) -> Result: ...
    async def stream(
        self, request: CodeRequest, questions: Collection[QuestionKind], caller: Caller
    ) -> EventStream: ...
    async def reset(self) -> None: ...
    async def install(self, packages: tuple[str, ...]) -> InstalledPackages: ...
    async def checkpoint(self, name: str) -> Checkpoint: ...
    async def undo(self, n: int, to: Checkpoint | None) -> Undone: ...

    async def fork(self, made: list[SessionHost]) -> None:
        """Put another session into `made`, for whoever has the list to close, also when this raises."""
        ...

    async def allow(self, domains: tuple[str, ...], credential: HeaderCredential | None) -> None: ...
    async def deny(self, patterns: tuple[str, ...]) -> None: ...
    async def files(self) -> FilesOfSession: ...
    async def search(self, queries: str | Sequence[str], server: str | None, limit: int) -> tuple[Tool, ...]: ...
    async def tools(self, server: str | None) -> tuple[Tool, ...]: ...
    async def definition(self, path: str, form: Form) -> str | JsonObject: ...
