"""Whether this machine can isolate code: what is certain to be missing, and what bubblewrap's complaints mean.

Two questions at two moments. `missing_on_host` asks quickly, before anything is started, what would surely fail. But
flags lie: a switch may be on and a security module in the way. So the first real opening decides, and `remedy_for`
turns what bubblewrap complained of into what to do about it.
"""

from __future__ import annotations

from pathlib import Path

from moonpool.sandboxes.process import OWN_LAUNCHER, find_launcher


def missing_on_host() -> list[str]:
    """What is certain to fail, each with its remedy. Opening a sandbox is the real test."""
    missing: list[str] = []
    if find_launcher() is None:
        missing.append("bubblewrap is not installed: apt-get install bubblewrap")
    if _read_number("/proc/sys/user/max_user_namespaces", default=1) == 0:
        missing.append("user namespaces are switched off: sysctl -w user.max_user_namespaces=65536")
    if _read_number("/proc/sys/kernel/unprivileged_userns_clone", default=1) == 0:
        missing.append("unprivileged user namespaces are off: sysctl -w kernel.unprivileged_userns_clone=1")
    if _read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", default=0) and not OWN_LAUNCHER.exists():
        missing.append("AppArmor restricts user namespaces: run `sudo make launcher` once in Moonpool's source folder")
    return missing


def _read_number(path: str, *, default: int) -> int:
    try:
        return int(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return default
