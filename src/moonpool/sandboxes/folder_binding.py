"""How folders of the host get into a sandbox: opened without following a link, bound by its outer sandbox.

Without root the outer sandbox binds a folder as it is. As root the reaper mounts it for the sandbox's uid first
(`folder_mounts`), or a copy is bound where the file system cannot do that (`folder_copies`). PID 1 compares what is
bound with what was opened here, and puts it in its place (`moonpool_guest.folders`).

SECURITY: Moonpool itself takes variables of servers from a file `.env` (`moonpool.ipybox`). PID 1 guards what is there;
so an empty one is made where code could make one that a later process would read. It stays.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.sandboxes.host_folders import FolderError
from moonpool.sandboxes.plan import HOME_LINK
from moonpool.store.beneath import NO_LINKS, openat2

if TYPE_CHECKING:
    from moonpool.sandboxes.base import ImageSpec
    from moonpool.sandboxes.folder_copies import FolderCopies
    from moonpool.sandboxes.host_folders import HostFolders

ATTACHING: Final = "host folders"
"""The step of a start that fails when the host cannot attach its folders."""
INSIDE: Final = Path("/folders")
"""Where the outer sandbox has them until PID 1 puts each in its place."""
_ENV: Final = ".env"
_OWN_PLACES: Final = (Path("/tmp"), Path("/home/user"), Path("/data"))  # noqa: S108  of the sandbox; what is below is made there


def refuse_overlap(folders: HostFolders, image: ImageSpec) -> None:
    """Raise FolderError for a folder that holds what all sandboxes are made of, or lies in it."""
    for folder in folders.shown:
        if folder.path.is_relative_to(HOME_LINK):
            raise FolderError(f"{folder.path} cannot be attached: {HOME_LINK} is the sandbox's own folder")
        for own in (image.guest, *image.binds):
            if own.is_relative_to(folder.path) or folder.path.is_relative_to(own):
                raise FolderError(f"{folder.path} cannot be attached: sandboxes are made of {own}")


def open_without_links(path: Path, *, make: bool = False) -> int:
    """A descriptor (O_PATH) of a folder, with no link followed on its absolute path. Raises OSError.

    `make` makes what is missing of it. For folders in which code of a sandbox may have put links.
    """
    try:
        return openat2(-100, str(path), os.O_PATH | os.O_DIRECTORY, NO_LINKS)
    except FileNotFoundError:
        if not make:
            raise
    above = open_without_links(path.parent, make=True)
    try:
        with contextlib.suppress(FileExistsError):  # a link, too; it is found out now
            os.mkdir(path.name, dir_fd=above)
    finally:
        os.close(above)
    return open_without_links(path)


def hold_env_file(folder: Path) -> None:
    """Make an empty `.env` where there is none, for the guards of sandboxes. Raises FolderError."""
    try:
        at = open_without_links(folder)
    except OSError as error:
        raise FolderError(f"{folder} cannot be attached any more: {error.strerror}") from None
    try:
        _hold_env_in(at, folder)
    finally:
        os.close(at)


def _hold_env_in(at: int, folder: Path) -> None:
    try:
        made = os.open(_ENV, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=at)
    except FileExistsError:
        if stat.S_ISLNK(os.stat(_ENV, dir_fd=at, follow_symlinks=False).st_mode):  # code could put a file in its place
            why = f"{_ENV} in it is a link; put the file itself there, or remove the link"
            raise FolderError(f"{folder} cannot be attached: {why}") from None
    except OSError as error:
        if error.errno != errno.EROFS:  # there code can make none either
            why = f"an empty file {_ENV} cannot be made in it ({error.strerror})"
            raise FolderError(f"{folder} cannot be attached: {why}; make one yourself") from None
    else:
        if os.geteuid() == 0:
            owner = os.fstat(at)
            os.fchown(made, owner.st_uid, owner.st_gid)
        os.close(made)


@dataclass(frozen=True, slots=True)
class BoundFolders:
    """How the folders of one sandbox get into it."""

    arguments: list[str] = field(default_factory=list[str])  # of bubblewrap
    fds: tuple[int, ...] = ()  # which the reaper needs
    for_reaper: str = ""  # what `folder_mounts.mount_folders` takes, as JSON
    confinement: dict[str, object] | None = None  # what `moonpool_guest.folders` is told


def bind_folders(
    folders: HostFolders, stack: contextlib.ExitStack, mounts: Path | None, copies: FolderCopies | None
) -> BoundFolders:
    """Open the folders, until `stack` is closed, and say how they are bound. Blocks. Raises FolderError, OSError.

    `mounts` is a folder of ours in which the reaper mounts them for another uid, `copies` makes copies of those that
    cannot be mounted so. None: they are bound as they are.
    """
    arguments: list[str] = []
    rows: list[dict[str, object]] = []
    for_reaper: list[list[str]] = []
    for number, folder in enumerate(folders.shown):
        try:
            fd = open_without_links(folder.path)
        except OSError as error:
            why = f"{error.strerror}; it was moved, removed or replaced by a link"
            raise FolderError(f"{folder.path} cannot be attached any more: {why}") from None
        stack.callback(os.close, fd)
        if folder.writable:
            _hold_env_in(fd, folder.path)
        found = os.fstat(fd)
        place, at = folder.path, INSIDE / str(number)
        if copies is not None and copies.needed(fd):
            place = copies.add(folder, fd)
            found = place.stat()
        elif mounts is not None:
            place = mounts / str(number)
            place.mkdir(parents=True, exist_ok=True)
            mounts.chmod(0o711)  # whatever the umask is
            for_reaper.append([str(fd), str(place), "rw" if folder.writable else "ro"])
        arguments += ["--bind" if folder.writable else "--ro-bind", str(place), str(at), *_made(folder.path)]
        row = {"at": str(at), "path": str(folder.path), "dev": found.st_dev, "ino": found.st_ino}
        rows.append({**row, "fixed": list(folder.fixed)})
    rows.sort(key=lambda row: len(Path(str(row["path"])).parts))  # what is above others comes first
    confinement: dict[str, object] = {
        "shown": rows,
        "first": str(folders.shown[0].path),
        "is_workspace": folders.is_workspace,
    }
    fds = tuple(int(fd) for fd, _, _ in for_reaper)
    return BoundFolders(arguments, fds, json.dumps(for_reaper) if for_reaper else "", confinement)


def _made(path: Path) -> list[str]:
    """Arguments that make the folder on which `path` is mounted, unless it is in a place of the sandbox's own."""
    if any(path.is_relative_to(own) for own in _OWN_PLACES):
        return []
    folders = [str(folder) for folder in (*reversed(path.parents), path) if folder != Path("/")]
    return [word for folder in folders for word in ("--perms", "0755", "--dir", folder)]
