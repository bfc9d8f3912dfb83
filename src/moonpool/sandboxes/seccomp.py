"""System-call filters as raw BPF, for x86_64 and aarch64, without libseccomp.

Two filters, each in a second form for sandboxes with a network. `sandbox_filter` is loaded last in every sandbox and
stays for its life. `outer_sandbox_filter` is loaded by bubblewrap for the outer sandbox, in which the zygote lives: it
forbids the same dangerous families but leaves what the zygote needs to build sandboxes (clone into namespaces, mount,
sethostname). Loaded filters add up, so what both forbid is stopped twice.

A forbidden call gives an errno instead of a signal, because libraries probe. The wrong architecture (int 0x80) kills.
The syscall families and the reasons for each follow `docs/explanation/isolation.md`; commands, options and flags are
compared in their low 32 bits only, as the Linux kernel does (the class of CVE-2019-10063).
"""

from __future__ import annotations

import errno
import itertools
import platform
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOAD, _JUMP, _JUMP_EQ, _JUMP_GE, _JUMP_GT, _JUMP_SET = 0x20, 0x05, 0x15, 0x35, 0x25, 0x45
_RETURN, _AND = 0x06, 0x54
_KILL, _ALLOW, _ERRNO = 0x8000_0000, 0x7FFF_0000, 0x0005_0000
_NR_AT, _ARCH_AT = 0, 4
_CALLS_IN_A_ROW = 4
_CONDITIONAL_JUMP_MAX = 255
_LAST_KNOWN_SYSCALL = 469  # file_setattr, Linux 6.17; later ones are ENOSYS until somebody has looked at them
_X32_BIT = 0x4000_0000
_NAMESPACE_FLAGS = 0x7E02_0000
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE = 1, 5, 0xF
_IPPROTO_IP, _IPPROTO_TCP, _IPPROTO_IPV6 = 0, 6, 41
_SET_ID_BITS = 0o6000
_RENAME_WHITEOUT = 4
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423
_RLIMIT_CORE = 4
_SOL_SOCKET, _SO_SNDBUF, _SO_SNDBUFFORCE = 1, 7, 32
_SO_RCVBUF, _SO_RCVBUFFORCE, _SO_ZEROCOPY = 8, 33, 60
_TCP_OPTIONS = (1, 3, 4, 5, 6, 12, 18)  # NODELAY, CORK, KEEPIDLE, KEEPINTVL, KEEPCNT, QUICKACK, USER_TIMEOUT
_IP_TOS, _IPV6_V6ONLY = 1, 26
_SO_ATTACH_FILTER, _SO_ATTACH_BPF, _SO_ATTACH_REUSEPORT_CBPF, _SO_ATTACH_REUSEPORT_EBPF = 26, 50, 51, 52
_SOCKET_MEMORY = (
    _SO_SNDBUF, _SO_SNDBUFFORCE, _SO_ATTACH_FILTER, _SO_ATTACH_BPF, _SO_ATTACH_REUSEPORT_CBPF,
    _SO_ATTACH_REUSEPORT_EBPF,
)  # fmt: skip
_MSG_OOB = 1
_F_SETLEASE, _F_NOTIFY = 1024, 1026
_LAST_KNOWN_FCNTL = 1038  # F_SET_FILE_RW_HINT; later ones (F_SETDELEG of Linux 6.19 is a lease, too) do not exist
_PR_SET_PDEATHSIG, _PR_SCHED_CORE, _PR_SET_MEMORY_MERGE, _SIGKILL = 1, 62, 67, 9
_LAST_KNOWN_PRCTL = 77  # the next, PR_FUTEX_HASH of Linux 6.16, takes up to 1 GiB for a process; PR_SET_VMA holds names
_MADV_MERGEABLE = 12
_SECCOMP_NEW_LISTENER = 8
_O_NOTIFICATION_PIPE = 0x80

