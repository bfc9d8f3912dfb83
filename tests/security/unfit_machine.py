"""Runs a command on a machine that cannot isolate code: `unfit_machine.py LACK [ARGUMENT] -- COMMAND...`.

The machine is this one, seen from namespaces of the command's own; nothing outside them changes. An ordinary user gets
a user namespace first, which maps nobody but itself.

`no-namespaces`: user.max_user_namespaces is 0. `masked-proc`: a part of /proc is covered, as in containers.
`no-bubblewrap`: there is none. `bubblewrap PATH`: that program stands in its place. `one-uid`: no uid but one exists.
`no-mounts`: nothing may be mounted.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_NEWNS, _NEWUSER = 0x20000, 0x10000000
_BIND, _PRIVATE, _RECURSIVE = 4096, 1 << 18, 16384
_BWRAPS = ("/usr/local/bin/bwrap", "/usr/bin/bwrap", "/bin/bwrap", "/usr/lib/moonpool/launcher")
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    lack, *rest = sys.argv[1:]
    end = rest.index("--")
    argument, command = "".join(rest[:end]), rest[end + 1 :]
    if lack == "no-namespaces":
        enter(_NEWUSER)
        Path("/proc/sys/user/max_user_namespaces").write_text("0", encoding="ascii")
    elif lack == "one-uid":
        enter(_NEWUSER, root_inside=True)
    else:
        enter(_NEWNS if os.geteuid() == 0 else _NEWNS | _NEWUSER)
        check(_libc.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None))
        if lack == "masked-proc":
            cover("/proc/uptime", "/dev/null")
        else:
            for path in {os.path.realpath(path) for path in _BWRAPS if Path(path).exists()}:
                cover(path, argument or "/dev/null")
    os.execvp(command[0], command)  # noqa: S606


def enter(flags: int, *, root_inside: bool = False) -> None:
    """Unshare; a child that stays outside maps all that this user may map."""
    if not flags & _NEWUSER:
        check(_libc.unshare(flags))
        return
    uid, gid = os.geteuid(), os.getegid()
    everybody = "0 0 4294967295"
    maps = {"uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
    if root_inside:
        maps = {"uid_map": f"0 {uid} 1", "gid_map": f"0 {gid} 1"}
    elif uid == 0:
        maps = dict.fromkeys(maps, everybody)
    me = os.getpid()
    ready_read, ready_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ready_write)
        os.read(ready_read, 1)
        if uid != 0 or root_inside:
            Path(f"/proc/{me}/setgroups").write_text("deny", encoding="ascii")
        for name, text in maps.items():
            Path(f"/proc/{me}/{name}").write_text(text, encoding="ascii")
        os._exit(0)
    check(_libc.unshare(flags))
    os.write(ready_write, b"x")
    os.close(ready_write)
    os.close(ready_read)
    assert os.waitpid(child, 0)[1] == 0


def cover(path: str, by: str) -> None:
    check(_libc.mount(by.encode(), path.encode(), None, _BIND, None))


def check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


if __name__ == "__main__":
    main()
