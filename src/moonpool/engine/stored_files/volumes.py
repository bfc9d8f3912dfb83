"""Volumes that code only reads: checked out in a folder of the host, and shown through the sandbox's slot.

A checkout is known by the digest of the snapshot and of what is shown of it. It is made in a hidden folder and gets its
name when it is complete; slots hold links of its files, so removing one takes nothing from a sandbox.

SECURITY: contents, names and links are a tenant's. Every file is made below a descriptor of the folder above it, which
is reached without following a link; a link of the volume is made as it is, and nobody on the host follows it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from moonpool.engine.stored_files.model import Room, StoredFilesError, chosen, with_folders_above
from moonpool.sandboxes.folder_trees import open_beneath
from moonpool.sandboxes.shielding import in_thread
from moonpool.store.private_files import private_folder
from moonpool_wire.limits import TREE_ENTRIES_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.engine.stored_files.model import Choice, Mount
    from moonpool.features.storage.base import Snapshot
    from moonpool.features.storage.model import Entry
    from moonpool.sandboxes.base import Sandbox

BYTES_MAX: Final = 8 * 1024**3
"""Of all checkouts of a process together, and of one."""
ENTRY_BYTES: Final = 4096
"""What a file or folder counts beside its content. SECURITY: empty ones take the host's inodes, too."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ShownVolumes:
    """Checkouts of volumes, the least recently used removed first. One process uses a folder."""

    def __init__(self, folder: Path, bytes_max: int = BYTES_MAX) -> None:
        self._folder, self._bytes_max = folder, bytes_max
        self._sizes: dict[str, int] = {}  # checkout -> bytes, the last used last
        self._users: dict[str, int] = {}
        self._making: dict[str, asyncio.Lock] = {}
        self._is_swept = False

    async def show(self, sandbox: Sandbox, mount: Mount) -> Choice:
        """Let `sandbox` see `mount` as `/wrappers/volumes/<slug>`. Raises StoredFilesError, StorageError."""
        choice = await chosen(mount, Room(self._bytes_max, TREE_ENTRIES_MAX, self._bytes_max))
        name = hashlib.sha256(repr((mount.snapshot.digest, sorted(mount.sub_paths), choice.left_out)).encode())
        async with self._checked_out(name.hexdigest(), mount.snapshot, choice) as folder:
            slug = mount.place.rpartition("/")[2]
            try:
                await in_thread(lambda: sandbox.show_volume(slug, folder))
            except OSError as error:
                raise _failed(mount, error) from None
        return choice

    @asynccontextmanager
    async def _checked_out(self, name: str, snapshot: Snapshot, choice: Choice) -> AsyncGenerator[Path]:
        """The folder of a checkout, which stays for as long."""
        self._users[name] = self._users.get(name, 0) + 1
        try:
            async with self._making.setdefault(name, asyncio.Lock()):
                if name in self._sizes:
                    self._sizes[name] = self._sizes.pop(name)  # used last
                else:
                    self._sizes[name] = await self._check_out(name, snapshot, choice)
            await self._evict()
            yield self._folder / name
        finally:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name], self._making[name]

    async def _check_out(self, name: str, snapshot: Snapshot, choice: Choice) -> int:
        staging = self._folder / f".{secrets.token_hex(8)}"
        try:
            await in_thread(lambda: self._make(staging))
            root = os.open(staging, _FOLDER | os.O_CLOEXEC)
            try:
                for entry in choice.entries.values():
                    await self._put(root, snapshot, entry)
            finally:
                os.close(root)
            await in_thread(lambda: staging.rename(self._folder / name))
        except OSError as error:
            raise StoredFilesError(f"a volume cannot be shown: {(error.strerror or 'it failed').lower()}") from None
        finally:
            await in_thread(lambda: shutil.rmtree(staging, ignore_errors=True))
        made = len(with_folders_above(choice.entries))
        return made * ENTRY_BYTES + sum(one.size for one in choice.entries.values())

    def _make(self, staging: Path) -> None:
        private_folder(self._folder)
        if not self._is_swept:  # what an earlier process left; nobody knows what of it is whole
            for old in self._folder.iterdir():
                shutil.rmtree(old, ignore_errors=True)
            self._is_swept = True
        staging.mkdir()
        staging.chmod(0o755)

    async def _put(self, root: int, snapshot: Snapshot, entry: Entry) -> None:
        above, _, name = entry.path.rpartition("/")
        folder = await in_thread(lambda: _folder_at(root, above))
        try:
            if entry.kind == "folder":
                os.close(_made_folder(folder, name))
            elif entry.kind == "link":
                os.symlink(entry.target, name, dir_fd=folder)
            else:
                await _write(folder, name, snapshot, entry)
        finally:
            os.close(folder)

    def _remove(self, name: str) -> None:
        """Its name goes first: what has one is whole."""
        doomed = self._folder / f".{secrets.token_hex(8)}"
        (self._folder / name).rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    async def _evict(self) -> None:
        while sum(self._sizes.values()) > self._bytes_max:
            oldest = next((name for name in self._sizes if name not in self._users), None)
            if oldest is None:
                return
            del self._sizes[oldest]
            await in_thread(lambda name=oldest: self._remove(name))


def _folder_at(root: int, path: str) -> int:
    """A descriptor of the folder, made where it is missing. Raises OSError."""
    try:
        return open_beneath(root, path, _FOLDER)
    except FileNotFoundError:
        pass
    above, _, name = path.rpartition("/")
    folder = _folder_at(root, above)
    try:
        return _made_folder(folder, name)
    finally:
        os.close(folder)


def _made_folder(folder: int, name: str) -> int:
    try:
        os.mkdir(name, 0o755, dir_fd=folder)
    except FileExistsError:
        pass  # a link is found out now
    fd = open_beneath(folder, name, _FOLDER)
    os.fchmod(fd, 0o755)  # read by sandbox uids, whatever the umask is
    return fd


async def _write(folder: int, name: str, snapshot: Snapshot, entry: Entry) -> None:
    fd = os.open(name, _NEW, 0o600, dir_fd=folder)
    try:
        async for chunk in snapshot.read(entry):
            await in_thread(lambda part=chunk: _write_all(fd, part))
        os.fchmod(fd, 0o755 if entry.mode & 0o100 else 0o644)
        os.utime(fd, ns=(entry.modified_ns, entry.modified_ns))
    finally:
        os.close(fd)


def _write_all(fd: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _failed(mount: Mount, error: OSError) -> StoredFilesError:
    return StoredFilesError(f"{mount.name} cannot be shown: {(error.strerror or 'it failed').lower()}")
