"""Wheels that were unpacked, by the digest of their bytes, and what earlier resolutions came to. Blocking.

All tenants share the wheels: their names are digests that the host computed, so nobody can put other bytes under one.
Resolutions are each tenant's own: a sandbox of that tenant said what a requirement stands for.

INVARIANT: a folder with its final name is complete and never changes. Removing one takes nothing from a session that
shows it: slots hold links of the files.
INVARIANT: a hidden folder is locked by the process that works in it; without a lock it is nobody's, and `sweep` removes
it.
SECURITY: the folder is private; sandboxes see their own slots only. What is in it is compared with its digests before
it is used: a disk that was full or damaged, or a stray program, costs another download. Whoever can write here can also
change the digests: that is the operator's own account.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import time
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from moonpool.engine.packages.model import StoredWheel
from moonpool.engine.packages.wheels import unpack_wheel
from moonpool.store.private_files import StoreFolderError, private_folder, read_own_file, replace_private_file

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Generator, Iterator
    from pathlib import Path

    from moonpool.engine.packages.wheels import WheelBounds

RESOLUTION_S_MAX: Final = 86_400.0
"""How long the versions that a requirement stood for are used again without asking the index."""
_RESOLUTIONS_MAX: Final = 500
_KEPT_FILE_BYTES_MAX: Final = 64 * 1024**2
_KEPT: Final = "wheel.json"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_DAMAGED: Final = (FileNotFoundError, ValueError, msgspec.MsgspecError)


class WheelRef(msgspec.Struct, frozen=True, kw_only=True):
    """One wheel that a resolution chose."""

    name: str
    version: str
    sha256: Annotated[str, Meta(max_length=64, pattern=r"^[0-9a-f]{64}$")]


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What stands beside an unpacked wheel."""

    name: str
    version: str
    metadata: str
    size: int
    files: dict[str, str]


