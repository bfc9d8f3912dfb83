"""The host's view of one client of a session: what it shows and asks it.

SECURITY: a question goes only to the client whose code caused it; if that client is gone, the answer is no.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from moonpool.core.calls import ApprovalState
from moonpool.pipeline.approval import reject
from moonpool.pipeline.request_responder import AnswererGoneError
from moonpool.pipeline.server_requests import ELICIT
from moonpool.server.named_sessions import wire

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject
    from moonpool.features.approvals.model import ApprovalAnswer, ApprovalRequest
    from moonpool.sandboxes.base import Stream

_APPROVER_CHARS_MAX: Final = 200
_FORMS_MAX: Final = 16


class Client:
    """One connection whose code runs or is queued."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._questions: dict[str, tuple[ApprovalRequest, asyncio.Future[ApprovalAnswer]]] = {}
        self._forms: dict[str, asyncio.Future[wire.FormAnswer]] = {}
        self.fills_forms = False
        self.gone = False

    def send(self, message: wire.HostMessage) -> None:
        if not self.gone:
            self._writer.write(wire.encode(message))

    def show(self, stream: Stream, data: bytes) -> None:
        for start in range(0, len(data), wire.OUTPUT_PIECE_BYTES_MAX):
            self.send(wire.Output(stream=stream, data=data[start : start + wire.OUTPUT_PIECE_BYTES_MAX]))

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        if self.gone:
            return _nobody(request)
        answer: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        self._questions[request.request_id] = (request, answer)
        self.send(wire.Question(request=request))
        try:
            return await answer
        finally:
            del self._questions[request.request_id]
            if not answer.done() or answer.cancelled():
                self.send(wire.Withdrawn(request_id=request.request_id))

    async def ask_form(self, params: JsonObject) -> wire.FormAnswer:
        """Have the person fill in a server's form. Raises AnswererGoneError."""
        if self.gone or len(self._forms) >= _FORMS_MAX:
            raise AnswererGoneError("the client that ran this code is gone")
        request_id = uuid.uuid4().hex
        answer: asyncio.Future[wire.FormAnswer] = asyncio.get_running_loop().create_future()
        self._forms[request_id] = answer
        self.send(wire.Form(request_id=request_id, params=params))
        try:
            given = await answer
        finally:
            del self._forms[request_id]
            if not answer.done() or answer.cancelled():
                self.send(wire.Withdrawn(request_id=request_id))
        if not given.result:
            raise AnswererGoneError("there was nobody to ask at the terminal")
        return given

    def take_form(self, answer: wire.FormAnswer) -> None:
        """Match a form's answer to its question. `pipeline.server_requests` checks it."""
        waiting = self._forms.get(answer.request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def take(self, answer: ApprovalAnswer) -> None:
        """Match an answer to its question. The approval service checks what it is bound to."""
        _, waiting = self._questions.get(answer.request_id, (None, None))
        if waiting is None or waiting.done():
            return
        state = ApprovalState.APPROVED if answer.state is ApprovalState.APPROVED else ApprovalState.REJECTED
        waiting.set_result(replace(answer, state=state, approver=answer.approver[:_APPROVER_CHARS_MAX]))

    def vanish(self) -> None:
        """The client has disconnected."""
        self.gone = True
        for request, waiting in tuple(self._questions.values()):
            if not waiting.done():
                waiting.set_result(_nobody(request))
        for form in tuple(self._forms.values()):
            if not form.done():
                form.set_exception(AnswererGoneError("the client that ran this code is gone"))


class ClientApprover:
    """The `Approver` of a session's process: asks the client whose code is running."""

    together: ClassVar[bool] = False

    def __init__(self) -> None:
        self.client: Client | None = None

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        return _nobody(request) if self.client is None else await self.client.ask(request)

    def responder(self) -> ClientResponder | None:
        """The responder that fills in servers' forms for the running code."""
        return None if self.client is None else ClientResponder(self.client)


class ClientResponder:
    """The person at the terminal of the client whose code is running: fills in forms, cannot sample."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.name = "application:session"  # until a client has answered

    def can(self, method: str, mode: str = "") -> bool:
        del mode
        return method == ELICIT and self._client.fills_forms and not self._client.gone

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        assert method == ELICIT
        given = await self._client.ask_form(params)
        self.name = given.answerer[:_APPROVER_CHARS_MAX]
        return given.result


def _nobody(request: ApprovalRequest) -> ApprovalAnswer:
    return reject(request, "application:session", "the client that ran this code is gone, so there is nobody to ask")
