"""What keeps a kernel from having a twin: what a fork does not copy, or would share. Seen from PID 1, in /proc."""

import os
from contextlib import suppress

_NAMES_MAX = 5
_OWN_MAX = 3  # standard streams and the channel
_SHARED = ("socket:", "pipe:", "anon_inode:", "/dev/pts/", "/dev/tty")


def told(pid: int, others: "list[tuple[int, str]]", *, threads: "list[str]", known: "list[int]") -> str:
    """Name them, empty if there are none. `known` are descriptors of the kernel's own; `threads` are Python's names."""
    try:
        count = len(os.listdir(f"/proc/{pid}/task")) - 1
        found = [f"thread {name!r}" for name in threads[:count]]
        found += ["a thread that is not Python's"] * (count - len(found))
        found += [f"process {name!r} ({other})" for other, name in others]
        found += _descriptors(pid, known)
    except OSError:
        return "what the code has open cannot be seen"
    more = f" and {len(found) - _NAMES_MAX} more" if len(found) > _NAMES_MAX else ""
    return ", ".join(found[:_NAMES_MAX]) + more


def _descriptors(pid: int, known: "list[int]") -> "list[str]":
    folder = f"/proc/{pid}/fd"
    numbers = sorted(map(int, os.listdir(folder)))
    streams = {os.readlink(f"{folder}/{fd}") for fd in numbers if fd < _OWN_MAX}
    found: list[str] = []
    for fd in numbers:
        target = os.readlink(f"{folder}/{fd}")
        if fd > _OWN_MAX and fd not in known and target.startswith(_SHARED) and target not in streams:
            what = target.removeprefix("anon_inode:").partition(":")[0].strip("[]")
            found.append(f"{what} (descriptor {fd})")
    return found


def processes(known: "set[int]") -> "list[tuple[int, str]]":
    """Pids and names of live processes of the sandbox that are not `known`, also of those whose first thread ended."""
    found: list[tuple[int, str]] = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in known:
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                head, _, rest = file.read().rpartition(b")")
                if rest.split()[0] != b"Z" or len(os.listdir(f"/proc/{name}/task")) > 1:
                    found.append((int(name), head.partition(b"(")[2].decode(errors="replace")))
    return found
