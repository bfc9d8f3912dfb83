"""What an execution came to, for applications."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Self, cast

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.envelope import Envelope, ExecutionError, FailedBy, StateAfter
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.sdk.checkpoints import Undone

_RICHEST_FIRST: Final = ("text/html", "image/svg+xml", "text/markdown", "text/latex", "application/json")
StreamName = Literal["stdout", "stderr"]
"""Where code prints."""


class ExecutionFailedError(MoonpoolError):
    """Code did not succeed. Raised by `Result.check`; `result` has everything that came of it."""

    code = "execution_failed"
    fault = Fault.GUEST

    def __init__(self, result: Result) -> None:
        assert result.error is not None
        super().__init__(f"{result.error.type}: {result.error.message}")
        self.result = result


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """Something that the code showed: a picture, or a value that IPython shows in richer forms than plain text.

    SECURITY: the code made it, markup and scripts too. `mime` of a picture was read from its first bytes; nothing was
    decoded.
    """

    mime: str  # the richest form: image/png, image/jpeg, image/gif, image/webp, text/html, image/svg+xml and the like
    data: bytes  # in that form; text as UTF-8
    name: str = ""  # of its file in /workspace, where it has one
    forms: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)  # all of a value's, by MIME type


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that the code made in /workspace."""

    name: str  # its path below /workspace
    size: int  # bytes
    mime: str  # as its name claims
    path: str | None  # of the copy on this machine after `moonpool.run`; in the sandbox otherwise; None: not kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one execution came to. Code that fails is a result, too: `ok` is false and `error` says why."""

    run_id: str  # names it in the audit journal, recordings and receipts
    data: JsonValue = None  # value of the last expression, or of the variable `result`, as JSON
    error: ExecutionError | None = None  # None: the code succeeded
    stdout: str = ""  # redacted; of much output head and tail, with the name of the file that has all
    stderr: str = ""  # the same of error output; an exception's traceback is in it
    displays: tuple[Display, ...] = ()  # pictures, then values in rich forms, in the order in which they were shown
    files: tuple[File, ...] = ()  # that it made or changed in /workspace, at most 50
    text: str = ""  # the last expression as IPython shows it in plain text
    note: str = ""  # why `data` is None although the code ended in an expression; files of a folder kept twice
    exit_code: int = 0  # as of a process: 1 for an exception, 128 + n for signal n
    duration_ms: int = 0  # from its start to its end, waiting for approvals included
    tool_calls: int = 0  # refused and failed ones included
    failed_by: FailedBy = ""
    """What `error` is from: the `code`, its `result` (which cannot be handed over, but the code came to its end), or
    `moonpool` (which ended the code, or could not run it). Empty: nothing failed."""
    state: StateAfter = "kept"
    """What is left of the session's variables: `kept`, `recovered` from a checkpoint, `lost`."""
    recovered: Undone | None = None
    """The code's process ended, and the session went on from this checkpoint; see `moonpool.session(checkpoints=)`."""
    envelope: Mapping[str, JsonValue] = field(default_factory=dict[str, "JsonValue"], repr=False)
    """All of it as JSON, see docs/reference/runtime-contract.md."""

    @property
    def ok(self) -> bool:
        """Whether the code succeeded."""
        return self.error is None

    def check(self) -> Self:
        """This result, if the code succeeded. Raises ExecutionFailedError."""
        if self.error is not None:
            raise ExecutionFailedError(self)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a session used so far, over all of its executions."""

    executions: int = 0  # failed ones included
    tool_calls: int = 0  # refused and failed ones included
    duration_ms: int = 0  # of all executions together
    stdout_bytes: int = 0  # printed, what was cut included
    stderr_bytes: int = 0  # the same of error output

    def plus(self, result: Result) -> Usage:
        """With one more execution."""
        metrics = cast("JsonObject", cast("JsonObject", result.envelope["result"])["metrics"])
        return Usage(
            executions=self.executions + 1,
            tool_calls=self.tool_calls + result.tool_calls,
            duration_ms=self.duration_ms + result.duration_ms,
            stdout_bytes=self.stdout_bytes + _count(metrics, "stdout_bytes"),
            stderr_bytes=self.stderr_bytes + _count(metrics, "stderr_bytes"),
        )


def result_of(envelope: Envelope, recovered: Undone | None = None) -> Result:
    """An envelope as applications see it."""
    extras = envelope.extras
    return Result(
        run_id=envelope.run_id,
        data=envelope.data,
        error=envelope.error,
        stdout=str(extras.get("stdout") or ""),
        stderr=str(extras.get("stderr") or ""),
        displays=_displays(envelope),
        text=next((one.forms.get("text/plain", "") for one in envelope.displays if one.is_result), ""),
        files=tuple(File(name=f.name, size=f.size, mime=f.mime, path=f.path) for f in envelope.made.files),
        note=envelope.note,
        exit_code=_count(extras, "exit_code"),
        duration_ms=envelope.duration_ms,
        tool_calls=_count(envelope.metrics, "tool_calls"),
        failed_by=envelope.failed_by,
        state=envelope.state,
        recovered=recovered,
        envelope=envelope.to_json(),
    )


def _displays(envelope: Envelope) -> tuple[Display, ...]:
    pictures = [Display(mime=one.mime, data=one.data, name=one.name) for one in envelope.pictures]
    for one in envelope.displays:
        mime = next((mime for mime in _RICHEST_FIRST if mime in one.forms), "text/plain")
        if mime != "text/plain":
            pictures.append(Display(mime=mime, data=one.forms[mime].encode(), forms=one.forms))
    return tuple(pictures)


def _count(metrics: Mapping[str, JsonValue], name: str) -> int:
    value = metrics.get(name)
    return value if isinstance(value, int) else 0