class WheelStore:
    """Unpacked wheels below one private folder."""

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self._folder, self._bytes_max = folder, bytes_max

    @contextlib.contextmanager
    def working_folder(self) -> Generator[Path]:
        """A private folder that is gone afterwards; if this process is killed, once another one sweeps.

        Raises StoreFolderError, OSError.
        """
        with self._locked():  # nobody takes it for an abandoned one before it is locked
            folder = self._folder / f".{secrets.token_hex(8)}"
            folder.mkdir(mode=0o700)
            lock = _lock(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        lock = os.open(private_folder(self._folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def sweep(self) -> None:
        """Remove what killed processes left."""
        abandoned: dict[Path, int] = {}
        with contextlib.suppress(OSError, StoreFolderError), self._locked():
            for folder in self._folder.glob(".*"):
                with contextlib.suppress(OSError):  # its process lives, or another one removes it
                    abandoned[folder] = _lock(folder)
        for folder, lock in abandoned.items():  # this may take a while
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)

    def find(self, sha256: str) -> StoredWheel | None:
        """The wheel with this digest, if it is here as it was unpacked; it counts as used now.

        SECURITY: callers have `sha256` from an index or a recording; anything but a digest could lead out of the store,
        where what is no wheel would be removed.
        """
        if not _DIGEST.fullmatch(sha256):
            return None
        folder = self._folder / sha256
        try:
            kept = self._read(folder)
            if {path: _digest(file) for path, file in _files(folder / "site")} != kept.files:
                raise ValueError("it was changed")
            os.utime(folder)
        except _DAMAGED:
            self._remove(folder)
            return None
        except OSError:  # it may be whole
            return None
        return _stored(kept, sha256, folder)

    def keep(
        self,
        file: Path,
        sha256: str,
        bounds: WheelBounds,
        *,
        name: str,
        version: str,
        given_up: threading.Event | None = None,
    ) -> StoredWheel:
        """Unpack `file`, whose digest the caller computed. Raises PackageError, StoreFolderError, OSError.

        Setting `given_up` ends it soon.
        """
        final = self._folder / sha256
        with self.working_folder() as working:
            building = working / "wheel"
            (building / "site").mkdir(parents=True)
            wheel = unpack_wheel(file, building / "site", bounds, name=name, version=version, given_up=given_up)
            kept = _Kept(
                name=wheel.name, version=wheel.version, metadata=wheel.metadata, size=wheel.size, files={**wheel.files}
            )
            (building / _KEPT).write_bytes(msgspec.json.encode(kept))
            try:
                building.rename(final)
            except OSError:
                if found := self.find(sha256):  # another process was faster
                    return found
                self._remove(final)
                building.rename(final)
        return _stored(kept, sha256, final)

    def evict(self, kept: Collection[str]) -> None:
        """Remove what is damaged, and what was not used for longest until the rest fits.

        Never what is in `kept` or shown in a sandbox.
        """
        found: list[tuple[float, int, Path]] = []
        with contextlib.suppress(OSError):
            for path in self._folder.glob("[!.]*"):
                try:
                    found.append((path.stat().st_mtime, self._read(path).size, path))
                except _DAMAGED:
                    self._remove_unused(path, kept)
                except OSError:  # it may be whole
                    pass
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._bytes_max:
                return
            if self._remove_unused(path, kept):
                total -= size

    def _remove_unused(self, folder: Path, kept: Collection[str]) -> bool:
        if not _DIGEST.fullmatch(folder.name) or folder.name in kept or _is_shown(folder):
            return False
        self._remove(folder)
        return True

    def _remove(self, folder: Path) -> None:
        """Take its name from it first: what has one is whole, also if this process is killed."""
        passing = folder.with_name(f".{secrets.token_hex(8)}")
        with contextlib.suppress(OSError):
            folder.rename(passing)
            shutil.rmtree(passing, ignore_errors=True)

    def _read(self, folder: Path) -> _Kept:
        """Raises OSError, ValueError, MsgspecError."""
        return msgspec.json.decode(read_own_file(folder / _KEPT, bytes_max=_KEPT_FILE_BYTES_MAX), type=_Kept)


def _stored(kept: _Kept, sha256: str, folder: Path) -> StoredWheel:
    return StoredWheel(**msgspec.structs.asdict(kept), sha256=sha256, folder=folder / "site")


def _lock(folder: Path) -> int:
    """The descriptor that locks it. Raises OSError where another process does."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _files(folder: Path, above: str = "") -> Iterator[tuple[str, str]]:
    """What is in it but folders: the name below it, and its path. Raises OSError."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(folder / entry.name, f"{above}{entry.name}/")
            else:
                yield f"{above}{entry.name}", entry.path


def _digest(path: str) -> str:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_shown(folder: Path) -> bool:
    """Whether a slot has links of its files. Removing it would free nothing, and a later sandbox may want it."""
    try:
        return any(os.lstat(path).st_nlink > 1 for _, path in _files(folder / "site"))
    except OSError:
        return False


class Resolutions:
    """What requirements stood for, of one tenant."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock

    def find(self, key: str) -> tuple[WheelRef, ...] | None:
        """What was resolved for `key` not too long ago."""
        path = self._folder / f"{key}.json"
        try:
            if self._clock() - path.stat().st_mtime > RESOLUTION_S_MAX:
                return None
            return msgspec.json.decode(read_own_file(path, bytes_max=1024**2), type=tuple[WheelRef, ...])
        except (OSError, ValueError, msgspec.MsgspecError):
            return None

    def keep(self, key: str, refs: tuple[WheelRef, ...]) -> None:
        """Keep it if there is room: without it the index is asked again."""
        with contextlib.suppress(OSError, StoreFolderError):
            path = private_folder(self._folder) / f"{key}.json"
            replace_private_file(path, msgspec.json.encode(refs), durable=False)
            ages = sorted(((other.stat().st_mtime, other) for other in self._folder.iterdir()), reverse=True)
            for _, other in ages[_RESOLUTIONS_MAX:]:
                other.unlink(missing_ok=True)
