"""System calls that Python does not offer, through ctypes. One verb each; every failure is an OSError.

`PyDLL` keeps the GIL during a call, so that the child of a raw `clone3` comes back into a consistent interpreter.
Numbers are those of x86_64 and aarch64, which agree from 424 upwards.
"""

import ctypes
import os
import platform
import signal
from typing import Any

_X86_64 = platform.machine() == "x86_64"
_NUMBERS = {"capset": (126, 91), "seccomp": (317, 277)}
_NR = {name: numbers[0 if _X86_64 else 1] for name, numbers in _NUMBERS.items()}
_NR_CLONE3 = 435
_NR_OPENAT2 = 437
_NR_MOUNT_SETATTR = 442

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000
ALL_NAMESPACES = (
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET
)
_CLONE_PIDFD = 0x1000
_CLONE_CHILD_CLEARTID = 0x0020_0000
_CLONE_CHILD_SETTID = 0x0100_0000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096
MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_HUGE = 2 * 1024 * 1024
_MADV_COLLAPSE = 25

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS = 1, 4, 24, 28
_PR_SET_NO_NEW_PRIVS, _PR_GET_TID_ADDRESS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 40, 47, 4
_SECCOMP_SET_MODE_FILTER = 1
_CAPABILITY_LAST = 40  # CAP_CHECKPOINT_RESTORE; higher numbers fail with EINVAL, which ends the loop
_SECUREBITS_LOCKED = 0x2F  # NOROOT, NO_SETUID_FIXUP, both locked, KEEP_CAPS locked

_libc = ctypes.PyDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_python = ctypes.pythonapi


_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
_libc.prctl.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)  # declared once: a sandbox makes 50 of these calls
_libc.unshare.argtypes = (ctypes.c_int,)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _call(number: int, *arguments: Any) -> int:
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _checked(_syscall(ctypes.c_long(number), *converted))


def mount(source: str, target: str, fstype: "str | None", flags: int, options: str = "") -> None:
    """Mount a file system or bind a folder."""
    kind = fstype.encode() if fstype else None
    _checked(_libc.mount(source.encode(), target.encode(), kind, flags, options.encode() or None))


def unmount(target: str) -> None:
    """Detach a mount; what is open in it stays open."""
    _checked(_libc.umount2(target.encode(), MNT_DETACH))


def make_read_only(folder: str) -> None:
    """Make the mount at `folder` and all below it read-only."""
    attributes = (ctypes.c_uint64 * 4)(MS_RDONLY)  # MOUNT_ATTR_RDONLY, which has the same number, is to be set
    _call(
        _NR_MOUNT_SETATTR, _AT_FDCWD, ctypes.c_char_p(folder.encode()), _AT_RECURSIVE,
        ctypes.byref(attributes), ctypes.sizeof(attributes),
    )  # fmt: skip


def unshare(namespaces: int) -> None:
    """Leave for fresh `namespaces`, e.g. CLONE_NEWCGROUP."""
    _checked(_libc.unshare(namespaces))


def prctl(option: int, argument: int = 0, argument2: int = 0) -> int:
    """Change a property of this process."""
    return _checked(_libc.prctl(option, argument, argument2, 0, 0))


def die_with_parent() -> None:
    """Get SIGKILL when the thread that forked this process ends."""
    prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def own_proc_files() -> None:
    """Let this process open its own files below /proc, which are root's after a change of uid."""
    prctl(_PR_SET_DUMPABLE, 1)


def set_no_new_privileges() -> None:
    """No later execve can gain privileges; a condition for an unprivileged seccomp filter."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Empty every capability set, ambient and bounding included, and lock the securebits."""
    for capability in range(_CAPABILITY_LAST + 1):
        try:
            prctl(_PR_CAPBSET_DROP, capability)
        except OSError:
            break  # a Linux kernel with fewer capabilities
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    prctl(_PR_SET_SECUREBITS, _SECUREBITS_LOCKED)
    header = (ctypes.c_uint32 * 2)(0x2008_0522, 0)
    empty = (ctypes.c_uint32 * 6)()
    _call(_NR["capset"], ctypes.byref(header), ctypes.byref(empty))


RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 2, 4, 8


class _OpenHow(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("flags", "mode", "resolve"))


def open_beneath(folder_fd: int, path: bytes, flags: int) -> int:
    """Open `path` below a folder without ever following a link, or leaving the folder by `..`. Makes nothing."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
    return _call(_NR_OPENAT2, folder_fd, ctypes.c_char_p(path), ctypes.byref(how), ctypes.sizeof(how))


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def load_seccomp(program: bytes) -> None:
    """Load a BPF program (struct sock_filter[]) for this thread and all its children."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = _FilterProgram(len(program) // 8, ctypes.addressof(buffer))
    _call(_NR["seccomp"], _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(header))


class _CloneArguments(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            "flags",
            "pidfd",
            "child_tid",
            "parent_tid",
            "exit_signal",
            "stack",
            "stack_size",
            "tls",
            "set_tid",
            "set_tid_size",
            "cgroup",
        )
    )


def thread_id_address() -> int:
    """Where glibc caches this thread's id; the clone writes the child's there, as fork() does."""
    address = ctypes.c_long(0)
    prctl(_PR_GET_TID_ADDRESS, ctypes.addressof(address))
    return address.value


def clone_into(namespaces: int, tid_address: int) -> "tuple[int, int]":
    """Fork into new `namespaces`. Return (0, -1) in the child, (pid, pidfd) in the parent.

    INVARIANT: only for a single-threaded caller: a raw clone3 skips pthread_atfork, so any lock that another thread
    held would stay locked in the child (seen: OpenBLAS with two threads hangs at the first large product).
    """
    pidfd = ctypes.c_int(-1)
    arguments = _CloneArguments(
        flags=namespaces | _CLONE_PIDFD | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID,
        pidfd=ctypes.addressof(pidfd),
        child_tid=tid_address,
        exit_signal=int(signal.SIGCHLD),
    )
    number, pointer, size = ctypes.c_long(_NR_CLONE3), ctypes.byref(arguments), ctypes.c_long(ctypes.sizeof(arguments))
    _python.PyOS_BeforeFork()
    result = _syscall(number, pointer, size)
    if result == 0:
        _python.PyOS_AfterFork_Child()
        return 0, -1
    code = ctypes.get_errno()
    _python.PyOS_AfterFork_Parent()
    if result < 0:
        raise OSError(code, os.strerror(code), "clone3")
    return result, pidfd.value


def collapse_heap() -> int:
    """Back the process's own heap by huge pages where its ranges are aligned; return how many 2 MiB were collapsed.

    A fork copies one entry for a huge page instead of 512. Measured with numpy, pandas, matplotlib and IPython loaded:
    clone 5.5 -> 2.6 ms, exit 5.2 -> 3.3 ms; a page that a child writes to is split, so memory stays as it was.
    Where Linux cannot (before 6.1, or huge pages switched off) everything works as before.
    """
    done = 0
    with open("/proc/self/maps", encoding="utf-8") as maps:
        ranges = [line.split() for line in maps]
    for fields in ranges:
        if fields[1] != "rw-p" or (len(fields) > 5 and fields[5] != "[heap]"):
            continue
        start, end = (int(text, 16) for text in fields[0].split("-"))
        for address in range(-(-start // _HUGE) * _HUGE, end // _HUGE * _HUGE, _HUGE):
            done += _libc.madvise(address, _HUGE, _MADV_COLLAPSE) == 0
    return done
