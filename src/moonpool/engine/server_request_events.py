"""What servers ask meanwhile, as events: forms and addresses for a person, sampling for a model (`events`).

Only what the application said it takes is declared to servers, and only of servers whose configuration relays it. The
relay bounds and redacts a question before it comes here, checks the answer, and puts both on record
(`pipeline.server_requests`).

SECURITY: a question is a server's word, an address too: show them, never follow or fill in anything unasked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from moonpool.core.errors import InputError
from moonpool.features.approvals.events import as_recorded
from moonpool.features.approvals.model import ApprovalAnswerError
from moonpool.pipeline.request_responder import AnswererGoneError
from moonpool.pipeline.sampling import SAMPLE
from moonpool.pipeline.server_requests import ELICIT
from moonpool.upstreams.server_requests import ServerRequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from moonpool.core.json import JsonObject
    from moonpool.features.approvals.model import Answerer

QuestionKind: TypeAlias = Literal["form", "url", "sampling"]
"""What a server asks for: fields that a person fills in, an address to open, a model's answer."""

OPEN_COUNT_MAX: Final = 16


class ServerQuestion:
    """One question of a server, to be answered once. Used on one event loop; made by an `EventResponder`."""

    def __init__(self, method: str, params: JsonObject, answerer: str) -> None:
        self.method, self.params = method, params
        self.kind: QuestionKind = "sampling" if method == SAMPLE else "url" if params.get("mode") == "url" else "form"
        self.answerer = answerer
        self._answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        return not self._answer.done()

    def accept(self, content: JsonObject | None = None, *, by: Answerer | None = None) -> None:
        """The person has filled in the form, or agreed to go to the address, which has no content.

        Like the other answers: raises ApprovalAnswerError when it is answered or over, InputError for the wrong kind.
        """
        self._elicited({"action": "accept", **({} if content is None else {"content": content})}, by)

    def decline(self, *, by: Answerer | None = None) -> None:
        """The person said no, to sampling too."""
        if self.kind != "sampling":
            self._elicited({"action": "decline"}, by)
            return
        self._claim(by)
        self._answer.set_exception(ServerRequestRefusedError("User rejected sampling request"))

    def cancel(self, *, by: Answerer | None = None) -> None:
        """The person put it aside without an answer."""
        self._elicited({"action": "cancel"}, by)

    def sampled(self, result: JsonObject, *, by: Answerer | None = None) -> None:
        """What the model said, as the protocol's result."""
        if self.kind != "sampling":
            raise InputError(f"a question of kind {self.kind} is accepted, declined or cancelled")
        self._give(result, by)

    async def wait(self) -> JsonObject:
        """The answer, for the responder. Cancel it to withdraw the question."""
        return await self._answer

    async def wait_over(self) -> None:
        """Returns once it cannot be answered any more, however that came."""
        await asyncio.wait({self._answer})

    def give_up(self, why: str) -> None:
        """Whoever was to answer is gone."""
        if self.is_open:
            self._answer.set_exception(AnswererGoneError(why))

    def _elicited(self, result: JsonObject, by: Answerer | None) -> None:
        if self.kind == "sampling":
            raise InputError("a question of kind sampling is answered by `sampled`, or declined")
        self._give(result, by)

    def _give(self, result: JsonObject, by: Answerer | None) -> None:
        self._claim(by)
        self._answer.set_result(result)

    def _claim(self, by: Answerer | None) -> None:
        answerer = self.answerer if by is None else as_recorded(by).name
        if not self.is_open:
            raise ApprovalAnswerError("this question of a server is answered already, expired or withdrawn")
        self.answerer = answerer


class EventResponder:
    """A `RequestResponder` of one execution that gives questions to `take`."""

    def __init__(self, take: Callable[[ServerQuestion], None], kinds: Collection[QuestionKind], answerer: str) -> None:
        self._take, self._kinds = take, frozenset(kinds)
        self._open: list[ServerQuestion] = []
        self._default = self.name = answerer

    def can(self, method: str, mode: str = "") -> bool:
        if method == SAMPLE:
            return "sampling" in self._kinds
        return method == ELICIT and ("url" if mode == "url" else "form") in self._kinds

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        if len(self._open) >= OPEN_COUNT_MAX:
            raise AnswererGoneError(f"{OPEN_COUNT_MAX} questions of this execution are open already")
        question = ServerQuestion(method, params, self._default)
        self._open.append(question)
        self._take(question)
        try:
            return await question.wait()
        finally:
            self._open.remove(question)
            self.name = question.answerer  # whoever asked reads it at once

    def leave(self) -> None:
        """Nobody reads on."""
        for question in tuple(self._open):
            question.give_up("the application stopped listening before it answered")
