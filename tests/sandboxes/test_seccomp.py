"""The system-call filters, simulated: what is forbidden, what is allowed for some arguments, what libraries need."""

from __future__ import annotations

import errno
from functools import partial

import pytest

from moonpool.sandboxes import seccomp
from sandboxes.bpf import ALLOW, ERRNO, KILL, Call, instructions, verdict
from tables import every_row

MACHINES = ("x86_64", "aarch64")
FILTERS = {"sandbox": seccomp.sandbox_filter, "wall": seccomp.outer_sandbox_filter}
WITH_FOLDERS = {
    "folders": partial(seccomp.sandbox_filter, shows_folders=True),
    "folders and network": partial(seccomp.network_sandbox_filter, shows_folders=True),
}
HARMLESS = {  # (x86_64, aarch64)
    "read": (0, 63), "write": (1, 64), "openat": (257, 56), "close": (3, 57), "mmap": (9, 222), "futex": (202, 98),
    "execve": (59, 221), "exit_group": (231, 94), "wait4": (61, 260), "kill": (62, 129), "getrandom": (318, 278),
    "epoll_pwait": (281, 22), "ppoll": (271, 73), "pipe2": (293, 59), "getpid": (39, 172), "sched_yield": (24, 124),
    "eventfd2": (290, 19), "pidfd_open": (434, 434), "close_range": (436, 436), "openat2": (437, 437),
}  # fmt: skip
BUILDING = ("unshare", "setns", "mount", "umount2", "clone3", "fsopen", "move_mount", "sethostname", "open_tree")


def number(machine: str, name: str) -> int:
    return seccomp._ARCHITECTURES[machine][0][name]


def answer(kind: str, machine: str, name_or_number: str | int, *arguments: int, audit: int | None = None) -> int:
    at = number(machine, name_or_number) if isinstance(name_or_number, str) else name_or_number
    if audit is None:
        audit = seccomp._ARCHITECTURES[machine][1]
    return verdict((FILTERS | WITH_FOLDERS)[kind](machine), Call(at, audit, arguments))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", FILTERS)
def test_a_program_is_one_that_the_kernel_accepts(kind: str, machine: str) -> None:
    steps = instructions(FILTERS[kind](machine))
    assert 100 < len(steps) < 4096
    for at, (code, jump_true, jump_false, value) in enumerate(steps):
        assert code in {0x20, 0x05, 0x15, 0x35, 0x25, 0x45, 0x06, 0x54}
        if code in {0x15, 0x25, 0x35, 0x45}:
            assert at + 1 + max(jump_true, jump_false) < len(steps)
        if code == 0x05:
            assert at + 1 + value < len(steps)
        if code == 0x20:
            assert value % 4 == 0
            assert value < 64
    assert steps[-1] == (0x06, 0, 0, ALLOW)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", FILTERS)
def test_another_architecture_is_killed(kind: str, machine: str) -> None:
    i386, arm = 0x4000_0003, 0x4000_0028
    assert {answer(kind, machine, 1, audit=audit) for audit in (0, i386, arm)} == {KILL}


def test_x32_calls_do_not_exist() -> None:
    assert answer("sandbox", "x86_64", 0x4000_0000 + 101) == ERRNO | errno.ENOSYS
    assert answer("sandbox", "x86_64", 0xFFFF_FFFF) == ERRNO | errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", FILTERS)
def test_calls_that_nobody_has_looked_at_do_not_exist(kind: str, machine: str) -> None:
    assert {answer(kind, machine, at) for at in (470, 500, 1000, 0x3FFF_FFFF)} == {ERRNO | errno.ENOSYS}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", FILTERS)
def test_what_every_program_needs_is_allowed(kind: str, machine: str) -> None:
    column = MACHINES.index(machine)
    verdicts = {name: answer(kind, machine, numbers[column]) for name, numbers in HARMLESS.items()}
    assert verdicts == dict.fromkeys(HARMLESS, ALLOW)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", FILTERS)
def test_every_call_on_the_lists_is_refused(kind: str, machine: str) -> None:
    table = seccomp._ARCHITECTURES[machine][0]
    never = {name: answer(kind, machine, name) for name in seccomp._NEVER if name in table}
    assert set(never.values()) == {ERRNO | errno.EPERM}
    assert len(never) >= 30
    unknown = {answer(kind, machine, name) for name in seccomp._NEVER_ENOSYS if name in table}
    assert unknown == {ERRNO | errno.ENOSYS}


