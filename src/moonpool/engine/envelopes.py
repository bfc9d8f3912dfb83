"""From what an execution came to, to its envelope. Pure: a table of endings and the sentences for them.

The types of `error` beyond Python's own exception names: `Timeout`, `Cancelled`, `OutputTooLarge`,
`ResultNotSerializable`, `OutOfMemory`, `CpuTimeExceeded` and `ProcessLimit` (`ended_by`, `explained`),
`KernelExited` (the process ended by itself before it was done), `KernelKilled` (a signal that we did not send, or an
exit code above 128, which stands for one),
`ProtocolViolation` (what came from the sandbox was not the protocol), `SandboxError` (the wall or zygote was lost).

Code that ran into a limit of its sandbox as a whole is told which one, how large it is, what to do. Where control
groups count, their counters say so for certain. Where nobody counts (`rlimits-only`), a fork or thread that was refused
is told by Python's own error, and memory that ran out stays Python's `MemoryError`.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING

from moonpool.core.envelope import ExecutionError
from moonpool.core.errors import STARVED, MoonpoolError, is_starved, told
from moonpool.pipeline.guest_json import parse_result
from moonpool.sandboxes.base import ExitCause, ExitOutcome, LimitKind

if TYPE_CHECKING:
    from moonpool.core.envelope import FailedBy, StateAfter
    from moonpool.core.json import JsonValue
    from moonpool.engine.execution_spec import ExecutionOutcome, ExecutionSpec
    from moonpool.engine.output import StreamKeeper
    from moonpool.sandboxes.base import SandboxLimits

_ABORT_LIKE = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL})
_INTERRUPTED = 130
_CALLS_NAMED_MAX = 10
_OWN_SIGNALS = "send no signals to what runs the code, and set no alarm"


def error_of(outcome: ExecutionOutcome, spec: ExecutionSpec, exceeded: str = "") -> ExecutionError | None:
    """Why the execution failed, or None. `exceeded` is the call that its plan does not have."""
    suffix = _aftermath(outcome, spec)
    if outcome.forced is not None and not _violated(outcome):
        if outcome.forced == "plan":
            remedy = "nothing was sent; make another dry run and have its plan approved"
            return ExecutionError(type="PlanExceeded", message=f"{exceeded}; {remedy}{suffix}")
        return _forced_error(outcome.forced, spec, suffix)
    if outcome.done is not None:
        error = outcome.done.error
        if error is None:
            return None
        # A class may have no name. INVARIANT: on record, no type means that the execution succeeded.
        told = ExecutionError(type=error.type or "Exception", message=error.message, retryable=error.retryable)
        told = explained(told, outcome.limits_hit, spec.limits)
        if told.type == "KernelKilled":  # a companion's process, and no limit is why
            return ExecutionError(type=told.type, message=f"{told.message}; {_OWN_SIGNALS}, or look at native code")
        return told
    assert outcome.exit is not None
    limit = outcome.exit.limit
    if (
        outcome.process_only
        and outcome.exit.signal == signal.SIGKILL
        and LimitKind.MEMORY in (outcome.limits_hit or ())
    ):
        limit = LimitKind.MEMORY
    if limit is not None and outcome.exit.violation is None:
        return ended_by(limit, spec.limits, suffix)
    return _exit_error(outcome.exit, suffix)


def failed_by(outcome: ExecutionOutcome) -> FailedBy:
    """What the error that the outcome stands for is from."""
    if outcome.done is None or (outcome.forced is not None and not _violated(outcome)):
        return "moonpool"
    error = outcome.done.error
    return "result" if error is None or error.of_result else "code"


def state_after(outcome: ExecutionOutcome) -> StateAfter:
    """What is left of the session."""
    if outcome.done is not None:
        return "kept"
    return "lost" if outcome.recovered is None else "recovered"


def _aftermath(outcome: ExecutionOutcome, spec: ExecutionSpec) -> str:
    """What of the session is left, as the end of a sentence."""
    if outcome.done is not None or spec.final:
        return ""
    if (back := outcome.recovered) is None:
        what = "variables, files, checkpoints and branches" if spec.has_checkpoints else "variables"
        return f"; the {what} of this session are lost"
    before = len(back.runs) - 1
    which = "before this execution" if not before else f"before this execution and the {before} before it"
    told = [f"; variables and files are back as they were {which}"]
    if back.lost:
        told.append(f" (but for {back.lost})")
    if back.calls:
        changing = [call.tool for call in back.calls if call.changes]
        named = ", ".join(dict.fromkeys(changing[:_CALLS_NAMED_MAX]))
        more = ", ..." if len(changing) > _CALLS_NAMED_MAX else ""
        told.append(f"; {len(back.calls)} tool calls made since stay done")
        told.append(f", and {len(changing)} of them may have changed something: {named}{more}" if changing else "")
    return "".join(told)


def with_folder_failure(error: ExecutionError | None, failure: str) -> ExecutionError:
    """The error of an execution whose changes are not all in the folders of the host."""
    if error is None:
        return ExecutionError(type="FolderError", message=f"the code came to its end, but {failure}")
    return ExecutionError(type=error.type, message=f"{error.message}; {failure}", retryable=error.retryable)


def with_storage_failure(error: ExecutionError | None, failure: ExecutionError) -> ExecutionError:
    """The error of an execution whose changes of stored files were not kept."""
    if error is None:
        return replace(failure, message=f"the code came to its end, but {failure.message}")
    return replace(error, message=f"{error.message}; {failure.message}")


def internal_error(failure: Exception, *, hides_host: bool = False) -> ExecutionError:
    """The error for a failure of Moonpool itself. Its own text may hold what code wrote, so only its kind is told."""
    if isinstance(failure, MoonpoolError):
        message = told(failure, hides_host=hides_host)
        return ExecutionError(type="Internal", message=message, retryable=failure.retryable)
    if is_starved(failure):
        return ExecutionError(type="Internal", message=STARVED, retryable=True)
    what = failure.strerror if isinstance(failure, OSError) and failure.strerror else "this is a bug in Moonpool"
    return ExecutionError(type="Internal", message=f"Moonpool itself failed ({type(failure).__name__}): {what}")


def _violated(outcome: ExecutionOutcome) -> bool:
    return outcome.exit is not None and outcome.exit.violation is not None


def _forced_error(reason: str, spec: ExecutionSpec, suffix: str) -> ExecutionError:
    if reason == "timeout":
        message = f"the code did not end within {spec.timeout_s:g} s; do less at a time or ask for a longer timeout"
        return ExecutionError(type="Timeout", message=message + suffix, retryable=True)
    if reason == "output":
        message = "the code printed more than may be kept; print less, or write to a file in /workspace"
        return ExecutionError(type="OutputTooLarge", message=message + suffix)
    if reason == "journal":
        return ExecutionError(type="Internal", message="the audit journal cannot be written, so no code runs" + suffix)
    return ExecutionError(type="Cancelled", message="the execution was cancelled" + suffix)


def _exit_error(ended: ExitOutcome, suffix: str) -> ExecutionError:
    if ended.violation is not None:
        return ExecutionError(type="ProtocolViolation", message=ended.violation + suffix)
    if ended.cause is ExitCause.EXITED:
        message = (
            f"the process ended with status {ended.exit_code} before the code was done (os._exit, or a crash at exit); "
            "let the code come to its end, or use sys.exit"
        )
        return ExecutionError(type="KernelExited", message=message + suffix)
    if ended.signal is not None:
        if ended.signal in _ABORT_LIKE:
            what = "crashed", "look at the native code that it uses"
        elif ended.signal == signal.SIGKILL:
            what = "was killed", "the code did it itself, or the machine ran out of memory: work on less at a time"
        else:
            what = "was killed", f"the code did it itself: {_OWN_SIGNALS}"
        message = f"the process {what[0]} ({_signal_name(ended.signal)}); {what[1]}{suffix}"
        return ExecutionError(type="KernelKilled", message=message)
    return ExecutionError(
        type="SandboxError", message="the sandbox was lost with its host process" + suffix, retryable=True
    )


def exit_code_of(outcome: ExecutionOutcome) -> int:
    """As a shell would say it: the status, 128 and a signal's number, 1 for an exception."""
    if outcome.done is not None:
        if outcome.done.status == "interrupted":
            return _INTERRUPTED
        return outcome.done.exit_code or int(outcome.done.error is not None)
    assert outcome.exit is not None
    if outcome.exit.signal is not None:
        return 128 + outcome.exit.signal
    return outcome.exit.exit_code if outcome.exit.exit_code is not None else 1