_SINCE_424 = dict(  # noqa: C408  a table. The same numbers on both architectures
    io_uring_setup=425, io_uring_enter=426, io_uring_register=427, open_tree=428, move_mount=429, fsopen=430,
    fsconfig=431, fsmount=432, fspick=433, clone3=435, pidfd_getfd=438, process_madvise=440, mount_setattr=442,
    quotactl_fd=443, landlock_create_ruleset=444, memfd_secret=447, set_mempolicy_home_node=450, fchmodat2=452,
    statmount=457, listmount=458, lsm_set_self_attr=460, setxattrat=463, open_tree_attr=467,
)  # fmt: skip
_X86_64: Final[dict[str, int]] = dict(
    ptrace=101, clone=56, unshare=272, setns=308, mount=165, umount2=166, pivot_root=155, chroot=161,
    process_vm_readv=310, process_vm_writev=311, kcmp=312, bpf=321, perf_event_open=298, userfaultfd=323,
    add_key=248, request_key=249, keyctl=250, kexec_load=246, kexec_file_load=320, init_module=175,
    finit_module=313, delete_module=176, create_module=174, query_module=178, get_kernel_syms=177,
    nfsservctl=180, uselib=134, _sysctl=156, sysfs=139, ustat=136, reboot=169, swapon=167, swapoff=168, acct=163,
    quotactl=179, syslog=103, settimeofday=164, clock_settime=227, adjtimex=159, clock_adjtime=305, iopl=172,
    ioperm=173, modify_ldt=154, personality=135, name_to_handle_at=303, open_by_handle_at=304, fanotify_init=300,
    fanotify_mark=301, move_pages=279, migrate_pages=256, mbind=237, set_mempolicy=238, vhangup=153,
    lookup_dcookie=212, vmsplice=278, socket=41, socketpair=53, ioctl=16, memfd_create=319, shmget=29, semget=64,
    msgget=68, mq_open=240, mknod=133, mknodat=259, sethostname=170, setdomainname=171, epoll_ctl_old=214,
    epoll_wait_old=215, getpmsg=181, putpmsg=182, afs_syscall=183, tuxcall=184, security=185, vserver=236,
    io_setup=206, io_destroy=207, io_submit=209, io_getevents=208, io_pgetevents=333, setrlimit=160, prlimit64=302,
    setsockopt=54, fcntl=72, prctl=157, sendto=44, recvfrom=45, sendmsg=46, recvmsg=47, sendmmsg=307, recvmmsg=299,
    inotify_init=253, inotify_init1=294, setxattr=188, lsetxattr=189, fsetxattr=190, madvise=28, seccomp=317,
    pipe2=293, renameat2=316, chmod=90, fchmod=91, fchmodat=268, **_SINCE_424,
)  # fmt: skip
_AARCH64: Final[dict[str, int]] = dict(
    ptrace=117, clone=220, unshare=97, setns=268, mount=40, umount2=39, pivot_root=41, chroot=51,
    process_vm_readv=270, process_vm_writev=271, kcmp=272, bpf=280, perf_event_open=241, userfaultfd=282,
    add_key=217, request_key=218, keyctl=219, kexec_load=104, kexec_file_load=294, init_module=105,
    finit_module=273, delete_module=106, reboot=142, swapon=224, swapoff=225, acct=89, quotactl=60, syslog=116,
    settimeofday=170, clock_settime=112, adjtimex=171, clock_adjtime=266, personality=92, name_to_handle_at=264,
    open_by_handle_at=265, fanotify_init=262, fanotify_mark=263, move_pages=239, migrate_pages=238, mbind=235,
    set_mempolicy=237, vhangup=58, vmsplice=75, socket=198, socketpair=199, ioctl=29, memfd_create=279,
    shmget=194, semget=190, msgget=186, mq_open=180, mknodat=33, sethostname=161, setdomainname=162, io_setup=0,
    io_destroy=1, io_submit=2, io_getevents=4, io_pgetevents=292, setrlimit=164, prlimit64=261,
    setsockopt=208, fcntl=25, prctl=167, sendto=206, recvfrom=207, sendmsg=211, recvmsg=212, sendmmsg=269,
    recvmmsg=243, inotify_init1=26, setxattr=5, lsetxattr=6, fsetxattr=7, madvise=233, seccomp=277,
    pipe2=59, renameat2=276, fchmod=52, fchmodat=53, **_SINCE_424,
)  # fmt: skip
_ARCHITECTURES: Final = {"x86_64": (_X86_64, 0xC000_003E), "aarch64": (_AARCH64, 0xC000_00B7)}

