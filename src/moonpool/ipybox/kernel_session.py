"""A session as ipybox's users see a kernel: text, pictures as files, exceptions for what failed."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from moonpool.ipybox.kernel_code import failure_of, guest_call, pictures_of, preparation, secrets_of, shown_text
from moonpool.ipybox.pictures import save_pictures
from moonpool.ipybox.registered_servers import NewServers, awaited
from moonpool.ipybox.tool_exec.approval.client import ApprovalRequest
from moonpool.sandboxes.code_writable import link_of_code
from moonpool.sdk import events
from moonpool.sdk.approve_functions import EventTypes, in_loop
from moonpool.sdk.results import Result
from moonpool.sdk.session import Session
from moonpool.sdk.session_handle import SessionHandle

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from moonpool.ipybox.options import ExecutorOptions

_TYPES: Final = EventTypes(events.ApprovalRequest, events.ServerQuestion)


@dataclass
class ExecutionResult:
    """What an execution came to: its text, stripped, None if there is none; its pictures."""

    text: str | None
    images: list[Path]


class ExecutionError(Exception):
    """Code raised an exception, or its kernel died. The message has the traceback."""


Item: TypeAlias = "str | ApprovalRequest | ExecutionResult"


class KernelSession:
    """A kernel that is started, reset and stopped; executions in it."""

    def __init__(
        self,
        options: ExecutorOptions,
        kernel_env: Mapping[str, str],
        images_dir: Path,
        init_s: float,
        *,
        require_shell_escape: bool = False,
        stays: bool = False,
    ) -> None:
        """`init_s`: how long its start may take once its environment is there. `stays`: each execution begins in its
        working directory.
        """
        options = replace(options, secrets=secrets_of(kernel_env))
        self._handle = SessionHandle(options, _TYPES, lambda: partial(in_loop, asyncio.get_running_loop()))
        self._session = Session(options, handle=self._handle)
        self._setup: list[str] = []
        if options.asks_shell:
            self._setup.append(guest_call("shell_approval", f"install(require_escape={require_shell_escape})"))
        if stays:
            self._setup.append(guest_call("working_dir", "keep()"))
        self._options = options
        self._new_servers: NewServers | None = None
        self._awaited: list[str] = []
        self._variables, self._init_s = kernel_env, init_s
        # SECURITY: a link that code made, of this session or an earlier one, is not resolved; `_save` refuses it
        code_made = link_of_code(images_dir, options.work) is not None
        self._images_dir = images_dir.absolute() if code_made else images_dir.resolve()
        self._prepared = False
        self._running: set[asyncio.Event] = set()  # set to cancel the execution

    async def start(self) -> None:
        """Raises TimeoutError, and what opening a session raises."""
        self._new_servers = await asyncio.to_thread(NewServers, self._options.roots, os.environ)
        await self._session.start()
        await self._prepare()

    async def stop(self) -> None:
        """End it and what runs in it. Stopping twice is fine."""
        await self._session.close()

    def cancel(self) -> None:
        """End what runs without a result; its kernel lives on. Called in the event loop of what runs."""
        for cancelled in self._running:
            cancelled.set()

    def interrupt(self) -> None:
        """Interrupt what runs: it raises ExecutionError."""
        self._session.interrupt()

    async def stream(self, code: str, timeout: float | None) -> AsyncGenerator[Item]:
        """Text as it comes, approval requests, and last the result, unless it is cancelled.

        Raises ExecutionError, TimeoutError, InputError.
        """
        pieces: list[str] = []
        cancelled = asyncio.Event()
        stream = self._session.stream(code if code.strip() else "pass", timeout=timeout)  # ipybox takes no code, too
        self._running.add(cancelled)  # from here on `cancel` ends it
        try:
            await self._expect_new_servers()
            if not self._prepared:
                await self._prepare()
            while (event := await _next(stream, cancelled)) is not None:
                match event:
                    case events.Output():
                        pieces.append(event.text)
                        yield event.text
                    case events.ApprovalRequest():
                        yield _request(event)
                    case Result():
                        self._check(event, timeout)
                        if shown := shown_text(event):
                            yield shown
                        yield await self._result(event, "".join(pieces))
                    case _:
                        pass
        finally:
            self._running.discard(cancelled)
            await stream.aclose()

    async def _prepare(self) -> None:
        """Start the kernel, with its variables and no others, and its questions about commands."""
        entries = [entry for entry in self._variables.get("PYTHONPATH", "").split(os.pathsep) if entry]
        self._awaited = await asyncio.to_thread(awaited, self._options.roots, os.environ)
        calls = [*self._setup, *([_make_async(self._awaited)] if self._awaited else [])]
        await self._run_own(preparation(self._variables, *calls, imports=map(os.path.abspath, entries)))
        self._prepared = True

    async def _expect_new_servers(self) -> None:
        """Let code import the packages of servers that were registered since the last execution."""
        assert self._new_servers is not None
        new = await asyncio.to_thread(self._new_servers.take, os.environ)
        config = await asyncio.to_thread(self._options.config_of_new, new, os.environ) if new else None
        if config is None:
            return
        await self._handle.call_here(lambda hosted: hosted.expect_servers(config)).wait()
        names = await asyncio.to_thread(awaited, self._options.roots, os.environ)
        if self._prepared and names != self._awaited:
            self._awaited = names
            await self._run_own(_make_async(names))

    async def _run_own(self, code: str) -> None:
        result = await self._session.run(code, timeout=self._init_s)
        self._check(result, self._init_s)

    def _check(self, result: Result, timeout: float | None) -> None:
        if result.state != "kept":
            self._prepared = False
        failure = failure_of(result, timeout)
        if failure is not None and failure.timed_out:
            raise TimeoutError(failure.text.removeprefix("TimeoutError: "))
        if failure is not None:
            raise ExecutionError(f"{failure.text}\n{result.stderr}")

    async def _result(self, result: Result, printed: str) -> ExecutionResult:
        kept = result.stdout + result.stderr
        if len(printed) != len(kept):  # its reader was slow, or it is too much for a result: head, file's name, tail
            printed = kept
        shown = pictures_of(result)
        images = await asyncio.to_thread(save_pictures, self._images_dir, shown) if shown else []
        return ExecutionResult(text=(printed + shown_text(result)).strip() or None, images=images)


def _make_async(servers: list[str]) -> str:
    """Code that lets packages of these servers be awaited."""
    return guest_call("async_tools", f"make_async({servers})")


async def _next(stream: object, cancelled: asyncio.Event) -> object:
    """The next event; None after the last, and when it is cancelled."""
    reading = asyncio.ensure_future(anext(stream, None))  # pyright: ignore[reportArgumentType, reportCallIssue]
    waiting = asyncio.ensure_future(cancelled.wait())
    try:
        await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
        return None if cancelled.is_set() else await reading
    finally:
        reading.cancel()
        waiting.cancel()
        await asyncio.gather(reading, waiting, return_exceptions=True)


def _request(event: events.ApprovalRequest) -> ApprovalRequest:
    async def respond(accepted: bool) -> None:
        await (event.approve() if accepted else event.deny())

    given = event.arguments if event.arguments is not None else {"...": event.shown}
    request = ApprovalRequest(event.server, event.tool, dict(given), respond)
    request.human_only = event.human_only
    return request