def signal_of(outcome: ExecutionOutcome) -> str | None:
    """The name of the signal that ended the process that ran the code, if one did."""
    if outcome.exit is not None:
        return None if outcome.exit.signal is None else _signal_name(outcome.exit.signal)
    done = outcome.done
    if done is None or done.error is None or done.error.type != "KernelKilled" or done.exit_code <= 128:
        return None
    return _signal_name(done.exit_code - 128)


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def data_of(outcome: ExecutionOutcome, spec: ExecutionSpec, stdout: StreamKeeper) -> JsonValue | ExecutionError:
    """The value handed over (H-029): `result`, the last line of stdout if it is JSON, the last expression, or None."""
    if outcome.done is None:
        return None
    if outcome.done.has_result:
        if len(outcome.result) > spec.result_bytes_max:
            return too_large(len(outcome.result), spec.result_bytes_max)
        try:
            return parse_result(outcome.result)
        except (ValueError, RecursionError) as error:
            return ExecutionError(type="ProtocolViolation", message=f"the result is not usable JSON: {error}")
    for text in (stdout.last_line(), outcome.result if outcome.done.has_last else None):
        if text is not None and len(text) <= spec.result_bytes_max:
            try:
                return parse_result(text)
            except (ValueError, RecursionError):
                pass  # an ordinary line of text, or not what the kernel writes
    return None


