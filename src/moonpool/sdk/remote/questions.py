"""Answers to what code at a service asks: calls that need approval, questions of servers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from moonpool.core.errors import InputError
from moonpool.server.http.sessions.messages import AnswerApproval, AnswerQuestion

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from moonpool.sdk.remote.connection import Connection
    from moonpool.sdk.runtime_thread import Call, RuntimeThread
    from moonpool.server.http.sessions.lines import ApprovalLine, QuestionLine


@dataclass(eq=False)
class RemoteApproval:
    """A call that waits. A yes needs the approver's credential; whoever runs the code may refuse with theirs."""

    connection: Connection
    request_id: str
    withdrawn: asyncio.Event = field(default_factory=asyncio.Event)
    is_open: bool = True
    _is_being_answered: bool = False

    async def approve(self) -> None:
        """Allow the call. Raises ApprovalAnswerError."""
        await self.answer(AnswerApproval(approve=True))

    async def deny(self, note: str = "") -> None:
        """Refuse it. Raises ApprovalAnswerError."""
        await self.answer(AnswerApproval(approve=False, note=note[:1000]))

    async def answer(self, given: AnswerApproval) -> None:
        """Answer. Raises ApprovalAnswerError."""
        self._is_being_answered = True
        try:
            path = f"approvals/{self.request_id}"
            await self.connection.order("POST", path, given, type(None), as_approver=True)
            self.is_open = False
        finally:
            self._is_being_answered = False

    def end(self) -> None:
        """It is over, somewhere."""
        self.is_open = False
        if not self._is_being_answered:
            self.withdrawn.set()


@dataclass(frozen=True, slots=True)
class RemoteAnswering:
    """Answers one approval question in the runtime's thread."""

    thread: RuntimeThread
    question: RemoteApproval

    def approve(
        self, by: str | None, note: str, keep_for: str | None, where: Sequence[str], *, any_arguments: bool
    ) -> Call[object]:
        """Begin to say yes. Raises InputError for terms that cannot be meant."""
        if keep_for is None and (where or any_arguments):
            raise InputError("where and any_arguments describe further calls; say how long they count with keep_for")
        given = AnswerApproval(
            approve=True,
            note=note[:1000],
            by=(by or "")[:100],
            keep_for=keep_for,
            where=tuple(where),
            any_arguments=any_arguments,
        )
        return self._begun(lambda: self.question.answer(given))

    def deny(self, note: str, by: str | None) -> Call[object]:
        """Begin to say no."""
        given = AnswerApproval(approve=False, note=note[:1000], by=(by or "")[:100])
        return self._begun(lambda: self.question.answer(given))

    def _begun(self, work: Callable[[], Coroutine[Any, Any, object]]) -> Call[object]:
        return self.thread.call(work)


@dataclass(frozen=True, slots=True)
class RemoteQuestionAnswering:
    """Answers one question of a server in the runtime's thread."""

    thread: RuntimeThread
    connection: Connection
    path: str

    def give(self, how: Literal["accept", "decline", "cancel", "sampled"], by: str | None, *given: Any) -> Call[None]:
        """Begin to answer."""
        answer = AnswerQuestion(how=how, content=given[0] if given else None, by=(by or "")[:100])

        async def work() -> None:
            await self.connection.order("POST", self.path, answer, type(None))

        return self.thread.call(work)


def approval_fields(line: ApprovalLine, question: RemoteApproval, thread: RuntimeThread) -> dict[str, Any]:
    """The members of `ApprovalRequest`."""
    asked = line.request
    return {
        "request_id": asked.request_id,
        "run_id": asked.run_id,
        "server": asked.server,
        "tool": asked.tool,
        "arguments": asked.arguments,
        "shown": asked.shown,
        "reason": asked.reason,
        "human_only": asked.human_only,
        "listing": asked.listing,
        "expires_s": asked.expires_s,
        "_answering": RemoteAnswering(thread, question),
    }


def question_fields(
    line: QuestionLine, session_path: str, connection: Connection, thread: RuntimeThread
) -> dict[str, Any]:
    """The members of `ServerQuestion`."""
    path = f"{session_path}/questions/{line.question_id}"
    answering = RemoteQuestionAnswering(thread, connection, path)
    return {"kind": line.kind, "params": line.params, "_answering": answering}