_NEVER = [
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "kcmp",
    "pidfd_getfd",
    "process_madvise",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "add_key",
    "request_key",
    "keyctl",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "create_module",
    "query_module",
    "get_kernel_syms",
    "nfsservctl",
    "uselib",
    "_sysctl",
    "sysfs",
    "ustat",
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "quotactl",
    "quotactl_fd",
    "syslog",
    "settimeofday",
    "clock_settime",
    "adjtimex",
    "clock_adjtime",
    "iopl",
    "ioperm",
    "modify_ldt",
    "name_to_handle_at",
    "open_by_handle_at",
    "fanotify_init",
    "fanotify_mark",
    "move_pages",
    "migrate_pages",
    "mbind",
    "set_mempolicy",
    "set_mempolicy_home_node",
    "vhangup",
    "lookup_dcookie",
    "vmsplice",
    "lsm_set_self_attr",
    "epoll_ctl_old",
    "epoll_wait_old",
    "getpmsg",
    "putpmsg",
    "afs_syscall",
    "tuxcall",
    "security",
    "vserver",
    "chroot",
    "pivot_root",
]
_NEVER_ENOSYS = [
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "memfd_secret",
    "io_setup",
    "io_destroy",
    "io_submit",
    "io_getevents",
    "io_pgetevents",
    "inotify_init",  # a watch on the shared /usr tells when the host starts a program; instances are counted per uid
    "inotify_init1",
    "landlock_create_ruleset",  # 65,536 rules are 3 MB of kernel memory behind one descriptor
]
_NEVER_EOPNOTSUPP = ["setxattr", "lsetxattr", "fsetxattr", "setxattrat"]
"""As on a file system without attributes. SECURITY: an access list is 64 KiB that neither the quota nor a control group
counts, and a folder hands it on to each that is made in it: 3,000 folders held 190 MiB.
"""
_BUILDING = [
    "unshare",
    "setns",
    "mount",
    "umount2",
    "open_tree",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "statmount",
    "listmount",
    "open_tree_attr",
    "sethostname",
    "setdomainname",
]
_UNACCOUNTED_MEMORY = ["memfd_create", "shmget", "semget", "msgget", "mq_open"]
"""Memory that no rlimit counts; closed because nothing but rlimits bounds memory here."""

_Instruction = tuple[int, int, int, int]


def sandbox_filter(machine: str | None = None, *, shows_folders: bool = False) -> bytes:
    """The filter of every sandbox, as struct sock_filter[]; stricter for one that `shows_folders` of the host.

    Raises ValueError for an unknown architecture.
    """
    return _assemble(
        machine,
        enosys=[*_NEVER_ENOSYS, "clone3"],
        eperm=[*_NEVER, *_BUILDING, *_UNACCOUNTED_MEMORY],
        checks=_folder_checks() if shows_folders else (),
    )


def outer_sandbox_filter(machine: str | None = None) -> bytes:
    """The filter of a zygote's outer sandbox: the same, without what building sandboxes needs."""
    return _assemble(machine, enosys=_NEVER_ENOSYS, eperm=[*_NEVER, *_UNACCOUNTED_MEMORY], namespaces=True)


def network_sandbox_filter(machine: str | None = None, *, shows_folders: bool = False) -> bytes:
    """`sandbox_filter` for sandboxes with a network: TCP sockets are added, and nothing else is."""
    names = [*_NEVER, *_BUILDING, *_UNACCOUNTED_MEMORY]
    checks = [*(_folder_checks() if shows_folders else ()), *_network_checks(unix=not shows_folders)]
    return _assemble(machine, enosys=[*_NEVER_ENOSYS, "clone3"], eperm=names, checks=checks)


def network_outer_filter(machine: str | None = None) -> bytes:
    """`outer_sandbox_filter` for them."""
    names = [*_NEVER, *_UNACCOUNTED_MEMORY]
    return _assemble(machine, enosys=_NEVER_ENOSYS, eperm=names, namespaces=True, checks=_network_checks(unix=True))


