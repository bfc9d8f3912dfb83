"""The client of a session's process: one request, its events, its envelope."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from moonpool.pipeline.request_responder import AnswererGoneError
from moonpool.pipeline.server_requests import ELICIT
from moonpool.sandboxes.base import Stream
from moonpool.server.named_sessions import wire

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from moonpool.features.approvals.model import ApprovalRequest
    from moonpool.pipeline.approval import Approver
    from moonpool.pipeline.request_responder import RequestResponder


class SessionRun:
    """One execution in a session. One per connection."""

    def __init__(
        self,
        connection: socket.socket,
        *,
        show: Callable[[Stream, bytes], None],
        say: Callable[[str], None],
        approver: Approver,
        responder: RequestResponder | None = None,
    ) -> None:
        """`responder` fills in servers' forms if `Run.fills_forms` was set."""
        self._responder = responder
        self._connection, self._show, self._say, self._approver = connection, show, say, approver
        self._writer: asyncio.StreamWriter | None = None
        self._questions: dict[str, asyncio.Task[None]] = {}

    def interrupt(self, *, at_once: bool = False) -> None:
        """Ask the host to end the code; its envelope still comes."""
        self._send(wire.Interrupt(at_once=at_once))

    async def execute(self, run: wire.Run) -> wire.Finished | None:
        """Run and wait. None: the host ended before it accepted the request. Raises SessionError, SessionLostError."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._connection, limit=wire.LINE_BYTES_MAX)
        try:
            self._send(run)
            accepted = False
            while (message := await wire.receive_from_host(reader)) is not None:
                accepted = accepted or isinstance(message, wire.Accepted)
                if isinstance(message, wire.Finished):
                    return message
                if isinstance(message, wire.Refused):
                    raise wire.SessionError(message.message, code=message.code)
                self._on_event(message)
            if not accepted:
                return None
            raise wire.SessionLostError(
                "the process of this session ended while the code ran; its variables and files are gone, run again to "
                "start afresh"
            )
        finally:
            await self._close()

    def _on_event(self, message: wire.HostMessage) -> None:
        if isinstance(message, wire.Output):
            self._show(Stream(message.stream), message.data)
        elif isinstance(message, wire.Remark):
            self._say(message.text)
        elif isinstance(message, wire.Question):
            self._questions[message.request.request_id] = asyncio.create_task(self._answer(message.request))
        elif isinstance(message, wire.Form):
            self._questions[message.request_id] = asyncio.create_task(self._fill_in(message))
        elif (
            isinstance(message, wire.Withdrawn) and (task := self._questions.pop(message.request_id, None)) is not None
        ):
            task.cancel()

    async def _answer(self, request: ApprovalRequest) -> None:
        self._send(wire.Answer(answer=await self._approver.ask(request)))

    async def _fill_in(self, form: wire.Form) -> None:
        person, result = self._responder, dict[str, Any]()
        with suppress(AnswererGoneError):
            if person is not None:
                result = await person.ask(ELICIT, form.params)
        name = "" if person is None else person.name
        self._send(wire.FormAnswer(request_id=form.request_id, result=result, answerer=name))

    def _send(self, message: wire.ClientMessage) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(wire.encode(message))

    async def _close(self) -> None:
        for task in self._questions.values():
            task.cancel()
        await asyncio.gather(*self._questions.values(), return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()


async def ask_host(connection: socket.socket, message: wire.Status | wire.Close) -> wire.HostMessage | None:
    """Send one message to a session's process and return its answer; None if the process is gone."""
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=wire.LINE_BYTES_MAX)
    try:
        writer.write(wire.encode(message))
        async with asyncio.timeout(10):
            return await wire.receive_from_host(reader)
    except (OSError, TimeoutError):
        return None
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
