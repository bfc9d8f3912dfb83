"""Opening what is below a folder without following a link, by openat2, where others may change it meanwhile."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_NR_OPENAT2: Final = 437
NO_LINKS: Final = 2 | 4  # RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS
_BENEATH: Final = NO_LINKS | 1 | 8  # RESOLVE_NO_XDEV, RESOLVE_BENEATH
_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("flags", "mode", "resolve"))


def openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    """A descriptor of what is there; nothing is made. Raises OSError."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    return system_call(path, _NR_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), size)


def open_beneath(root: int, path: str, flags: int) -> int:
    """What is at `path` below `root`; an empty one is the root itself. Raises OSError."""
    return openat2(root, path or ".", flags, _BENEATH)


def system_call(path: str, *arguments: object) -> int:
    """Its result. Raises OSError, which names `path`."""
    result: int = _libc.syscall(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return result
