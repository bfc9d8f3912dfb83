"""Sentences for code that ran into a limit of its sandbox as a whole: which one, how large it is, what to do. Pure.

Where control groups count, their counters say so for certain. Where nobody counts (`rlimits-only`), a fork or thread
that was refused is told by Python's own error, and memory that ran out stays Python's `MemoryError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.core.envelope import ExecutionError
from moonpool.sandboxes.base import LimitKind

if TYPE_CHECKING:
    from moonpool.sandboxes.base import SandboxLimits

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
