"""Failures of tool calls as exceptions.

Each has `type`, `message` and `retryable`, as in the result contract's `error`. Catch `ToolCallError` for all of
them, or one class per type: `ToolError` (the tool itself failed), `PolicyDenied`, `Timeout`...
"""

from __future__ import annotations

from typing import Any


class ToolCallError(Exception):
    """A tool call gave no data. The message says why and what to do."""

    def __init__(
        self,
        message: str,
        type: str = "ToolError",  # noqa: A002
        retryable: bool = False,
        tool: str = "",
        line: int = 0,  # of the code, where it made the call; 0: unknown
    ) -> None:
        named = message if not tool or tool in message else f"{tool}: {message}"
        super().__init__(f"{named} (called at line {line})" if line else named)
        self.message = message
        self.type = type
        self.retryable = retryable
        self.tool = tool
        self.line = line

    def __moonpool_error__(self) -> dict[str, Any]:
        """What the envelope says when the code did not catch this."""
        return {"type": self.type, "message": str(self), "retryable": self.retryable}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.type, self.retryable, self.tool, self.line)


class ToolError(ToolCallError):
    """The tool itself reported the failure."""


class UnknownTool(ToolCallError):  # noqa: N818  named as the contract names it
    """No such tool in this session."""


class ValidationError(ToolCallError):
    """The arguments do not fit the tool's schema; nothing was called."""


class PolicyDenied(ToolCallError):  # noqa: N818
    """A rule of the operator forbids the call."""


class ToolPaused(ToolCallError):  # noqa: N818
    """The server changed the tool, and the operator has not accepted that yet."""


class ApprovalRejected(ToolCallError):  # noqa: N818
    """A person refused the call."""


class ApprovalExpired(ToolCallError):  # noqa: N818
    """Nobody answered in time, which counts as a refusal."""


class Timeout(ToolCallError):  # noqa: N818
    """The server took too long."""


class RateLimit(ToolCallError):  # noqa: N818
    """Too many calls."""


class TransientNetwork(ToolCallError):  # noqa: N818
    """The server died or could not be reached; it is being restarted."""


class UpstreamError(ToolCallError):
    """The server answered with a protocol error or with garbage."""


class OutputTooLarge(ToolCallError):  # noqa: N818
    """The result is over the limit."""


class ExecutionEnded(ToolCallError):  # noqa: N818
    """The call came after its execution was over, or from a forked process."""


class ToolRunnerError(ToolCallError):
    """What `mcptools` raise when a tool fails or is refused; its cause is the typed error."""


class ApprovalRejectedError(ToolRunnerError):
    """The call was refused."""


class ApprovalTimeoutError(ToolRunnerError):
    """Nobody answered in time."""


_OF_RUNNERS: dict[str, type[ToolRunnerError]] = {
    "ApprovalRejected": ApprovalRejectedError,
    "ApprovalExpired": ApprovalTimeoutError,
}
_BY_TYPE = {each.__name__: each for each in ToolCallError.__subclasses__() if each is not ToolRunnerError}


def error_from(error: dict[str, Any], tool: str = "", line: int = 0) -> ToolCallError:
    """The exception for an `error` object; an unknown type gives the base class."""
    kind = str(error.get("type", "Internal"))
    Error = _BY_TYPE.get(kind, ToolCallError)  # noqa: N806
    return Error(str(error.get("message", "")), kind, bool(error.get("retryable")), tool, line)


def runner_error_from(error: ToolCallError) -> ToolRunnerError:
    """The exception that `mcptools` raise for it, as ipybox names them."""
    Error = _OF_RUNNERS.get(error.type, ToolRunnerError)  # noqa: N806
    return Error(error.message, error.type, error.retryable, error.tool, error.line)
