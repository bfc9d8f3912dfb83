"""One execution in a session of this user's service: its output, its questions, the line that it comes to.

INVARIANT: code is sent once. A connection that breaks is the end of the execution, at the service too.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from moonpool.cli.service_start import SessionError, SessionLostError, is_gone
from moonpool.core.calls import ApprovalState
from moonpool.core.errors import MoonpoolError
from moonpool.features.approvals.model import ApprovalRequest
from moonpool.pipeline.request_responder import AnswererGoneError
from moonpool.sandboxes.base import Stream
from moonpool.sdk.remote.lines import ExecutionLines
from moonpool.server.http.sessions import lines, messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.engine.code_request import CodeRequest
    from moonpool.pipeline.approval import Approver
    from moonpool.pipeline.request_responder import RequestResponder
    from moonpool.sdk.remote.connection import Connection

_ELICIT: Final = "elicitation/create"
_STREAMS: Final = {"stdout": Stream.STDOUT, "stderr": Stream.STDERR}


class SessionRun:
    """One execution in a session."""

    def __init__(
        self,
        connection: Connection,
        path: str,
        *,
        show: Callable[[Stream, bytes], None],
        say: Callable[[str], None],
        approver: Approver,
        responder: RequestResponder | None = None,
    ) -> None:
        """`path` is the session's; `responder` fills in servers' forms."""
        self._connection, self._path, self._id = connection, path, token_hex(16)
        self._show, self._say, self._approver, self._responder = show, say, approver, responder
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._orders: set[asyncio.Task[None]] = set()

    def interrupt(self, *, at_once: bool = False) -> None:
        """Have the code ended; its line still comes."""
        asked = messages.Interrupt(executions=(self._id,), waiting=True, at_once=at_once)
        order = asyncio.create_task(self._ordered(f"{self._path}/interrupt", asked))
        self._orders.add(order)
        order.add_done_callback(self._orders.discard)

    async def execute(self, source: CodeRequest, timeout_s: float | None) -> lines.PrintedLine:
        """Run and wait. Raises SessionError, SessionLostError, and what keeps the code from running."""
        asked = messages.RunCode(
            code=source.code.decode(),
            id=self._id,
            timeout=timeout_s,
            language="typescript" if source.typescript else source.language,
            questions=() if self._responder is None else ("form", "url"),
            name=source.name[-4096:],
            attended=True,
        )
        told = ExecutionLines(self._connection, self._path, asked, away_s=0)
        try:
            while some := await told.several():
                for line in some:
                    if isinstance(line, lines.PrintedLine):
                        return line
                    self._take(line)
        except MoonpoolError as error:
            if not is_gone(error):
                raise SessionError(str(error), code=error.code) from None
        finally:
            await told.close()
            await self._end()
        raise SessionLostError(
            "the service ended while the code ran; variables and files of the session are gone, run again to start "
            "afresh"
        )

    def _take(self, line: lines.Line) -> None:
        match line:
            case lines.OutputLine():
                self._show(_STREAMS[line.stream], line.text.encode("utf-8", "replace"))
                if line.dropped_bytes:
                    self._say(f"{line.dropped_bytes:,} bytes of output are not shown here, because they came too fast")
            case lines.RemarkLine():
                self._say(line.text)
            case lines.ErrorLine():
                raise SessionError(line.error.message, code=line.error.code)
            case _:
                self._take_question(line)

    def _take_question(self, line: lines.Line) -> None:
        if isinstance(line, lines.ApprovalLine):
            self._questions[line.request.request_id] = asyncio.create_task(self._answer(line))
        elif isinstance(line, lines.QuestionLine):
            self._questions[line.question_id] = asyncio.create_task(self._fill_in(line))
        elif isinstance(line, lines.WithdrawnLine) and (task := self._questions.pop(line.id, None)) is not None:
            task.cancel()

    async def _answer(self, line: lines.ApprovalLine) -> None:
        request = msgspec.convert(line.whole, ApprovalRequest)
        answer = await self._approver.ask(request)
        given = messages.AnswerApproval(
            approve=answer.state is ApprovalState.APPROVED, note=answer.note[:1000], by=answer.approver[:200]
        )
        await asyncio.shield(self._ordered(f"approvals/{request.request_id}", given))

    async def _fill_in(self, line: lines.QuestionLine) -> None:
        person, result = self._responder, cast("dict[str, Any]", {})
        with suppress(AnswererGoneError):
            if person is not None:
                result = cast("dict[str, Any]", await person.ask(_ELICIT, line.params))
        how, content = result.get("action", "cancel"), result.get("content")
        name = "" if person is None else person.name
        given = messages.AnswerQuestion(how=how, content=content, by=name[:200])
        await self._ordered(f"{self._path}/questions/{line.question_id}", given)

    async def _ordered(self, path: str, body: msgspec.Struct) -> None:
        with suppress(MoonpoolError):  # it was over already, or the stream tells that the service is gone
            await self._connection.order("POST", path, body, type(None))

    async def _end(self) -> None:
        tasks = (*self._questions.values(), *self._orders)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
