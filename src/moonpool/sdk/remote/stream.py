"""The events of one execution at a service."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from moonpool.core.errors import InputError, MoonpoolError
from moonpool.sandboxes.shielding import finish
from moonpool.sdk.remote.answers import told_by
from moonpool.sdk.remote.errors import error_of
from moonpool.sdk.remote.questions import RemoteApproval, approval_fields, question_fields
from moonpool.server.http.sessions import lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.sdk.approve_functions import Answers, EventTypes
    from moonpool.sdk.remote.connection import Connection
    from moonpool.sdk.remote.lines import ExecutionLines
    from moonpool.sdk.results import Result
    from moonpool.sdk.runtime_thread import RuntimeThread
    from moonpool.server.http.sessions.lines import Line, ResultLine

_END_S: Final = 30.0
"""How long the end of an execution that nobody wants any more is waited for."""


class RemoteStream:
    """Read in one place."""

    def __init__(
        self,
        thread: RuntimeThread,
        types: EventTypes,
        connection: Connection,
        session_path: str,
        told: ExecutionLines,
        done: Callable[[ResultLine], Result],
        answers: Answers | None,
    ) -> None:
        """`done` makes the result, once; `answers` answers questions about calls; None: their reader does."""
        self._thread, self._types, self._connection, self._path = thread, types, connection, session_path
        self._lines, self._done, self._answers = told, done, answers
        self._approvals: dict[str, RemoteApproval] = {}
        self._waiting: list[Any] = []
        self._reading = False
        self.has_ended = False

    async def next(self) -> list[Any]:
        """The next events, at least one; none after the last. Raises what kept the code from running, ServiceError."""
        if self._reading:
            raise InputError("this stream is being read already; read it in one place")
        self._reading = True
        try:
            while not self._waiting and not self.has_ended:
                await self._read()
            events, self._waiting = self._waiting, []
            return events
        finally:
            self._reading = False

    async def _read(self) -> None:
        try:
            told = await self._lines.several()
        except MoonpoolError:
            self._end()
            raise
        if not told:
            self._end()
        for line in told:
            self._take(line)

    def _take(self, line: Line) -> None:
        match line:
            case lines.ApprovalLine():
                self._ask(line)
            case lines.QuestionLine():
                fields = question_fields(line, self._path, self._connection, self._thread)
                self._waiting.append(self._types.question(**fields))
            case lines.WithdrawnLine():
                if (approval := self._approvals.pop(line.id, None)) is not None:
                    approval.end()
            case lines.ResultLine():
                self._end()
                result = self._done(line)
                self._waiting += [*result.displays, result]
            case lines.ErrorLine():
                self._end()
                raise error_of(line.error)
            case _:
                self._waiting += told_by(line)

    def _ask(self, line: lines.ApprovalLine) -> None:
        approval = RemoteApproval(self._connection, line.request.request_id)
        self._approvals[line.request.request_id] = approval
        request = self._types.request(**approval_fields(line, approval, self._thread))
        if self._answers is None:
            self._waiting.append(request)
        else:
            self._answers.begin(approval, request)

    def _end(self) -> None:
        self.has_ended = True
        for approval in self._approvals.values():
            approval.end()
        self._approvals.clear()

    async def close(self) -> None:
        """End the code if it still runs, and wait for its end. Idempotent."""
        if not self.has_ended and self._lines.is_sent:
            with suppress(MoonpoolError, TimeoutError):  # whoever cannot be reached ends it when nobody comes back
                await finish(self._ended_there())
        self._end()
        await finish(self._lines.close())

    async def _ended_there(self) -> None:
        path = f"{self._lines.path}/{self._lines.execution_id}"
        async with asyncio.timeout(_END_S):
            await self._connection.order("DELETE", path, None, type(None))
            while not self.has_ended:
                await self._read()
