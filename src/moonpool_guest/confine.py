"""Locks a process in, step by step, in the only order that works.

The process is PID 1 of new namespaces with capabilities over them, on the outer sandbox's read-only root: a child that
a zygote cloned (`confine`), or the one process of its own outer sandbox (`confine_alone`). It ends as uid 1000 with no
capability, its own small writable places under one quota, its own /proc and pseudo-terminals, no way to make further
user namespaces, resource limits, and a system-call filter.

INVARIANT: the at-fork hooks have run before the file descriptors are moved (matplotlib's hook closes what it finds);
the limits are set before the capabilities go; the filter comes last, since it forbids most of what stands here.
SECURITY: every step must succeed. There is no "if possible": a failing step ends the child (`StepFailedError`).
"""

import errno
import fcntl
import os
import resource
import signal
import socket
from collections.abc import Callable
from typing import Any

from moonpool_guest import folders, linux, proxy_listener

CHANNEL_FD = 3
UID_INSIDE = 1000
DATA_RESERVED_BYTES_MAX = 512 * 1024**2
"""What V8 reserves for code from Node.js 23 on."""

WORKSPACE = "/workspace"
HOME = "/home/user"
WRAPPERS = "/wrappers"
SLOTS = "/slots"
_QUOTA = "/quota"  # where the one tmpfs is mounted until its folders are bound to their places
_PLACES = (
    ("workspace", WORKSPACE, 0o755), ("home", HOME, 0o700), ("data", "/data", 0o755),
    ("tmp", "/tmp", 0o1777), ("shm", "/dev/shm", 0o1777),  # noqa: S108
)  # fmt: skip
_FD_MAX = 65536  # close_range(2) in one call; the zygote never holds as many
_FLAGS = linux.MS_NOSUID | linux.MS_NODEV
_PTS = "newinstance,ptmxmode=0666,mode=0620,max=32"  # without max, one sandbox can take all that the host has
_BUDGETS = (("max_user_namespaces", 0), ("max_inotify_instances", 0), ("max_inotify_watches", 0))


class StepFailedError(Exception):
    """A confinement step failed; the child must end without running anything."""

    def __init__(self, step: str, reason: BaseException) -> None:
        super().__init__(f"{step}: {reason}")
        self.step, self.reason = step, reason


def confine(
    spec: "dict[str, Any]", fds: "list[int]", *, outer_uid: int, outer_gid: int, program: linux.FilterProgram
) -> None:
    """Turn the calling child into a sandbox. `fds` are channel, stdout and stderr, with `network` a socket for
    `proxy_listener`, then those of `_join_groups`.

    `spec` holds `slot` (name or ""), `tmpfs_bytes`, `tmpfs_inodes`, `limits` (RLIMIT name to value), `network`.
    """
    _take(
        ("groups", lambda: _join_groups(fds[_own_fds(spec) :])),
        ("network", lambda: _open_network(spec, fds)),
        ("descriptors", lambda: _place_descriptors(fds)),
        ("identity", lambda: _map_identity(outer_uid, outer_gid)),
        *_steps(spec, program),
    )


def confine_alone(spec: "dict[str, Any]", fds: "list[int]", *, program: linux.FilterProgram) -> None:
    """Turn PID 1 of an outer sandbox that has mapped our uid already into a sandbox; otherwise as `confine`.

    `spec` holds `groups`, too: the numbers of the descriptors for `_join_groups`; and `folders`, of the host, or None:
    `shown` (`moonpool_guest.folders`), the path of the `first`, where code starts, and whether it `is_workspace`.
    """
    _take(
        ("groups", lambda: _join_groups(spec["groups"])),
        ("network", lambda: _open_network(spec, fds)),
        ("descriptors", lambda: _place_descriptors(fds)),
        *_steps(spec, program),
    )


_Step = tuple[str, Callable[[], None]]


def _steps(spec: "dict[str, Any]", program: linux.FilterProgram) -> "tuple[_Step, ...]":
    return (
        ("group", _lead_group),
        ("budgets", _bound_budgets),
        ("mounts", lambda: _mount(spec)),
        ("limits", lambda: apply_limits(spec["limits"])),
        ("capabilities", _drop),
        ("filter", lambda: linux.load_seccomp(program)),
    )


def _take(*steps: _Step) -> None:
    for step, action in steps:
        try:
            action()
        except (OSError, ValueError, KeyError) as error:
            raise StepFailedError(step, error) from error


def _join_groups(fds: "list[int]") -> None:
    """Enter the control groups behind `fds`, and see nothing of them but our own as the root (/proc/self/cgroup).

    SECURITY: comes first, so that whatever this process and its children ever take is counted.
    """
    for fd in fds:
        os.write(fd, b"0")
    if fds:
        linux.unshare(linux.CLONE_NEWCGROUP)


