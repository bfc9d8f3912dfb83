"""From an envelope to the words of Baponi: status, exit code and error of an execution by one call. Pure.

`error` says why the host ended the code or could not run it. What the code did itself, an exception or an exit, is in
`exit_code` and stderr alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.engine.sandbox_runs.base import RunResult

if TYPE_CHECKING:
    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.features.execution_records.model import Status

NOT_RUN: Final = -1
"""The exit code of an execution whose process never ran."""
TIMED_OUT: Final = 124
_KILLED: Final = 137
INTERNAL: Final = "internal_error"


@dataclass(frozen=True, slots=True)
class _Ending:
    status: Status
    error: str
    exit_code: int | None = None  # None: the process's own


_BY_TYPE: Final = {
    "Timeout": _Ending("timeout", "timeout", TIMED_OUT),
    "OutOfMemory": _Ending("oom", "memory_limit_exceeded", _KILLED),
    "Cancelled": _Ending("cancelled", "cancelled"),
    "CpuTimeExceeded": _Ending("failed", "cpu_limit_exceeded", _KILLED),
    "OutputTooLarge": _Ending("failed", "output_limit_exceeded", _KILLED),
    "ProtocolViolation": _Ending("failed", "security_policy_violation", _KILLED),
    "SandboxError": _Ending("failed", "sandbox_lost", _KILLED),
    "StorageError": _Ending("failed", "storage_commit_error"),
    "StorageFull": _Ending("failed", "storage_commit_error"),
}
_BLOCKED: Final = _Ending("blocked", "blocked")
_OUT_OF_MEMORY: Final = frozenset({"OutOfMemory", "MemoryError"})
"""The second where nobody counts memory: the interpreter is refused more, and says so itself."""
_POLICY_SIGNAL: Final = "SIGSYS"
_ITS_OWN: Final = frozenset({"KernelExited", "KernelKilled"})
"""Errors of Moonpool's runtime contract that stand for what the code did itself."""


def result_of(envelope: Envelope, *, started: bool, was_blocked: bool, stream_bytes_max: int) -> RunResult:
    """What an execution came to. `started`: its code was sent; `was_blocked`: its network refused something."""
    if not started:
        return not_run(*_why_not_run(envelope))
    extras, metrics = envelope.extras, envelope.metrics
    exit_code = _number(extras.get("exit_code"), 1)
    ending = _ending(envelope, exit_code, was_blocked=was_blocked)
    if envelope.failed_by == "result":  # the code came to its end; nobody here wants its value
        exit_code = 0
    if ending is not None and ending.exit_code is not None:
        exit_code = ending.exit_code
    success = ending is None and exit_code == 0
    return RunResult(
        status="success" if success else "failed" if ending is None else ending.status,
        success=success,
        stdout=str(extras.get("stdout", "")),
        stderr=str(extras.get("stderr", "")),
        exit_code=exit_code,
        error=None if ending is None else ending.error,
        output_truncated=any(
            _number(metrics.get(f"{stream}_bytes"), 0) > stream_bytes_max for stream in ("stdout", "stderr")
        ),
        remark=envelope.note,
    )


def _ending(envelope: Envelope, exit_code: int, *, was_blocked: bool) -> _Ending | None:
    """How the host ended it; None: it ended itself."""
    error = envelope.error
    if error is None:
        return None
    if envelope.extras.get("signal") == _POLICY_SIGNAL:
        return _BY_TYPE["ProtocolViolation"]
    if envelope.failed_by == "moonpool" and error.type not in _ITS_OWN:
        return _BY_TYPE.get(error.type, _Ending("failed", INTERNAL))
    if error.type in _OUT_OF_MEMORY:
        return _BY_TYPE["OutOfMemory"]
    return _BLOCKED if was_blocked and exit_code != 0 else None


def _why_not_run(envelope: Envelope) -> tuple[Status, str]:
    kind = "" if envelope.error is None else envelope.error.type
    return ("cancelled", "cancelled") if kind == "Cancelled" else ("failed", INTERNAL)


def not_run(status: Status, error: str) -> RunResult:
    """Of an execution whose code never started."""
    return RunResult(status=status, success=False, stdout="", stderr="", exit_code=NOT_RUN, error=error)


def result_body(result: RunResult) -> JsonObject:
    """What Baponi's clients call a SandboxResult."""
    return {
        "success": result.success,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "exit_code": result.exit_code,
        "error": result.error,
    }


def _number(value: JsonValue, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise
