"""Access of an unprivileged uid to host files, judged from modes alone.

A process of root can read everything, so opening a file proves nothing: a parent folder (such as a 0700 home) may still
deny access to the sandbox's uid. A sandbox has no supplementary groups, so only the bits for owner and others count.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from pathlib import Path

_READ_SHIFT = 2
_EXECUTE_SHIFT = 0


def first_obstacle(path: Path, uid: int) -> Path | None:
    """Return the first folder on the way to `path`, or `path` itself, that `uid` may not pass; None if it may read."""
    real = path.resolve()
    for folder in reversed(real.parents):
        if not _allows(folder.stat(), uid, _EXECUTE_SHIFT):
            return folder
    found = real.stat()
    readable = _allows(found, uid, _READ_SHIFT)
    searchable = not stat.S_ISDIR(found.st_mode) or _allows(found, uid, _EXECUTE_SHIFT)
    return None if readable and searchable else real


def is_writable_by_others(path: Path) -> bool:
    """Whether anybody but the owner may change `path`."""
    return bool(path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _allows(found: os.stat_result, uid: int, shift: int) -> bool:
    class_shift = 6 if found.st_uid == uid else 0
    return bool(found.st_mode >> class_shift >> shift & 1)
