"""System calls that Python does not offer, through ctypes. One verb each; every failure is an OSError.

Everything a sandbox needs once is made when this is imported, in the zygote: functions with their argument types,
structures. A sandbox that made them itself would write to some 100 pages, each of which is copied then.

`PyDLL` keeps the GIL during a call, so that the child of a raw `clone3` comes back into a consistent interpreter.
Numbers are those of x86_64 and aarch64, which agree from 424 upwards.
"""

import ctypes
import os
import platform
import signal
from typing import Any

_X86_64 = platform.machine() == "x86_64"
_NUMBERS = {"capset": (126, 91), "seccomp": (317, 277), "clone": (56, 220)}
_NR = {name: numbers[0 if _X86_64 else 1] for name, numbers in _NUMBERS.items()}
_NR_CLONE3 = 435
_NR_OPENAT2 = 437
_NR_MOUNT_SETATTR = 442

CLONE_NEWNS = 0x0002_0000
_CLONE_PARENT = 0x0000_8000
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

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 8, 32, 4096, 16_384
MS_PRIVATE = 1 << 18
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
_before_fork = ctypes.pythonapi.PyOS_BeforeFork
_after_fork_parent = ctypes.pythonapi.PyOS_AfterFork_Parent
_after_fork_child = ctypes.pythonapi.PyOS_AfterFork_Child


def _system_call(*kinds: Any) -> Any:
    """`syscall` for a number and arguments of these kinds."""
    function = _libc["syscall"]  # by index: another object each time
    function.restype = ctypes.c_long
    function.argtypes = (ctypes.c_long, *kinds)
    return function


_capset = _system_call(ctypes.c_void_p, ctypes.c_void_p)
_clone3 = _system_call(ctypes.c_void_p, ctypes.c_size_t)
_clone = _system_call(ctypes.c_ulong, *(ctypes.c_void_p,) * 4)
_mount_setattr = _system_call(ctypes.c_int, ctypes.c_char_p, ctypes.c_uint, ctypes.c_void_p, ctypes.c_size_t)
_openat2 = _system_call(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
_seccomp = _system_call(ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p)
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


def mount(source: str, target: str, fstype: "str | None", flags: int, options: str = "") -> None:
    """Mount a file system or bind a folder."""
    kind = fstype.encode() if fstype else None
    _checked(_libc.mount(source.encode(), target.encode(), kind, flags, options.encode() or None))


def unmount(target: str) -> None:
    """Detach a mount; what is open in it stays open."""
    _checked(_libc.umount2(target.encode(), MNT_DETACH))


_READ_ONLY = (ctypes.c_uint64 * 4)(MS_RDONLY)  # MOUNT_ATTR_RDONLY, which has the same number, is to be set
_READ_ONLY_BYTES = ctypes.sizeof(_READ_ONLY)


def make_read_only(folder: str) -> None:
    """Make the mount at `folder` and all below it read-only."""
    _checked(_mount_setattr(_NR_MOUNT_SETATTR, _AT_FDCWD, folder.encode(), _AT_RECURSIVE, _READ_ONLY, _READ_ONLY_BYTES))


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


def hide_proc_files() -> None:
    """Let no other process of this uid open what is behind our descriptors, or our memory, below /proc."""
    prctl(_PR_SET_DUMPABLE, 0)


def set_no_new_privileges() -> None:
    """No later execve can gain privileges; a condition for an unprivileged seccomp filter."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Empty every capability set, ambient and bounding included, and lock the securebits."""
    change = _libc.prctl  # 41 calls: each through `prctl` would take twice as long
    for capability in range(_CAPABILITY_LAST + 1):
        if change(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # a Linux kernel with fewer capabilities
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    prctl(_PR_SET_SECUREBITS, _SECUREBITS_LOCKED)
    _checked(_capset(_NR["capset"], _CAPABILITY_HEADER, _NO_CAPABILITIES))


_CAPABILITY_HEADER = (ctypes.c_uint32 * 2)(0x2008_0522, 0)
_NO_CAPABILITIES = (ctypes.c_uint32 * 6)()


RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 2, 4, 8


class _OpenHow(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("flags", "mode", "resolve"))


def open_beneath(folder_fd: int, path: bytes, flags: int) -> int:
    """Open `path` below a folder without ever following a link, or leaving the folder by `..`. Makes nothing."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
    return _checked(_openat2(_NR_OPENAT2, folder_fd, path, ctypes.byref(how), ctypes.sizeof(how)))


class FilterProgram(ctypes.Structure):
    """A BPF program (struct sock_filter[]) as `load_seccomp` takes it."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    def __init__(self, program: bytes) -> None:
        super().__init__(len(program) // 8, program)


def load_seccomp(program: FilterProgram) -> None:
    """Load a filter for this thread and all its children."""
    _checked(_seccomp(_NR["seccomp"], _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(program)))


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
    _CLONE.flags = namespaces | _CLONE_PIDFD | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID
    _CLONE.child_tid = tid_address
    _before_fork()
    result = _clone3(_NR_CLONE3, _CLONE_AT, _CLONE_BYTES)
    if result == 0:
        _after_fork_child()
        return 0, -1
    code = ctypes.get_errno()
    _after_fork_parent()
    if result < 0:
        raise OSError(code, os.strerror(code), "clone3")
    return result, _PIDFD.value


def clone_sibling(tid_address: int) -> int:
    """Fork a child of this process's parent. Return 0 in the child, its pid here; see `clone_into`'s INVARIANT."""
    flags = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID | int(signal.SIGCHLD)
    last = (tid_address, None) if _X86_64 else (None, tid_address)
    _before_fork()
    result = _clone(_NR["clone"], flags, None, None, *last)
    if result == 0:
        _after_fork_child()
        return 0
    code = ctypes.get_errno()
    _after_fork_parent()
    if result < 0:
        raise OSError(code, os.strerror(code), "clone")
    return result


_PIDFD = ctypes.c_int(-1)  # where the Linux kernel writes it
_CLONE = _CloneArguments(pidfd=ctypes.addressof(_PIDFD), exit_signal=int(signal.SIGCHLD))
_CLONE_AT, _CLONE_BYTES = ctypes.addressof(_CLONE), ctypes.sizeof(_CLONE)


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
