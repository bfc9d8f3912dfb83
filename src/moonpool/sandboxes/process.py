"""Starts walls as child processes, from one thread that lives as long as the backend.

bubblewrap asks to be killed when its parent *thread* ends (PR_SET_PDEATHSIG), so walls are started neither on a pool
thread that may go idle nor on the event loop, which a fork would block.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.sandboxes.identity import Identity

OWN_LAUNCHER = Path("/usr/lib/moonpool/launcher")
"""Our copy of bubblewrap, for hosts whose AppArmor lets only named programs make user namespaces."""

_ETC = {
    "passwd": "root:x:0:0:root:/:/bin/false\nsandbox:x:1000:1000:sandbox:/home/user:/bin/sh\n",
    "group": "root:x:0:\nsandbox:x:1000:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


class WallStarter:
    """Starts bubblewrap under a sandbox identity."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="moonpool-walls")

    async def start(
        self,
        command: Sequence[str],
        identity: Identity,
        *,
        pass_fds: Sequence[int],
        stdout: int | None,
        stderr: int | None,
    ) -> subprocess.Popen[bytes]:
        """Start `command` with nothing inherited but `pass_fds`. A cancelled start leaves no process.

        SECURITY: never as kernel uid 0.
        """
        uid = identity.uid if identity.uid is not None else os.geteuid()
        assert uid != 0, "a wall must not run as kernel uid 0"

        def spawn() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=pass_fds,
                env={},
                cwd="/",
                user=identity.uid,
                group=identity.uid,
                extra_groups=None if identity.uid is None else (),
            )

        starting = asyncio.get_running_loop().run_in_executor(self._thread, spawn)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await end_wall(await starting)
            raise

    def close(self) -> None:
        """Let the thread go. Every wall must have ended before, since they end with it."""
        self._thread.shutdown(wait=False)


async def end_wall(process: subprocess.Popen[bytes]) -> None:
    """Kill a wall; everything inside ends with it."""
    process.kill()
    await asyncio.to_thread(process.wait)


def find_launcher() -> Path | None:
    """Our own launcher where it is installed, else bubblewrap."""
    if OWN_LAUNCHER.exists():
        return OWN_LAUNCHER
    found = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
    return Path(found) if found else None


def write_etc(folder: Path) -> Path:
    """Write the few files of /etc that a sandbox sees."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    for name, text in _ETC.items():
        (folder / name).write_text(text, encoding="ascii")
        (folder / name).chmod(0o644)
    return folder


def filter_fd(program: bytes) -> int:
    """An anonymous file that holds a filter; bubblewrap and the zygote read it."""
    fd = os.memfd_create("moonpool-filter", os.MFD_CLOEXEC)
    os.write(fd, program)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def has_merged_usr() -> bool:
    """Whether /bin and /lib are links into /usr, as on every current Debian and Ubuntu."""
    return stat.S_ISLNK(os.lstat("/bin").st_mode)


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