def _own_fds(spec: "dict[str, Any]") -> int:
    return 4 if spec.get("network") else 3


def _open_network(spec: "dict[str, Any]", fds: "list[int]") -> None:
    """Only where it was asked for: every other sandbox has an interface that is down, and no socket for it."""
    if spec.get("network"):
        proxy_listener.hand_over(fds[3])


def _place_descriptors(fds: "list[int]") -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    wanted = (null, fds[1], fds[2], fds[0])
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, CHANNEL_FD + 1) for fd in wanted]  # out of the way of 0 to 3
    for index, fd in enumerate(moved):
        os.dup2(fd, index)
    os.closerange(4, _FD_MAX)
    os.set_inheritable(CHANNEL_FD, False)


def _map_identity(outer_uid: int, outer_gid: int) -> None:
    linux.own_proc_files()  # a uid that was changed to before the clone took them away
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{UID_INSIDE} {outer_uid} 1")
    _write("/proc/self/gid_map", f"{UID_INSIDE} {outer_gid} 1")


def _lead_group() -> None:
    """SECURITY: a cloned child is born into the process group of its zygote, and kill(0, ...) reaches the whole group,
    across pid namespaces: without a group of its own, one sandbox could end the zygote and every neighbour.

    Not a session: its new scheduling group takes the Linux kernel up to 3 ms, and there is no terminal to share. What
    processes of one session could still do to each other goes through /proc/self/autogroup, and /proc is read-only.
    """
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)


def _bound_budgets() -> None:
    """Allow none of what no rlimit counts: further namespaces, and inotify, which sees the starts of host programs."""
    for name, value in _BUDGETS:
        _write(f"/proc/sys/user/{name}", str(value))
    _write("/proc/self/oom_score_adj", "1000")  # when memory runs out, sandboxes go first


def _mount_disk(options: str) -> None:
    """Mount the sandbox's own disk, in large pages where the kernel has them: files are written and copied four times
    as fast. None is larger than its file. Raises OSError.
    """
    try:
        linux.mount("tmpfs", _QUOTA, "tmpfs", _FLAGS, f"{options},huge=within_size")
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        linux.mount("tmpfs", _QUOTA, "tmpfs", _FLAGS, options)


def _mount(spec: "dict[str, Any]") -> None:
    linux.make_read_only("/dev")  # devices are the host's own files: anybody may set their times, for everybody to see
    size, inodes, slot = spec["tmpfs_bytes"], spec["tmpfs_inodes"], spec["slot"]
    _mount_disk(f"size={size},nr_inodes={inodes},mode=755")
    mask = os.umask(0)
    for name, place, mode in _PLACES:
        source = f"{_QUOTA}/{name}"
        os.mkdir(source, mode)
        linux.mount(source, place, None, linux.MS_BIND)
    os.umask(mask)
    of_host = spec.get("folders")
    if of_host:
        folders.show(of_host["shown"], _QUOTA)
        if of_host["is_workspace"]:
            linux.mount(of_host["first"], WORKSPACE, None, linux.MS_BIND | linux.MS_REC)
    linux.unmount(_QUOTA)
    if slot:
        linux.mount(f"{SLOTS}/{slot}", WRAPPERS, None, linux.MS_BIND)
    if slot and not (of_host and of_host["is_workspace"]):
        os.symlink(f"{WRAPPERS}/current/servers", f"{WORKSPACE}/servers")
        os.symlink(f"{WRAPPERS}/current/mcptools", f"{WORKSPACE}/mcptools")
    linux.mount(_QUOTA, SLOTS, None, linux.MS_BIND)  # which is empty again, and read-only as the whole root
    # SECURITY: processes only. The rest of /proc tells about the host (command line, modules) and holds /proc/sys and
    # the pressure files, which are open for writing. Read-only: a sandbox may not take back that it is the first to go
    # when memory runs out (oom_score_adj), nor slow its neighbours down (autogroup).
    linux.mount("proc", "/proc", "proc", _FLAGS | linux.MS_NOEXEC | linux.MS_RDONLY, "subset=pid")
    linux.mount("devpts", "/dev/pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, _PTS)
    socket.sethostname("sandbox")
    os.chdir(of_host["first"] if of_host else WORKSPACE)


def apply_limits(limits: "dict[str, int]") -> None:
    """Set soft and hard resource limits, e.g. `{"NPROC": 64}`.

    RLIMIT_DATA is a second layer behind the control group; a companion may raise it by what it only reserves.
    """
    for name, value in limits.items():
        hard = value + DATA_RESERVED_BYTES_MAX if name == "DATA" else value
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, hard))


def _drop() -> None:
    linux.die_with_parent()
    linux.drop_capabilities()
    linux.set_no_new_privileges()


def reset_signals() -> None:
    """Give every signal its default meaning again, as a program that was just started has."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as CPython does at start
    signal.set_wakeup_fd(-1)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