def _assemble(
    machine: str | None,
    *,
    enosys: list[str],
    eperm: list[str],
    namespaces: bool = False,
    checks: Iterable[tuple[str, list[_Instruction]]] = (),
) -> bytes:
    """`checks` stand in place of those of `_argument_checks` for the same calls, a later one in place of an earlier."""
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise ValueError(f"no system-call filter for {machine}; supported are {', '.join(_ARCHITECTURES)}")
    numbers, audit = _ARCHITECTURES[machine]
    program: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCH_AT), (_JUMP_EQ, 1, 0, audit), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NR_AT),
    ]  # fmt: skip
    if machine == "x86_64":
        program += [(_JUMP_GE, 0, 1, _X32_BIT), _fail(errno.ENOSYS)]
    program += [(_JUMP_GT, 0, 1, _LAST_KNOWN_SYSCALL), _fail(errno.ENOSYS)]
    refused = ((eperm, errno.EPERM), (enosys, errno.ENOSYS), (_NEVER_EOPNOTSUPP, errno.EOPNOTSUPP))
    bodies = dict(_argument_checks(namespaces=namespaces)) | dict(checks)
    bodies |= {name: [_fail(code)] for names, code in refused for name in names}
    program += _search(sorted((numbers[name], body) for name, body in bodies.items() if name in numbers))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _search(calls: list[tuple[int, list[_Instruction]]]) -> list[_Instruction]:
    """Find the number among `calls`, in order, by halves; what is not among them is allowed.

    The Linux kernel walks through a filter for every number when it is loaded, which is for every sandbox: 0.45 ms
    where the numbers stood one after the other.
    """
    if len(calls) <= _CALLS_IN_A_ROW:
        tests = [[(_JUMP_EQ, 0, len(body), number), *body] for number, body in calls]
        return [*itertools.chain.from_iterable(tests), _allow()]
    middle = len(calls) // 2
    below, above = _search(calls[:middle]), _search(calls[middle:])
    first_above = calls[middle][0]
    if len(below) > _CONDITIONAL_JUMP_MAX:
        return [(_JUMP_GE, 0, 1, first_above), (_JUMP, 0, 0, len(below)), *below, *above]
    return [(_JUMP_GE, len(below), 0, first_above), *below, *above]


def _argument_checks(*, namespaces: bool) -> list[tuple[str, list[_Instruction]]]:
    """Calls that are allowed for some arguments. Every path of a body ends in a return."""
    unix_only = [_argument(0), (_JUMP_EQ, 0, 1, _AF_UNIX), _allow(), _fail(errno.EAFNOSUPPORT)]
    checks: list[tuple[str, list[_Instruction]]] = [
        ("ioctl", _refused(1, _TIOCSTI, _TIOCLINUX, _TIOCSETD)),
        (
            "personality",
            [_argument(0), (_JUMP_EQ, 2, 0, 0), (_JUMP_EQ, 1, 0, 0xFFFF_FFFF), _fail(errno.EPERM), _allow()],
        ),
        # SECURITY: vsock is separated by no namespace; this list of families, in both filters, is all that stops it.
        ("socket", unix_only),
        ("socketpair", unix_only),
        ("mknod", _no_devices(1)),
        ("mknodat", _no_devices(2)),
        ("setsockopt", _no_memory_in_sockets()),
        ("fcntl", _no_leases()),
        ("prctl", _no_other_death_signal()),
        ("seccomp", [_argument(1), (_JUMP_SET, 0, 1, _SECCOMP_NEW_LISTENER), _fail(errno.EINVAL), _allow()]),
        (
            "pipe2",
            [_argument(1), (_JUMP_SET, 0, 1, _O_NOTIFICATION_PIPE), _fail(errno.ENOPKG), _allow()],
        ),  # CVE-2022-0995
        ("madvise", _refused(2, _MADV_MERGEABLE)),  # how long a write takes tells who has the same page
        *((name, _no_urgent_data(flags_at)) for name, flags_at in _FLAGS_OF_MESSAGES),
    ]
    if not namespaces:
        checks += _core_limit_checks()
        checks.append(("clone", [_argument(0), (_JUMP_SET, 0, 1, _NAMESPACE_FLAGS), _fail(errno.EPERM), _allow()]))
    return checks


