"""The questions of one call that wait for its client's next request, and the answers that were taken.

INVARIANT: a question is answered once. The same answers again are ignored, other ones refused before any is taken.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from moonpool.core.json import digest_json
from moonpool.engine.request_state import RequestStateError
from moonpool.pipeline.request_responder import AnswererGoneError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from moonpool.core.json import JsonObject


NAME_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """One request of the protocol that waits for its result."""

    question_id: str
    name: str  # by which the client answers it
    method: str
    params: JsonObject
    answer: asyncio.Future[JsonObject]


class OpenQuestions:
    """Those of one call. Used on one event loop."""

    def __init__(self) -> None:
        self.early: dict[str, JsonObject] = {}  # answers by name that came with the request that began the call
        self._names: dict[str, str] = {}  # question id -> the name by which the client knows it
        self._open: dict[str, OpenQuestion] = {}
        self._answered: dict[str, str] = {}  # question id -> digest of the answer
        self._client_left = False

    @property
    def open(self) -> tuple[OpenQuestion, ...]:
        """Questions without an answer, in the order they were asked."""
        return tuple(self._open.values())

    def add(self, method: str, params: JsonObject, name: str = "") -> OpenQuestion:
        """`name`: how the client is to call it, if it fits and no open one is called so; else it is called by its id.

        Raises AnswererGoneError once the client has left.
        """
        if self._client_left:
            raise AnswererGoneError("the client has left")
        future: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        question_id = token_hex(8)
        if not 0 < len(name) <= NAME_CHARS_MAX or any(one.name == name for one in self.open):
            name = question_id
        question = OpenQuestion(question_id=question_id, name=name, method=method, params=params, answer=future)
        self._open[question_id], self._names[question_id] = question, name
        return question

    def remove(self, question: OpenQuestion) -> None:
        """It is answered, or taken back."""
        self._open.pop(question.question_id, None)

    def answer(self, answers: Mapping[str, JsonObject], asked: Iterable[str]) -> None:
        """Take answers to questions `asked`; others are ignored. Raises RequestStateError, then none was taken."""
        names = {one: self._names.get(one, one) for one in asked}
        given = {one: answers[name] for one, name in names.items() if name in answers}
        try:
            digests = {name: digest_json(answer) for name, answer in given.items()}
        except (ValueError, RecursionError):  # no JSON: an infinite number, half a character
            raise RequestStateError from None
        if any(self._answered.get(name, digest) != digest for name, digest in digests.items()):
            raise RequestStateError
        for name, answer in given.items():
            question = self._open.pop(name, None)  # an expired one is no longer there
            if question is not None and not question.answer.done():
                self._answered[name] = digests[name]
                question.answer.set_result(answer)

    def give_up(self) -> None:
        """The client has left, so nobody answers them, nor any that come."""
        self._client_left = True
        for question in self.open:
            if not question.answer.done():
                question.answer.set_exception(AnswererGoneError("the client left before its user answered"))