def too_large(size: int, limit: int) -> ExecutionError:
    """The error for a result that may not be handed over."""
    return ExecutionError(
        type="OutputTooLarge",
        message=f"result is {size:,} bytes of JSON, but at most {limit:,} may be handed over; "
        "return a summary, or write the data to a file in /workspace",
    )


_NO_FORK = ("[Errno 11] ", "EAGAIN", "Resource temporarily unavailable")
_NO_THREAD = "can't start new thread"


def ended_by(limit: LimitKind, limits: SandboxLimits, suffix: str) -> ExecutionError:
    """The error of an execution whose sandbox was ended by `limit`."""
    if limit is LimitKind.CPU:
        message = (
            f"the sandbox used all of its {limits.cpu_s_max:,} s of processor time (cpu_s_max); compute less, "
            "or continue in a new session"
        )
        return ExecutionError(type="CpuTimeExceeded", message=message + suffix)
    if limit is LimitKind.FOLDER_SPACE:
        message = (
            "the code was ended because the file system of an attached folder is almost full, "
            "or does not say how full; write less"
        )
        return ExecutionError(type="SandboxError", message=message + suffix)
    return ExecutionError(type="OutOfMemory", message=f"the code was ended because {_memory_ran_out(limits)}{suffix}")


def explained(error: ExecutionError, hits: frozenset[LimitKind] | None, limits: SandboxLimits) -> ExecutionError:
    """`error` as the code's kernel told it, or what it came from when that was a limit. `hits` None: nobody counts."""
    if hits is not None and LimitKind.MEMORY in hits:
        if error.type == "KernelKilled":
            return ExecutionError(type="OutOfMemory", message=f"{_memory_ran_out(limits)}; {error.message}")
        message = f"{error.message}; besides, a process of the sandbox was ended because {_memory_ran_out(limits)}"
        return ExecutionError(type=error.type, message=message, retryable=error.retryable)
    if _is_refused_start(error) and (hits is None or LimitKind.PROCESSES in hits):
        sure = "" if hits is not None else "most likely "
        message = (
            f"the code could not start another process or thread ({error.message}), {sure}because a sandbox may have "
            f"{limits.process_count_max} (process_count_max); use fewer workers, or wait for some to end"
        )
        return ExecutionError(type="ProcessLimit", message=message)
    return error


def _is_refused_start(error: ExecutionError) -> bool:
    if error.type == "RuntimeError":
        return error.message == _NO_THREAD
    return error.type in ("BlockingIOError", "Error") and any(words in error.message for words in _NO_FORK)


def _memory_ran_out(limits: SandboxLimits) -> str:
    return (
        f"the sandbox had used all the memory it may ({_size(limits.memory_and_disk_bytes_max)}: "
        f"{_size(limits.memory_bytes_max)} and {_size(limits.disk_bytes_max)} for files; memory_bytes_max, "
        "disk_bytes_max); work on less at a time"
    )


def _size(count: int) -> str:
    return f"{count / 1024**2:,.0f} MiB"