def _network_checks(*, unix: bool) -> list[tuple[str, list[_Instruction]]]:
    """In place of those for sockets. SECURITY: TCP over IPv4 and IPv6 only. No datagrams, no raw sockets, none of the
    protocols that share the stream type (MPTCP, SCTP, SMC), and of options only those that HTTP clients set. None of
    `unix` in a sandbox with folders of the host, see `_folder_checks`.
    """
    tcp_or_unix = [
        _argument(0), (_JUMP_EQ, 0, 1, _AF_UNIX), _allow() if unix else _fail(errno.EAFNOSUPPORT),
        (_JUMP_EQ, 2, 0, _AF_INET), (_JUMP_EQ, 1, 0, _AF_INET6), _fail(errno.EAFNOSUPPORT),
        _argument(1), (_AND, 0, 0, _SOCK_TYPE), (_JUMP_EQ, 1, 0, _SOCK_STREAM), _fail(errno.EAFNOSUPPORT),
        _argument(2), (_JUMP_EQ, 2, 0, _IPPROTO_IP), (_JUMP_EQ, 1, 0, _IPPROTO_TCP), _fail(errno.EAFNOSUPPORT),
        _allow(),
    ]  # fmt: skip
    levels = {
        _SOL_SOCKET: _refused(2, *_SOCKET_MEMORY, _SO_RCVBUF, _SO_RCVBUFFORCE, _SO_ZEROCOPY),
        _IPPROTO_TCP: _only(2, *_TCP_OPTIONS),
        _IPPROTO_IP: _only(2, _IP_TOS),
        _IPPROTO_IPV6: _only(2, _IPV6_V6ONLY),
    }
    by_level = [[(_JUMP_EQ, 0, len(body), level), *body] for level, body in levels.items()]
    options = [_argument(1), *itertools.chain.from_iterable(by_level), _fail(errno.ENOPROTOOPT)]
    return [("socket", tcp_or_unix), ("setsockopt", options)]


def _folder_checks() -> list[tuple[str, list[_Instruction]]]:
    """SECURITY: what would reach programs of the host through a folder that both see.

    A socket in a file system is connected to across all namespaces, also through a read-only mount. So there are pairs
    of connected sockets only: one of any other kind could name a socket of the host as its peer. Set-user-id bits count
    for whoever runs the file outside, a pipe makes whoever opens it wait, and a rename can leave a device behind. A
    bit that is given as a file is made is taken by the Linux kernel at the first byte that is written.
    """
    connected = [
        _argument(0), (_JUMP_EQ, 0, 5, _AF_UNIX), _argument(1), (_AND, 0, 0, 0xF), (_JUMP_EQ, 1, 0, _SOCK_STREAM),
        (_JUMP_EQ, 0, 1, _SOCK_SEQPACKET), _allow(), _fail(errno.EAFNOSUPPORT),
    ]  # fmt: skip
    modes = (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2))
    return [
        ("socket", [_fail(errno.EAFNOSUPPORT)]),
        ("socketpair", connected),
        *((name, [_argument(at), (_JUMP_SET, 0, 1, _SET_ID_BITS), _fail(errno.EPERM), _allow()]) for name, at in modes),
        ("renameat2", [_argument(4), (_JUMP_SET, 0, 1, _RENAME_WHITEOUT), _fail(errno.EPERM), _allow()]),
        *((name, _regular_only(at)) for name, at in (("mknod", 1), ("mknodat", 2))),
    ]


def _regular_only(mode_at: int) -> list[_Instruction]:
    """Of what mknod makes, plain files."""
    return [
        _argument(mode_at), (_JUMP_SET, 4, 0, _SET_ID_BITS), (_AND, 0, 0, 0o170000), (_JUMP_EQ, 1, 0, 0),
        (_JUMP_EQ, 0, 1, 0o100000), _allow(), _fail(errno.EPERM),
    ]  # fmt: skip


