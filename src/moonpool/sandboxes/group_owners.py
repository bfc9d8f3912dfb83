"""Whose a folder of control groups is, told by its name, so that what an owner left behind can be removed.

All groups of one host process lie below one folder per hierarchy: `moonpool-<pid namespace>-<pid>-<start
time>-<random>`. Folders of owners that are gone are removed by the next start: their processes are gone too, because
outer sandboxes end with their host.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.sandboxes.group_files import remove_tree, write_number

if TYPE_CHECKING:
    from collections.abc import Iterable

_GONE = frozenset({"Z", "X"})  # a zombie holds nothing any more
_NAME = re.compile(r"moonpool-(\d+)-(\d+)-(\d+)-[0-9a-f]{8}")


def owner_name() -> str:
    """A name for this process's folders that tells later ones whether it still lives."""
    return f"moonpool-{_pid_namespace()}-{os.getpid()}-{_start_time(os.getpid())}-{secrets.token_hex(4)}"


def sweep(bases: Iterable[Path]) -> None:
    """Remove the folders of owners that are gone. What cannot be removed is left for the next start. Blocks."""
    for base in dict.fromkeys(bases):
        for folder in base.glob("moonpool-*"):
            if _is_abandoned(folder.name):
                with contextlib.suppress(OSError):
                    write_number(folder / "cgroup.kill", 1)  # of version 2
                remove_tree(folder)


def _is_abandoned(name: str) -> bool:
    """Whether the process that made it certainly is gone: only one of our own pid namespace can be looked for."""
    match = _NAME.fullmatch(name)
    if match is None:
        return False
    namespace, pid, started = (int(number) for number in match.groups())
    return namespace == _pid_namespace() and _start_time(pid) != started


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _start_time(pid: int) -> int | None:
    """When the process started, in ticks since boot; None if it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in _GONE else int(fields[19])
