"""The first lines of every attack program in Python: functions that try attacks and report what got through.

`attempt(name, action, *codes)` runs one attack, which is blocked if the action raises OSError, with one of `codes` if
any are named. `syscall(name, ...)` makes a raw system call. `note(text)` reports a hole found in another way. The
program ends with `result = verdict()`, which `compose` appends. Node and Bash have the same functions (`node_prelude`,
`bash_prelude`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.doctor.probes.bash_prelude import compose_bash
from moonpool.doctor.probes.node_prelude import compose_node

if TYPE_CHECKING:
    from moonpool.sandboxes.base import SandboxSpec

PRELUDE = r'''
import ctypes, errno, fcntl, os, resource, signal, socket, stat, struct, subprocess, sys, time

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_COLUMN = 0 if os.uname().machine == "x86_64" else 1
_NUMBERS = dict(
    ptrace=(101, 117), process_vm_readv=(310, 270), kcmp=(312, 272), bpf=(321, 280), perf_event_open=(298, 241),
    userfaultfd=(323, 282), add_key=(248, 217), request_key=(249, 218), keyctl=(250, 219), kexec_load=(246, 104),
    init_module=(175, 105), finit_module=(313, 273), delete_module=(176, 106), reboot=(169, 142), swapon=(167, 224),
    acct=(163, 89), syslog=(103, 116), settimeofday=(164, 170), clock_settime=(227, 112), adjtimex=(159, 171),
    personality=(135, 92), name_to_handle_at=(303, 264), open_by_handle_at=(304, 265), fanotify_init=(300, 262),
    move_pages=(279, 239), mbind=(237, 235), set_mempolicy=(238, 237), migrate_pages=(256, 238), vmsplice=(278, 75),
    memfd_create=(319, 279), shmget=(29, 194), semget=(64, 190), msgget=(68, 186), mq_open=(240, 180),
    mount=(165, 40), umount2=(166, 39), pivot_root=(155, 41), chroot=(161, 51), unshare=(272, 97), setns=(308, 268),
    clone=(56, 220), clone3=(435, 435), io_setup=(206, 0), io_uring_setup=(425, 425), io_uring_enter=(426, 426),
    io_uring_register=(427, 427), open_tree=(428, 428), move_mount=(429, 429), fsopen=(430, 430), fsmount=(432, 432),
    mount_setattr=(442, 442), pidfd_open=(434, 434), pidfd_getfd=(438, 438), memfd_secret=(447, 447), mlock=(149, 228),
    fcntl=(72, 25), renameat2=(316, 276), prctl=(157, 167), inotify_init1=(294, 26),
    ioctl=(16, 29), sethostname=(170, 161), prlimit64=(302, 261), quotactl=(179, 60), capset=(126, 91),
    seccomp=(317, 277), madvise=(28, 233), setxattrat=(463, 463),
    landlock_create_ruleset=(444, 444), iopl=(172, 470), ioperm=(173, 470), modify_ldt=(154, 470),
)
_through, _stopped, _tries = [], {}, 0
STRICT = True


def syscall(name, *arguments):
    number = name if isinstance(name, int) else _NUMBERS[name][_COLUMN]
    values = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    value = _libc.syscall(ctypes.c_long(number), *values)
    if value == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return value


def attempt(name, action, *codes):
    global _tries
    _tries += 1
    try:
        action()
    except OSError as error:
        code = errno.errorcode.get(error.errno, str(error.errno))
        _stopped[code] = _stopped.get(code, 0) + 1
        if STRICT and codes and code not in codes:  # not when a layer was taken away: another may answer differently
            note(f"{name}: {code}, expected {' or '.join(codes)}")
    else:
        note(f"{name}: got through")


def note(text):
    _through.append(str(text))


def seen(text):
    global _tries
    _tries += 1
    _stopped[str(text)] = _stopped.get(str(text), 0) + 1


def in_child(action):
    """Run `action` in a forked child; return its exit status, or minus the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = int(action() or 0)
        except OSError as error:
            code = error.errno
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def read(path, size=4096):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)


def write(path, text):
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def verdict():
    if not _tries:
        return {"blocked": False, "detail": "the probe tried nothing"}
    kinds = ", ".join(f"{count} x {code}" for code, count in sorted(_stopped.items()))
    return {"blocked": not _through, "detail": ("; ".join(_through) or kinds)[:1500]}
'''


def compose(program: str, spec: SandboxSpec, language: str = "python") -> str:
    """The whole program: prelude, the sandbox's limits, the attack, the verdict."""
    limits = spec.limits
    numbers = {
        "PROCESSES": limits.process_count_max,
        "MEMORY_BYTES": limits.memory_bytes_max,
        "OPEN_FILES": limits.open_files_max,
        "FILE_BYTES": limits.fsize_bytes_max,
        "DISK_BYTES": limits.disk_bytes_max,
        "DISK_INODES": limits.disk_inodes_max,
    }
    if language == "bash":
        return compose_bash(program, numbers)
    promised = {
        **numbers,
        "VARIABLES": sorted(spec.image.variables),
        "PYTHON": str(spec.image.inside(spec.image.python)),
    }
    if language == "node":
        return compose_node(program, promised)
    constants = "\n".join(f"{name} = {value!r}" for name, value in promised.items())
    return f"{PRELUDE}\n{constants}\n{program}\nresult = verdict()\n"