def _core_limit_checks() -> list[tuple[str, list[_Instruction]]]:
    """SECURITY: a core limit of 1 is the only one that keeps a piped core_pattern (apport, systemd-coredump) from
    starting its helper, as root on the host, over a crashed sandbox; so the limit must not be lowered to 0 either.
    """
    is_core = (_JUMP_EQ, 1, 0, _RLIMIT_CORE)
    return [
        ("setrlimit", [_argument(0), is_core, _allow(), _fail(errno.EPERM)]),
        (
            "prlimit64",  # without a new limit, in either half of the pointer, it only asks
            [
                _argument(1), is_core, _allow(), _argument(2), (_JUMP_EQ, 0, 2, 0), _upper(2), (_JUMP_EQ, 1, 0, 0),
                _fail(errno.EPERM), _allow(),
            ],
        ),
    ]  # fmt: skip


def _no_memory_in_sockets() -> list[_Instruction]:
    """Buffers and filters of sockets are memory that no rlimit counts: one process held 490 MB with buffers of the
    largest size, and 1,880 filters held 326 MiB.
    """
    return [
        _argument(1), (_JUMP_EQ, 1, 0, _SOL_SOCKET), _allow(),
        *_refused(2, *_SOCKET_MEMORY),
    ]  # fmt: skip


def _no_leases() -> list[_Instruction]:
    """SECURITY: a lease on a file that sandboxes share makes everybody wait who opens it, and without root the account
    owns those files: one lease on a `.pyc` of the guest stopped every new sandbox. F_NOTIFY watches folders.
    """
    return [
        _argument(1),
        (_JUMP_GT, 0, 1, _LAST_KNOWN_FCNTL),
        _fail(errno.EINVAL),
        *_refused(1, _F_SETLEASE, _F_NOTIFY),
    ]


def _no_other_death_signal() -> list[_Instruction]:
    """SECURITY: PID 1 of an `execution_outer_sandbox` gets SIGKILL when its parent ends; no code may undo that by
    prctl, reserve the other threads of a core (PR_SCHED_CORE), or have its pages merged with those of other
    processes. Options newer than the filter are refused as unknown.
    """
    return [
        _argument(0), (_JUMP_GT, 0, 1, _LAST_KNOWN_PRCTL), _fail(errno.EINVAL),
        (_JUMP_EQ, 6, 0, _PR_SCHED_CORE), (_JUMP_EQ, 5, 0, _PR_SET_MEMORY_MERGE),
        (_JUMP_EQ, 1, 0, _PR_SET_PDEATHSIG), _allow(),
        _argument(1), (_JUMP_EQ, 0, 1, _SIGKILL), _allow(), _fail(errno.EPERM),
    ]  # fmt: skip


_FLAGS_OF_MESSAGES = (("sendto", 3), ("recvfrom", 3), ("sendmsg", 2), ("recvmsg", 2), ("sendmmsg", 3), ("recvmmsg", 3))


def _no_urgent_data(flags_at: int) -> list[_Instruction]:
    """Out-of-band bytes of Unix sockets: nobody needs them, and they led into the Linux kernel (CVE-2025-38236)."""
    return [_argument(flags_at), (_JUMP_SET, 0, 1, _MSG_OOB), _fail(errno.EOPNOTSUPP), _allow()]


def _no_devices(mode_at: int) -> list[_Instruction]:
    return [
        _argument(mode_at), (_AND, 0, 0, 0o170000), (_JUMP_EQ, 2, 0, 0o020000), (_JUMP_EQ, 1, 0, 0o060000),
        _allow(), _fail(errno.EPERM),
    ]  # fmt: skip


def _refused(index: int, *values: int) -> list[_Instruction]:
    """EPERM if an argument, as the Linux kernel takes it in 32 bits, is one of `values`."""
    checks = [(_JUMP_EQ, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [_argument(index), *checks, _allow(), _fail(errno.EPERM)]


def _only(index: int, *values: int) -> list[_Instruction]:
    """ENOPROTOOPT unless an argument, as the Linux kernel takes it in 32 bits, is one of `values`."""
    checks = [(_JUMP_EQ, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [_argument(index), *checks, _fail(errno.ENOPROTOOPT), _allow()]


def _argument(index: int) -> _Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index)  # the low 32 bits on a little-endian machine


def _upper(index: int) -> _Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index + 4)


def _fail(code: int) -> _Instruction:
    return (_RETURN, 0, 0, _ERRNO | code)


def _allow() -> _Instruction:
    return (_RETURN, 0, 0, _ALLOW)
