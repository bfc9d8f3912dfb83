"""Vocabulary of one tool call: what was asked, what came of it, and the closed set of error types.

A failing tool call is an outcome, not an exception of ours: the code in the sandbox gets it as a typed error. The
names below are the `error.type` values of the result contract (H-027, H-044).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue


class CallErrorType(StrEnum):
    """Why a tool call gave no data. Public: guest code and models read these."""

    TOOL_ERROR = "ToolError"  # the tool itself said isError
    UNKNOWN_TOOL = "UnknownTool"  # not in this session's manifest
    VALIDATION_ERROR = "ValidationError"  # arguments do not fit the tool's inputSchema
    POLICY_DENIED = "PolicyDenied"
    PLAN_EXCEEDED = "PlanExceeded"  # not in the approved plan; the execution is ended
    TOOL_PAUSED = "ToolPaused"  # its server changed it, and nobody has accepted that yet
    APPROVAL_REJECTED = "ApprovalRejected"
    APPROVAL_EXPIRED = "ApprovalExpired"
    TIMEOUT = "Timeout"
    RATE_LIMIT = "RateLimit"
    TRANSIENT_NETWORK = "TransientNetwork"  # the upstream died, refused or closed; it is restarted
    UPSTREAM_ERROR = "UpstreamError"  # the upstream answered with a protocol error or with garbage
    OUTPUT_TOO_LARGE = "OutputTooLarge"
    EXECUTION_ENDED = "ExecutionEnded"  # the call came after its execution was over, or had no answer by then
    REPLAY_DIVERGED = "ReplayDiverged"  # in a replay only: the record has no such call
    INTERNAL = "Internal"


class ApprovalState(StrEnum):
    """Closed set of H-034; `NOT_REQUIRED` is the only one that the guide names."""

    NOT_REQUIRED = "NOT_REQUIRED"
    PENDING = "PENDING"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"


DataFrom = Literal["structured", "json_text", "literal_text", "text", "content"]
"""Where a call's `data` lies in its raw result: `structuredContent`; the one text block, parsed, because it holds a
JSON object or array, or prints a Python list, tuple or dict; the text blocks joined by newlines; or the `content` list
itself when it holds anything but text.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcError:
    """A server's JSON-RPC error, for a client that called it without code. SECURITY: the server wrote `data`."""

    code: int
    data: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallError:
    """A tool call's failure as the guest sees it."""

    type: CallErrorType
    message: str
    retryable: bool = False
    rpc: RpcError | None = None  # how the server refused, if it did so; no part of what code gets

    def to_json(self) -> JsonObject:
        return {"type": str(self.type), "message": self.message, "retryable": self.retryable}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallSpec:
    """One call as code in a sandbox asked for it. SECURITY: names and arguments are hostile input."""

    run_id: str
    call_id: int  # unique within its execution
    server_id: str
    tool: str
    arguments: JsonObject = field(default_factory=dict)
    code_line: int = 0  # that makes the call, as the sandbox says; 0: it does not


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgress:
    """How far a call is, in its server's own words and numbers."""

    tool: str  # server.tool
    progress: float
    total: float | None = None
    message: str = ""  # one line

    def __str__(self) -> str:
        of = "" if self.total is None else f"/{self.total:g}"
        return f"{self.tool}: {self.progress:g}{of} {self.message}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMessage:
    """What a server logged during a call. SECURITY: all of it is the server's; `data` is any JSON."""

    level: str
    data: JsonValue
    logger: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted:
    """A call entered the pipeline. SECURITY: code chose the name; it is bounded, printable and redacted."""

    call_id: int  # unique within its execution
    tool: str  # server.tool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """A call that was started has its outcome; `message` is redacted."""

    call_id: int
    tool: str
    error_type: CallErrorType | None = None  # None: it succeeded
    message: str = ""
    approval: ApprovalState = ApprovalState.NOT_REQUIRED
    duration_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallOutcome:
    """What one passage through the broker came to. Exactly one of `error is None` and `data_from is None` holds."""

    error: CallError | None = None
    raw: JsonObject | None = None  # the upstream's CallToolResult after redaction
    data_from: DataFrom | None = None
    refused: bool = False  # by the broker, before anybody was asked or called
    approval: ApprovalState = ApprovalState.NOT_REQUIRED
    duration_ms: float = 0.0
    redactions: int = 0
    warnings: tuple[str, ...] = ()  # what did not fit but cost no data, e.g. structuredContent against outputSchema

    @property
    def ok(self) -> bool:
        return self.error is None
