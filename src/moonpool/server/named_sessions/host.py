"""Keeps one session for clients that connect one after another: `moonpool run --session NAME` in separate processes.

Clients queue; one execution runs at a time, and its output and questions go to the client that sent it. When a client
disconnects, its open question is refused and its code interrupted. The host ends on request, or after `idle_s` without
use.

INVARIANT: `serve` returns with no execution running. A request is run at most once, and only after `Accepted`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import MoonpoolError
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.envelope_line import envelope_line
from moonpool.engine.envelopes import internal_error
from moonpool.engine.missing_tools import tell_missing_tools
from moonpool.server.named_sessions import wire
from moonpool.server.named_sessions.connection import Client, ClientApprover
from moonpool.server.named_sessions.sockets import peer_of
from moonpool.server.named_sessions.transfers import serve_files

if TYPE_CHECKING:
    import socket

    from moonpool.engine.sessions import Session
    from moonpool.engine.tool_registry import ToolRegistry

_log = logging.getLogger(__name__)

_CLIENTS_MAX: Final = 64
_FIRST_LINE_S: Final = 10.0
_LAST_WORDS_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionIdentity:
    """The configuration that a session was started with and keeps."""

    name: str
    environment: str
    backend: str
    config: str  # the file, for people; empty: no servers
    config_digest: str
    policy_digest: str  # of its policy file; empty: none
    network: tuple[str, ...]  # the domains that it may reach
    workspace: str | None  # the folder of the host that is its /workspace

    def misfit(self, run: wire.Run) -> str | None:
        """Why `run` does not fit this session, or None."""
        wanted = {
            "environment": (run.environment, self.environment),
            "backend": (run.backend, self.backend),
            "workspace": (run.workspace, self.workspace),
        }
        for what, (given, own) in wanted.items():
            if given is not None and given != own:
                return self._sentence(f"{what} {own!r}, not {given!r}")
        if run.config_digest is not None and run.config_digest != self.config_digest:
            return self._sentence(f"other servers ({self.config or 'no configuration'})")
        if run.policy_digest is not None and run.policy_digest != self.policy_digest:
            return self._sentence("another policy file" if self.policy_digest else "no policy file")
        if run.network is not None and set(run.network) != set(self.network):
            return self._sentence(f"a network of {', '.join(self.network)}" if self.network else "no network")
        return None

    def _sentence(self, difference: str) -> str:
        return (
            f"session {self.name!r} was started with {difference}; close it (moonpool session close {self.name}) "
            "or use another name"
        )


class SessionHost:
    """Serves one session on one socket."""

    def __init__(
        self,
        session: Session,
        tool_registry: ToolRegistry,
        approver: ClientApprover,
        identity: SessionIdentity,
        *,
        idle_s: float,
    ) -> None:
        self._session, self._tool_registry, self._approver = session, tool_registry, approver
        self._identity, self._idle_s = identity, idle_s
        self._turn = asyncio.Lock()
        self._over = asyncio.Event()
        self._requests = 0  # connected clients that run code or wait
        self._executions = 0
        self._loop = asyncio.get_running_loop()
        self._started_at = self._used_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """End `serve`. Clients in progress get their envelope first."""
        self._over.set()

    async def serve(self, listener: socket.socket) -> None:
        """Serve until `stop`, a client's `Close` or the idle time. The caller removes the socket afterwards."""
        server = await asyncio.start_unix_server(self._connected, sock=listener, limit=wire.LINE_BYTES_MAX)
        self._rest()
        try:
            await self._over.wait()
        finally:
            server.close()
            await self._finish()

    async def _finish(self) -> None:
        self._session.interrupt(at_once=True)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_WORDS_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """SECURITY: other users and clients beyond the limit are disconnected without an answer."""
        _, uid = peer_of(writer.get_extra_info("socket"))
        if uid != os.geteuid() or len(self._tasks) >= _CLIENTS_MAX:
            writer.transport.abort()
            return
        task = self._loop.create_task(self._serve_client(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(writer)
        try:
            async with asyncio.timeout(_FIRST_LINE_S):
                first = await wire.receive_from_client(reader)
            if isinstance(first, wire.Run):
                await self._serve_run(first, client, reader)
            elif isinstance(first, wire.FileRequest):
                await self._serve_files(first, client, reader, writer)
            elif isinstance(first, wire.Status):
                client.send(self._state())
            elif isinstance(first, wire.Close):
                client.send(wire.Closing())
                self.stop()
            await writer.drain()
        except (TimeoutError, OSError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _serve_run(self, run: wire.Run, client: Client, reader: asyncio.StreamReader) -> None:
        if (misfit := self._identity.misfit(run)) is not None:
            client.send(wire.Refused(message=misfit))
            return
        if self._over.is_set():
            return  # the client sees the end before `Accepted` and starts a new session
        client.fills_forms = run.fills_forms
        client.send(wire.Accepted())
        self._wake()
        running = self._loop.create_task(self._take_turn(run, client))
        listening = self._loop.create_task(self._listen(client, reader, running))
        try:
            await asyncio.wait({running})
        finally:
            listening.cancel()
            running.cancel()
            await asyncio.gather(listening, running, return_exceptions=True)
            self._rest()
        if running.cancelled():
            client.send(wire.Refused(message="interrupted while it waited for its turn; nothing was run"))

    async def _serve_files(
        self, request: wire.FileRequest, client: Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._wake()
        try:
            await serve_files(self._session.files, request, client.send, reader, writer)
        finally:
            self._rest()

    async def _take_turn(self, run: wire.Run, client: Client) -> None:
        request = CodeRequest(
            code=run.code,
            name=run.name,
            language=run.language,
            typescript=run.typescript,
            timeout_s=run.timeout_s,
            observer=client.show,
        )
        async with self._turn:
            if self._over.is_set():
                client.send(wire.Refused(message="the session was closed before its turn came; nothing was run"))
                return
            self._approver.client = client
            telling = self._loop.create_task(
                tell_missing_tools(self._tool_registry, lambda text: client.send(wire.Remark(text=text)))
            )
            try:
                envelope = await self._session.execute(request)
            except MoonpoolError as error:
                client.send(wire.Refused(message=str(error), code=error.code))
                return
            except Exception as error:  # noqa: BLE001  the client waits for an answer in any case
                _log.error("an execution was lost: %s", type(error).__name__)
                client.send(wire.Refused(message=internal_error(error).message))
                return
            finally:
                telling.cancel()
                self._approver.client = None
            self._executions += 1
            answer = envelope_line(envelope)
            client.send(wire.Finished(line=answer.line, ok=answer.ok))

    async def _listen(self, client: Client, reader: asyncio.StreamReader, running: asyncio.Task[None]) -> None:
        while (message := await wire.receive_from_client(reader)) is not None:
            if isinstance(message, wire.Answer):
                client.take(message.answer)
            elif isinstance(message, wire.FormAnswer):
                client.take_form(message)
            elif isinstance(message, wire.Interrupt):
                self._interrupt(client, running, at_once=message.at_once)
        client.vanish()
        self._interrupt(client, running, at_once=False)

    def _interrupt(self, client: Client, running: asyncio.Task[None], *, at_once: bool) -> None:
        """End this client's execution only."""
        if self._approver.client is client:
            self._session.interrupt(at_once=at_once)
        else:
            running.cancel()

    def _state(self) -> wire.State:
        identity, now = self._identity, self._loop.time()
        return wire.State(
            name=identity.name,
            pid=os.getpid(),
            environment=identity.environment,
            backend=identity.backend,
            config=identity.config,
            age_s=now - self._started_at,
            idle_s=0.0 if self._requests else now - self._used_at,
            executions=self._executions,
            busy=self._requests > 0,
        )

    def _wake(self) -> None:
        self._requests += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rest(self) -> None:
        """Start the idle timer unless code is still running."""
        self._requests = max(0, self._requests - 1)
        self._used_at = self._loop.time()
        if self._requests == 0 and self._timer is None:
            self._timer = self._loop.call_later(self._idle_s, self.stop)
