"""Folders and files of control groups: writing to them, ending who is in them, removing them. All of it blocks."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_REMOVAL_TRIES, _REMOVAL_PAUSE_S = 50, 0.01  # the last process leaves its group a moment after it is reaped


def write_number(file: Path | str, value: int) -> None:
    """Write to a file of a group, in one system call. Raises OSError that names the file."""
    write_text(file, str(value))


def write_text(file: Path | str, text: str) -> None:
    """Write to a file of a group, in one system call. Raises OSError that names the file."""
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error
    finally:
        os.close(fd)


def end_processes(place: Path) -> None:
    """Send SIGKILL to every process in the group at `place`. One pass: what they start meanwhile is not seen.

    SECURITY: a number may be given to another process of the machine at any time. It is looked for in the group once
    more after there is a descriptor for it, so the signal meets a process of the group or nobody.
    """
    for pid in _members(place):
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            continue  # gone, or of another pid namespace
        try:
            if pid in _members(place):
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        finally:
            os.close(pidfd)


def _members(place: Path) -> set[int]:
    try:
        return {int(pid) for pid in (place / "cgroup.procs").read_text(encoding="ascii").split()} - {0}
    except OSError:
        return set()


def remove_folders(places: Sequence[Path]) -> tuple[Path, ...]:
    """Remove the groups and end who is still in them. Return those that are left, because they could not be removed."""
    return tuple(place for place in places if not _removed(place))


def _removed(place: Path) -> bool:
    for _ in range(_REMOVAL_TRIES):
        try:
            place.rmdir()
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.EBUSY:
                return False
            end_processes(place)  # nobody should be there; or it is only just gone, and counts for a moment
            time.sleep(_REMOVAL_PAUSE_S)
        else:
            return True
    return False


def remove_tree(top: Path) -> tuple[Path, ...]:
    """Remove `top` and the groups in it. Return those that are left."""
    return remove_folders((*top.glob("*/"), top))
