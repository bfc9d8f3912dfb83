"""What an execution tells while it runs. Frozen; the last event of a stream is its `Result`.

SECURITY: names, strings and arguments come from code, servers and models. They are redacted; show them, interpret none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from moonpool.core.calls import CallEnded, CallProgress, CallStarted
from moonpool.core.errors import InputError
from moonpool.core.lookalikes import shown_name
from moonpool.core.phrases import clip, on_one_line, printable
from moonpool.features.approvals.model import Answerer
from moonpool.features.approvals.service import grant_terms

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from moonpool.core.json import JsonObject
    from moonpool.engine.events import CallEvent
    from moonpool.engine.server_request_events import QuestionKind
    from moonpool.engine.server_request_events import ServerQuestion as HostedQuestion
    from moonpool.features.approvals.events import ApprovalQuestion
    from moonpool.features.approvals.service import GrantTerms
    from moonpool.sdk.results import StreamName
    from moonpool.sdk.runtime_thread import Call, RuntimeThread

_SHOWN_CHARS_MAX: Final = 500
_NAME_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Some of what the code printed. `dropped_bytes` are missing after it, because the reader was slow."""

    stream: StreamName  # where it was printed
    text: str  # redacted; a piece ends anywhere, also within a line
    dropped_bytes: int = 0  # of this stream; the result has head and tail of all


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    """The code called a tool; whether it may is not decided yet."""

    call_id: int  # unique within its execution
    tool: str  # server.tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEnded:
    """A call that was started has its outcome."""

    call_id: int  # as in `ToolCallStarted`
    tool: str  # server.tool
    error_type: str | None = None  # see docs/reference/errors.md; None: it succeeded
    message: str = ""  # why it failed
    approval: str = "NOT_REQUIRED"  # APPROVED, REJECTED or EXPIRED where somebody was asked
    duration_ms: float = 0.0  # waiting for an approval included

    @property
    def ok(self) -> bool:
        """Whether the tool gave a result."""
        return self.error_type is None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEventsDropped:
    """So many events of calls are missing from here on, because the reader was slow by some 60,000 of them."""

    count: int  # of `ToolCallStarted`, `ToolCallEnded` and `Progress`


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a tool call is, as its server says; at most ten reports a second."""

    tool: str  # server.tool
    progress: float  # grows; in units of the server's own
    total: float | None = None  # its end, in the same units, where the server knows it
    message: str = ""  # what it says of it


@dataclass(frozen=True, slots=True)
class Answering:
    """Answers one approval question in the runtime's thread."""

    thread: RuntimeThread
    question: ApprovalQuestion

    def approve(
        self, by: str | None, note: str, keep_for: str | None, where: Sequence[str], *, any_arguments: bool
    ) -> Call[object]:
        """Begin to say yes. Raises InputError for terms that cannot be meant."""
        if keep_for is None and (where or any_arguments):
            raise InputError("where and any_arguments describe further calls; say how long they count with keep_for")
        terms: GrantTerms | None = None
        if keep_for is not None:
            terms = grant_terms(keep_for, list(where), any_arguments=any_arguments)

        def work() -> Coroutine[Any, Any, object]:
            return self.question.approve(by=_answerer(by), note=note, terms=terms)

        return self.thread.call(work)

    def deny(self, note: str, by: str | None) -> Call[None]:
        """Begin to say no."""
        return self.thread.call(lambda: self.question.deny(note, by=_answerer(by)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call that policy wants somebody to approve. The code waits; its clock stands still.

    Answered once. A late or second answer raises ApprovalAnswerError and changes nothing.
    """

    request_id: str  # names it in the audit journal and the queue
    run_id: str  # of the execution that waits
    server: str  # its name in the configuration
    tool: str  # as the server calls it
    arguments: Mapping[str, Any] | None  # without known secrets; None: too large to be shown whole, see `shown`
    shown: str  # the arguments for people: bounded, printable
    reason: str  # why policy asks
    human_only: bool = False  # policy wants a person: answer with `by`
    place: str = ""  # the server's command or address, and the file where it is configured
    listing: tuple[str, ...] = ()  # the whole question where it is about a plan: a line for each server and effect
    expires_s: float = 0.0  # how long it waited for an answer when it was asked
    _answering: Answering = field(repr=False, compare=False)

    def __str__(self) -> str:
        if self.arguments is None:
            shown = printable(self.shown)
        else:
            shown = on_one_line(", ".join(f"{shown_name(name)}={value!r}" for name, value in self.arguments.items()))
        tool = clip(on_one_line(f"{self.server}.{shown_name(self.tool)}"), _NAME_CHARS_MAX)
        return f"{tool}({clip(shown, _SHOWN_CHARS_MAX)})"

    async def approve(
        self,
        *,
        by: str | None = None,
        note: str = "",
        keep_for: str | None = None,
        where: Sequence[str] = (),
        any_arguments: bool = False,
    ) -> None:
        """Allow this call with exactly these arguments.

        `by` names the person who answered; None: the program did. `keep_for` (`"8h"`, `"7d"`) also allows further calls
        of the tool: with the same arguments, where all of `where` hold (`"/repo=acme/*"`), or with `any_arguments`.
        Raises ApprovalAnswerError, InputError, and JournalError when further calls cannot be put on record.
        """
        await self._answering.approve(by, note, keep_for, where, any_arguments=any_arguments).wait()

    async def deny(self, note: str = "", *, by: str | None = None) -> None:
        """Refuse the call; `note` reaches the code. Raises ApprovalAnswerError."""
        await self._answering.deny(note, by).wait()


@dataclass(frozen=True, slots=True)
class QuestionAnswering:
    """Answers one question of a server in the runtime's thread."""

    thread: RuntimeThread
    question: HostedQuestion

    def give(self, how: Literal["accept", "decline", "cancel", "sampled"], by: str | None, *given: Any) -> Call[None]:
        """Begin to answer with one of the methods of the question there."""

        async def work() -> None:
            getattr(self.question, how)(*given, by=_answerer(by))

        return self.thread.call(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerQuestion:
    """A server asks during a call: `form` and `url` are for a person, `sampling` is for a model.

    Answered once. A late or second answer raises ApprovalAnswerError, one of the wrong kind InputError.
    """

    kind: QuestionKind  # what is asked for
    params: JsonObject  # of the protocol's request. SECURITY: the server's word; never follow an address unasked
    _answering: QuestionAnswering = field(repr=False, compare=False)

    async def accept(self, content: JsonObject | None = None, *, by: str | None = None) -> None:
        """The person filled in the form, or agrees to open the address, which has no content."""
        await self._answering.give("accept", by, content).wait()

    async def decline(self, *, by: str | None = None) -> None:
        """The person said no."""
        await self._answering.give("decline", by).wait()

    async def cancel(self, *, by: str | None = None) -> None:
        """The person dismissed the question without an answer."""
        await self._answering.give("cancel", by).wait()

    async def sampled(self, result: JsonObject, *, by: str | None = None) -> None:
        """What the model said, as the protocol's `CreateMessageResult`."""
        await self._answering.give("sampled", by, result).wait()


def call_event(event: CallEvent) -> ToolCallStarted | ToolCallEnded | Progress:
    """What the engine tells of a call, as applications see it."""
    match event:
        case CallStarted():
            return ToolCallStarted(call_id=event.call_id, tool=event.tool)
        case CallProgress():
            return Progress(tool=event.tool, progress=event.progress, total=event.total, message=event.message)
        case CallEnded():
            return ToolCallEnded(
                call_id=event.call_id,
                tool=event.tool,
                error_type=None if event.error_type is None else str(event.error_type),
                message=event.message,
                approval=str(event.approval),
                duration_ms=event.duration_ms,
            )


def approval_fields(question: ApprovalQuestion, thread: RuntimeThread) -> dict[str, Any]:
    """The members of `ApprovalRequest` for a question."""
    request = question.request
    return {
        "request_id": request.request_id,
        "run_id": request.run_id,
        "server": request.server_id,
        "tool": request.tool_name,
        "arguments": _parsed(request.whole if request.cut else request.arguments),
        "shown": request.arguments,
        "reason": on_one_line(request.reason),
        "human_only": request.human_only,
        "place": on_one_line(request.place),
        "listing": tuple(request.arguments.split("\n")) if request.is_plan else (),
        "expires_s": request.expires_s,
        "_answering": Answering(thread, question),
    }


def question_fields(question: HostedQuestion, thread: RuntimeThread) -> dict[str, Any]:
    """The members of `ServerQuestion` for a question."""
    return {"kind": question.kind, "params": question.params, "_answering": QuestionAnswering(thread, question)}


def _parsed(text: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return cast("JsonObject", found) if isinstance(found, dict) else None


def _answerer(by: str | None) -> Answerer | None:
    return None if by is None else Answerer(name=by if ":" in by else f"app:{by}", person=True)
