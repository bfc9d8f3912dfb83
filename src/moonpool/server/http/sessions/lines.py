"""What an execution tells over HTTP: newline-delimited JSON, each line with its `seq`, which grows by one.

The last line is `result`, or `error` where the code could not run. A reader whose connection broke goes on behind the
last `seq` that it has. `alive` repeats the newest `seq` while there is no news.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from moonpool.server.http.sessions.messages import (
    ApprovalBody,
    ErrorBody,
    QuestionKindText,
    SessionState,
    UndoneBody,
)

ALIVE_S: Final = 10.0
"""A stream without news says so after so long; a reader that hears nothing for several times as long goes on anew."""
LINE_BYTES_MAX: Final = 64 * 1024**2
"""That a client accepts; results with many pictures are the largest."""
NDJSON: Final = "application/x-ndjson"

Seq: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Its place in the stream."""

    seq: Seq


class Accepted(_Line, frozen=True, tag="accepted"):
    """The first line: the execution exists, and waits for its turn."""

    execution_id: str


class Begun(_Line, frozen=True, tag="begun"):
    """Its turn has come."""

    run_id: str


class OutputLine(_Line, frozen=True, tag="output"):
    """Some of what the code printed, redacted; `dropped_bytes` are missing after it."""

    stream: Literal["stdout", "stderr"]
    text: str
    dropped_bytes: int = 0


class CallStartedLine(_Line, frozen=True, tag="tool_call_started"):
    call_id: int
    tool: str


class CallEndedLine(_Line, frozen=True, tag="tool_call_ended"):
    call_id: int
    tool: str
    error_type: str | None = None
    message: str = ""
    approval: str = "NOT_REQUIRED"
    duration_ms: float = 0.0


class ProgressLine(_Line, frozen=True, tag="progress"):
    tool: str
    progress: float
    total: float | None = None
    message: str = ""


class CallsDroppedLine(_Line, frozen=True, tag="call_events_dropped"):
    """So many events of calls are missing from here on, because the reader was slow."""

    count: int


class ApprovalLine(_Line, frozen=True, tag="approval"):
    """A call waits for an answer (`POST /v1/approvals/{request_id}`)."""

    request: ApprovalBody
    whole: dict[str, Any] | None = None
    """At a terminal: the request as its approver takes it (`features.approvals.model.ApprovalRequest`)."""


class QuestionLine(_Line, frozen=True, tag="question"):
    """A server asks (`POST /v1/sessions/{id}/questions/{question_id}`)."""

    question_id: str
    kind: QuestionKindText
    params: dict[str, Any]


class WithdrawnLine(_Line, frozen=True, tag="withdrawn"):
    """An approval or a question is over: answered, expired, or its call has ended."""

    id: str


class MissedLine(_Line, frozen=True, tag="missed"):
    """`count` lines before this one are no longer kept; it stands in place of the last of them."""

    count: int


class RemarkLine(_Line, frozen=True, tag="remark"):
    """Something about the tools for the person at the terminal, never for the code."""

    text: str


class AliveLine(_Line, frozen=True, tag="alive"):
    """No news since the line with this `seq`."""


class DisplayBody(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the code showed; `data` is in base64."""

    mime: str
    data: bytes
    name: str = ""
    forms: dict[str, str] = {}


class MadeFileBody(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the code made; `path` is in the sandbox, null if it was not kept."""

    name: str
    size: int
    mime: str
    path: str | None = None


class ResultLine(_Line, frozen=True, tag="result"):
    """What the execution came to. `envelope` is that of the runtime contract."""

    run_id: str
    envelope: dict[str, Any]
    text: str = ""
    displays: tuple[DisplayBody, ...] = ()
    files: tuple[MadeFileBody, ...] = ()
    failed_by: Literal["", "code", "result", "moonpool"] = ""
    state_after: Literal["kept", "recovered", "lost"] = "kept"
    recovered: UndoneBody | None = None
    state: SessionState = SessionState()


class PrintedLine(_Line, frozen=True, tag="printed"):
    """What the execution of a terminal came to, in place of `result`: the line that is printed."""

    line: str
    ok: bool


class ErrorLine(_Line, frozen=True, tag="error"):
    """What kept the code from running."""

    error: ErrorBody


Line: TypeAlias = (
    Accepted
    | Begun
    | OutputLine
    | CallStartedLine
    | CallEndedLine
    | ProgressLine
    | CallsDroppedLine
    | ApprovalLine
    | QuestionLine
    | WithdrawnLine
    | MissedLine
    | AliveLine
    | RemarkLine
    | ResultLine
    | PrintedLine
    | ErrorLine
)