@pytest.mark.parametrize("machine", MACHINES)
def test_what_builds_sandboxes_is_for_the_outer_sandbox_only(machine: str) -> None:
    assert {answer("wall", machine, name) for name in BUILDING} == {ALLOW}
    assert {answer("sandbox", machine, name) for name in BUILDING} <= {ERRNO | errno.EPERM, ERRNO | errno.ENOSYS}
    assert answer("sandbox", machine, "clone3") == ERRNO | errno.ENOSYS  # glibc falls back to clone


@pytest.mark.parametrize("machine", MACHINES)
def test_clone_is_refused_with_any_namespace_flag_and_allowed_for_threads_and_forks(machine: str) -> None:
    thread, fork = 0x003D_0F00, 0x0120_0011
    assert {answer("sandbox", machine, "clone", flags) for flags in (thread, fork)} == {ALLOW}
    namespaces = (0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000)
    assert {answer("sandbox", machine, "clone", fork | flag) for flag in namespaces} == {ERRNO | errno.EPERM}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("name", ["socket", "socketpair"])
def test_only_unix_sockets_exist(kind: str, machine: str, name: str) -> None:
    assert answer(kind, machine, name, 1) == ALLOW
    others = {answer(kind, machine, name, family) for family in range(64) if family != 1}
    assert others == {ERRNO | errno.EAFNOSUPPORT}  # 40 is vsock, which no namespace separates


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", WITH_FOLDERS)
def test_with_folders_no_socket_has_a_name_in_a_file_system(kind: str, machine: str) -> None:
    test_what_every_program_needs_is_allowed(kind, machine)
    test_every_call_on_the_lists_is_refused(kind, machine)
    made = {(family, type_) for family in range(64) for type_ in range(1, 7)
            if answer(kind, machine, "socket", family, type_ | 0x8_0800) == ALLOW}  # fmt: skip
    assert made == ({(2, 1), (10, 1)} if "network" in kind else set())  # TCP
    pairs = [type_ for type_ in range(1, 7) if answer(kind, machine, "socketpair", 1, type_) == ALLOW]
    assert pairs == [1, 5]
    assert answer(kind, machine, "fchmod", 3, 0o4755) == ERRNO | errno.EPERM
    assert answer(kind, machine, "mknodat", 0, 0, 0o010644) == ERRNO | errno.EPERM
    renamed = [answer(kind, machine, "renameat2", 0, 0, 0, 0, flags) for flags in (0, 1, 2, 4, 5, 0xF_0000_0004)]
    assert renamed == [ALLOW, ALLOW, ALLOW, *(3 * [ERRNO | errno.EPERM])]  # RENAME_WHITEOUT leaves a device


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("command", [0x5412, 0x541C, 0x1_0000_5412, 0xFFFF_FFFF_0000_541C])
def test_nothing_is_typed_into_a_terminal_also_not_with_upper_bits_set(machine: str, command: int) -> None:
    assert answer("sandbox", machine, "ioctl", 0, command) == ERRNO | errno.EPERM
    assert answer("sandbox", machine, "ioctl", 0, 0x5401) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("mode", "expected"),
    [(0o010644, ALLOW), (0o100644, ALLOW), (0o140644, ALLOW), (0o020666, ERRNO | 1), (0o060666, ERRNO | 1)],
)
def test_no_device_nodes(machine: str, mode: int, expected: int) -> None:
    assert answer("sandbox", machine, "mknodat", 0, 0, mode) == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_personality_may_only_be_asked_or_reset(machine: str) -> None:
    assert {answer("sandbox", machine, "personality", value) for value in (0, 0xFFFF_FFFF)} == {ALLOW}
    assert answer("sandbox", machine, "personality", 0x004_0000) == ERRNO | errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_the_core_limit_cannot_be_changed_but_asked_for(machine: str) -> None:
    refused = ERRNO | errno.EPERM
    assert answer("sandbox", machine, "setrlimit", 4) == refused
    assert answer("sandbox", machine, "setrlimit", 7) == ALLOW
    assert answer("sandbox", machine, "prlimit64", 0, 4, 0x7FFF_0000) == refused
    assert answer("sandbox", machine, "prlimit64", 0, 4, 0x7FFF_0000_0000_0000) == refused
    assert answer("sandbox", machine, "prlimit64", 0, 4, 0) == ALLOW
    assert answer("sandbox", machine, "prlimit64", 0, 7, 0x7FFF_0000) == ALLOW


