"""Starts outer sandboxes through a reaper, a small process that ends them however the host process ends.

The reaper (`moonpool.sandboxes.reaper`) is started with the first outer sandbox and is the parent of all of them. An
outer sandbox is killed through a pidfd; that it has ended is known when the reaper says so, and then no process of it
is left. When the reaper itself is killed, its outer sandboxes end with it, and what bubblewrap may have left in the
middle of a start is found by the folder in its command line (`moonpool.sandboxes.leftovers`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.sandboxes.base import SandboxStartError
from moonpool.sandboxes.reaper_client import ReaperClient
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from moonpool.sandboxes.identity import Identity
    from moonpool.sandboxes.reaper_client import OuterSandbox

OWN_LAUNCHER = Path("/usr/lib/moonpool/launcher")
"""Our copy of bubblewrap, for hosts whose AppArmor lets only named programs make user namespaces."""

NO_BUBBLEWRAP: Final = "bubblewrap is not installed: apt-get install bubblewrap"

_ETC = {
    "passwd": "root:x:0:0:root:/:/bin/false\nsandbox:x:1000:1000:sandbox:/home/user:/bin/sh\n",
    "group": "root:x:0:\nsandbox:x:1000:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


class OuterSandboxStarter:
    """Starts bubblewrap under a sandbox identity.

    `folder` and the control groups `groups` are removed when this process dies without `close`.
    """

    def __init__(self, folder: Path | None = None, groups: Iterable[Path] = ()) -> None:
        self._folder, self._groups = folder, tuple(groups)
        self._reaper: asyncio.Task[ReaperClient] | None = None

    async def begin(self) -> ReaperClient:
        """Have a reaper at hand. The first `start` does it; it takes as long as an interpreter takes to start.

        It is started whatever becomes of who asked first. Raises OSError.
        """
        if self._reaper is None or _has_failed(self._reaper):
            self._reaper = asyncio.ensure_future(ReaperClient.begin(self._folder, self._groups))
        return await asyncio.shield(self._reaper)

    async def start(
        self,
        command: Sequence[str],
        identity: Identity,
        *,
        pass_fds: Sequence[int],
        stdout: int | None,
        stderr: int | None,
        folders: str = "",
    ) -> OuterSandbox:
        """Start `command` with nothing inherited but `pass_fds`; `folders` is what `folder_mounts` takes.

        A cancelled start leaves no process. Raises OSError.

        SECURITY: never as kernel uid 0.
        """
        uid = identity.uid if identity.uid is not None else os.geteuid()
        assert uid != 0, "an outer sandbox must not run as kernel uid 0"
        reaper = await self.begin()
        starting = asyncio.ensure_future(
            reaper.start(command, identity.uid, pass_fds=pass_fds, stdout=stdout, stderr=stderr, folders=folders)
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await finish(_give_up(starting))  # and the descriptors stay open until they were sent
            raise

    async def close(self) -> None:
        """End every remaining outer sandbox, and the reaper."""
        if self._reaper is not None:
            with contextlib.suppress(OSError):  # it did not start
                await (await asyncio.shield(self._reaper)).dismiss()
            self._reaper = None


def _has_failed(reaper: asyncio.Task[ReaperClient]) -> bool:
    if not reaper.done():
        return False
    return reaper.cancelled() or reaper.exception() is not None or reaper.result().gone


async def _give_up(starting: asyncio.Future[OuterSandbox]) -> None:
    with contextlib.suppress(OSError):
        await end_outer_sandbox(await starting)


async def end_outer_sandbox(outer: OuterSandbox) -> None:
    """Kill an outer sandbox and wait, despite cancellation, until nothing of it is left."""
    outer.kill()
    await finish(outer.wait())


def find_launcher() -> Path | None:
    """Our own launcher where it is installed, else bubblewrap."""
    if OWN_LAUNCHER.exists():
        return OWN_LAUNCHER
    found = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
    return Path(found) if found else None


def launcher_or_refuse() -> Path:
    """The launcher. Raises SandboxStartError when there is none."""
    launcher = find_launcher()
    if launcher is None:
        raise SandboxStartError(step="launcher", reason=NO_BUBBLEWRAP)
    return launcher


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
    try:
        os.write(fd, program)
        os.lseek(fd, 0, os.SEEK_SET)
    except OSError:
        os.close(fd)
        raise
    return fd


def has_merged_usr() -> bool:
    """Whether /bin and /lib are links into /usr, as on every current Debian and Ubuntu."""
    return stat.S_ISLNK(os.lstat("/bin").st_mode)
