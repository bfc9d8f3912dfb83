"""Prevents the memory of a command with credentials from being written to disk or read by other processes.

SECURITY: a crash would write every secret and token in clear into a core file, or pass it to the host's crash handler.
The process is not dumpable, so the Linux kernel writes nothing and lets no other program of the user read or trace it.
`exec` resets that; servers started here inherit the core limit instead. The limit is 1 because 0 does not stop a piped
core_pattern from starting its handler, and below one page no file is written either.
"""

from __future__ import annotations

import ctypes
import os
import resource
from typing import Final

_PR_SET_DUMPABLE: Final = 4
_CORE_BYTES: Final = 1


def keep_memory_private() -> None:
    """Protect this process and, against core files, its children. Raises OSError."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    soft = _CORE_BYTES if hard == resource.RLIM_INFINITY else min(_CORE_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot keep this process from being dumped: {os.strerror(number)}")
