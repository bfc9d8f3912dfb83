"""Whether this machine can isolate code: what is certain to be missing, and what the complaints of a failed start mean.

Two questions at two moments. `missing_on_host` asks quickly, before anything is started, what would surely fail. But
flags lie: a switch may be on and a security module in the way. So the first real opening decides: `remedies_named`
turns a start that failed for a reason of the machine into HostUnfitError, with what was complained of and the remedy.

SECURITY: fail closed. What is missing is never done without; nobody is warned and served nevertheless.
"""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import HostUnfitError
from moonpool.sandboxes.base import SandboxLimits, SandboxStartError
from moonpool.sandboxes.identity import UID_COUNT, UID_FIRST
from moonpool.sandboxes.process import NO_BUBBLEWRAP, OWN_LAUNCHER, find_launcher

if TYPE_CHECKING:
    from collections.abc import Generator

_APPARMOR: Final = (
    "AppArmor restricts user namespaces: run `sudo make launcher` once in Moonpool's source folder, "
    "or install the launcher and the profile that `moonpool doctor` prints"
)
_SWITCHED_OFF: Final = "user namespaces are switched off: sysctl -w user.max_user_namespaces=65536"
_USED_UP: Final = (
    "no more namespaces may be made: raise what is small of `sysctl -a | grep user.max_.*_namespaces`, "
    "as with sysctl -w user.max_user_namespaces=65536"
)
_CONTAINER: Final = (
    "unprivileged user namespaces are forbidden here: sysctl -w kernel.unprivileged_userns_clone=1; in a container, "
    "start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
)
_NO_MAPS: Final = (
    "root has no uids of their own to give to sandboxes here: start the container with --cap-add SYS_ADMIN, or as an "
    "ordinary user (--user 1000), which keeps one organisation"
)
_MASKED_PROC: Final = (
    "/proc is masked, as in containers by default: start the container with --security-opt systempaths=unconfined "
    "(Kubernetes: procMount: Unmasked); in a systemd unit, leave ProtectProc= and ProtectKernelTunables= out"
)
_NO_MOUNTS: Final = (
    "mounts are forbidden here: start the container with --security-opt apparmor=unconfined "
    "--security-opt seccomp=unconfined"
)
_NO_SECCOMP: Final = (
    "this Linux kernel filters no system calls: use one built with CONFIG_SECCOMP and CONFIG_SECCOMP_FILTER"
)
_TOO_OLD: Final = "bubblewrap 0.8 or newer is needed: use that of Debian 12, Ubuntu 24.04 or newer"
_OPEN_FILES: Final = SandboxLimits().open_files_max
_FEW_FILES: Final = (
    "this process may open {files} files, and a sandbox needs "
    + str(_OPEN_FILES)
    + ": start it after `ulimit -n 1024`; "
    "in a systemd unit, LimitNOFILE=1024"
)
_NO_UIDS: Final = (
    f"the sandbox uids {UID_FIRST} to {UID_FIRST + UID_COUNT - 1} do not exist in this user namespace: run Moonpool as "
    "an ordinary user, or map them into the container"
)

_COMPLAINTS: Final = (
    ("max_*_namespaces exceeded", _USED_UP),
    ("No permissions to create new namespace", _CONTAINER),
    ("No permissions to create a new namespace", _CONTAINER),  # bubblewrap 0.9 and newer
    ("uids could not be mapped: PermissionError", _NO_MAPS),
    ("kernel does not support user namespaces", _CONTAINER),
    ("does not support it", "this Linux kernel lacks a kind of namespace: use 5.12 or newer with all of them"),
    ("Creating new namespace failed", _CONTAINER),
    ("setting up uid map: Permission denied", _APPARMOR),
    ("setting up uid map", _CONTAINER),
    ("setting up gid map", _CONTAINER),
    ("loopback: Failed", _APPARMOR),
    ("Can't mount proc on", _MASKED_PROC),
    ("Can't mount", _NO_MOUNTS),
    ("Failed to make / slave", _NO_MOUNTS),
    ("pivot_root", _NO_MOUNTS),
    ("PR_SET_SECCOMP", _NO_SECCOMP),
    ("Unknown option", _TOO_OLD),
    ("clone3: No space left on device", _USED_UP),
    ("clone3: Operation not permitted", _APPARMOR),
    ("step 'identity': [Errno", _APPARMOR),
    (NO_BUBBLEWRAP, NO_BUBBLEWRAP),
)
"""What bubblewrap, a zygote or the confinement said, and what to do about it. The first that fits counts."""


def missing_on_host() -> list[str]:
    """What is certain to fail, each with its remedy. Opening a sandbox is the real test."""
    missing: list[str] = []
    if find_launcher() is None:
        missing.append(NO_BUBBLEWRAP)
    if _read_number("/proc/sys/user/max_user_namespaces", default=1) == 0:
        missing.append(_SWITCHED_OFF)
    if _read_number("/proc/sys/kernel/unprivileged_userns_clone", default=1) == 0:
        missing.append("unprivileged user namespaces are off: sysctl -w kernel.unprivileged_userns_clone=1")
    if _read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", default=0) and not OWN_LAUNCHER.exists():
        missing.append(_APPARMOR)
    if not _filters_calls(_read("/proc/self/status")):
        missing.append(_NO_SECCOMP)
    if (files := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) < _OPEN_FILES:
        missing.append(_FEW_FILES.format(files=files))
    if os.geteuid() == 0 and not _maps_sandbox_uids(_read("/proc/self/uid_map")):
        missing.append(_NO_UIDS)
    return missing


def remedy_for(complaint: str) -> str | None:
    """What to do about a start that failed with these words; None if the machine is not to blame for certain."""
    return next((remedy for words, remedy in _COMPLAINTS if words in complaint), None)


@contextlib.contextmanager
def remedies_named() -> Generator[None]:
    """Raise HostUnfitError for a SandboxStartError that names what this machine lacks."""
    try:
        yield
    except SandboxStartError as error:
        remedy = remedy_for(f"step {error.step!r}: {error.reason}")
        if remedy is None:
            raise
        said = "" if remedy == error.reason else f" (a sandbox did not start: {error.reason})"
        raise HostUnfitError((remedy + said,)) from error


def _filters_calls(status: str) -> bool:
    """Whether /proc/self/status has the line that only a Linux kernel with filters writes. Unreadable: not certain."""
    return not status or "\nSeccomp:" in status


def _maps_sandbox_uids(uid_map: str) -> bool:
    """Whether the user namespace knows the range that sandboxes run under. Unreadable: not certain."""
    rows = [[int(word) for word in line.split()] for line in uid_map.splitlines()]
    return not rows or any(inside <= UID_FIRST and inside + count >= UID_FIRST + UID_COUNT for inside, _, count in rows)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _read_number(path: str, *, default: int) -> int:
    try:
        return int(_read(path))
    except ValueError:
        return default