UPPER = 0xFFFF_FFFF_0000_0000  # bits that the Linux kernel does not look at
SHARED_BUDGETS = {
    ("fcntl", 3, 1024): errno.EPERM,  # F_SETLEASE
    ("fcntl", 3, 1026): errno.EPERM,  # F_NOTIFY
    ("fcntl", 3, 1040): errno.EINVAL,  # F_SETDELEG, and whatever comes later
    ("fcntl", 3, 1025): 0,
    ("fcntl", 3, 1030): 0,
    ("fcntl", 3, 1038): 0,
    ("fcntl", 3, 4): 0,
    ("setsockopt", 3, 1, 26): errno.EPERM,  # SO_ATTACH_FILTER
    ("setsockopt", 3, 1, 50): errno.EPERM,
    ("setsockopt", 3, 1, 51): errno.EPERM,
    ("setsockopt", 3, 1, 52): errno.EPERM,
    ("setsockopt", 3, 1, 7): errno.EPERM,
    ("setsockopt", 3, 1, 32): errno.EPERM,
    ("setsockopt", 3, 1, 16): 0,
    ("setsockopt", 3, 6, 26): 0,
    ("ioctl", 3, 0x5423): errno.EPERM,  # TIOCSETD
    ("ioctl", 3, 0x541B): 0,
    ("prctl", 1, 0): errno.EPERM,  # PR_SET_PDEATHSIG
    ("prctl", 1, 15): errno.EPERM,
    ("prctl", 1, 9): 0,
    ("prctl", 2, 0): 0,
    ("prctl", 62, 1): errno.EPERM,  # PR_SCHED_CORE
    ("prctl", 67, 1): errno.EPERM,  # PR_SET_MEMORY_MERGE
    ("prctl", 77, 1): 0,
    ("prctl", 78, 1): errno.EINVAL,  # PR_FUTEX_HASH, and whatever comes later
    ("prctl", 0x5356_4D41, 0): errno.EINVAL,  # PR_SET_VMA
    ("madvise", 0, 4096, 12): errno.EPERM,  # MADV_MERGEABLE
    ("madvise", 0, 4096, 4): 0,
    ("pipe2", 0, 0x80): errno.ENOPKG,  # O_NOTIFICATION_PIPE
    ("pipe2", 0, 0x8_4800): 0,
    ("seccomp", 1, 8): errno.EINVAL,  # SECCOMP_FILTER_FLAG_NEW_LISTENER
    ("seccomp", 1, 9): errno.EINVAL,
    ("seccomp", 1, 1): 0,
    ("landlock_create_ruleset", 0, 0): errno.ENOSYS,
    ("setxattr", 0, 0): errno.EOPNOTSUPP,
    ("lsetxattr", 0, 0): errno.EOPNOTSUPP,
    ("fsetxattr", 0, 0): errno.EOPNOTSUPP,
    ("setxattrat", 0, 0): errno.EOPNOTSUPP,
    ("sendto", 3, 0, 0, 1): errno.EOPNOTSUPP,
    ("recvfrom", 3, 0, 0, 0x41): errno.EOPNOTSUPP,
    ("sendmsg", 3, 0, 1): errno.EOPNOTSUPP,
    ("recvmsg", 3, 0, 1): errno.EOPNOTSUPP,
    ("sendmmsg", 3, 0, 1, 1): errno.EOPNOTSUPP,
    ("recvmmsg", 3, 0, 1, 1): errno.EOPNOTSUPP,
    ("sendto", 3, 0, 1, 0x4040): 0,
    ("recvfrom", 3, 1, 1, 0x40): 0,
    ("sendmsg", 3, 1, 0x4000): 0,
    ("recvmsg", 3, 1, 0x4000_0000): 0,
    ("inotify_init1", 0): errno.ENOSYS,
}


@every_row(("kind", "machine", "call"), [(k, m, c) for k in FILTERS for m in MACHINES for c in SHARED_BUDGETS], ids=str)
def test_what_reaches_neighbours_through_the_kernel_is_refused_whatever_the_upper_bits(
    kind: str, machine: str, call: tuple[str, *tuple[int, ...]]
) -> None:
    name, *arguments = call
    expected = ERRNO | SHARED_BUDGETS[call] if SHARED_BUDGETS[call] else ALLOW
    for upper in (0, UPPER):
        assert answer(kind, machine, name, *(argument | upper for argument in arguments)) == expected


def test_a_machine_without_a_filter_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no system-call filter for riscv64; supported are x86_64, aarch64"):
        seccomp.sandbox_filter("riscv64")
