"""Wheels that were unpacked, by the digest of their bytes, and what earlier resolutions came to. Blocking.

All tenants share the wheels: their names are digests that the host computed, so nobody can put other bytes under one.
Resolutions are each tenant's own: a sandbox of that tenant said what a requirement stands for.

INVARIANT: a folder with its final name is complete and never changes. Removing one takes nothing from a session that
shows it: slots hold links of the files.
SECURITY: the folder is private; sandboxes see their own slots only.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from typing import TYPE_CHECKING, Final

import msgspec

from moonpool.engine.packages.model import StoredWheel
from moonpool.engine.packages.wheels import unpack_wheel
from moonpool.store.private_files import private_folder, read_own_file, replace_private_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from moonpool.engine.packages.wheels import WheelBounds

RESOLUTION_S_MAX: Final = 86_400.0
"""How long the versions that a requirement stood for are used again without asking the index."""
_RESOLUTIONS_MAX: Final = 500
_KEPT_FILE_BYTES_MAX: Final = 64 * 1024**2
_LEFT_S: Final = 3600.0


class WheelRef(msgspec.Struct, frozen=True, kw_only=True):
    """One wheel that a resolution chose."""

    name: str
    version: str
    sha256: str


class WheelStore:
    """Unpacked wheels below one private folder."""

    def __init__(self, folder: Path, bytes_max: int, *, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._bytes_max, self._clock = folder, bytes_max, clock

    def find(self, sha256: str) -> StoredWheel | None:
        """The wheel with this digest, if it is here; it counts as used now."""
        folder = self._folder / sha256
        try:
            stored = json.loads(read_own_file(folder / "wheel.json", bytes_max=_KEPT_FILE_BYTES_MAX))
            os.utime(folder)
        except (OSError, ValueError):
            return None
        files = {path: (size, crc) for path, (size, crc) in stored.pop("files").items()}
        return StoredWheel(**stored, sha256=sha256, folder=folder / "site", files=files)

    def keep(self, file: Path, sha256: str, bounds: WheelBounds, *, name: str, version: str) -> StoredWheel:
        """Unpack `file`, whose digest the caller computed. Raises PackageError, StoreFolderError, OSError."""
        building = private_folder(self._folder) / f".{secrets.token_hex(8)}"
        site = building / "site"
        try:
            site.mkdir(parents=True)
            building.chmod(0o700)
            wheel = unpack_wheel(file, site, bounds, name=name, version=version)
            stored = {
                "name": wheel.name,
                "version": wheel.version,
                "metadata": wheel.metadata,
                "size": wheel.size,
                "files": wheel.files,
            }
            (building / "wheel.json").write_text(json.dumps(stored, ensure_ascii=False), encoding="utf-8")
            try:
                building.rename(self._folder / sha256)
            except OSError:
                if not (self._folder / sha256).is_dir():  # else another process was faster; its folder is the same
                    raise
        finally:
            shutil.rmtree(building, ignore_errors=True)
        found = self.find(sha256)
        assert found is not None, "it was made, here or by another process"
        return found

    def evict(self, kept: Collection[str]) -> None:
        """Remove what was not used for longest until the rest fits; never what is in `kept`."""
        with contextlib.suppress(OSError):
            found = sorted((path.stat().st_mtime, path) for path in self._folder.iterdir())
            sizes = {path: self._size(path) for _, path in found}
            total = sum(sizes.values())
            for used_at, path in found:
                age_s = self._clock() - used_at
                if path.name.startswith("."):
                    gone = age_s > _LEFT_S  # a killed process left it
                else:
                    gone = total > self._bytes_max and path.name not in kept
                if gone:
                    total -= sizes[path]
                    shutil.rmtree(path, ignore_errors=True)

    def _size(self, folder: Path) -> int:
        try:
            return int(json.loads((folder / "wheel.json").read_bytes())["size"])
        except (OSError, ValueError, KeyError):
            return 0


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
        """Raises StoreFolderError, OSError."""
        path = private_folder(self._folder) / f"{key}.json"
        replace_private_file(path, msgspec.json.encode(refs), durable=False)
        ages = sorted(((other.stat().st_mtime, other) for other in self._folder.glob("*.json")), reverse=True)
        for _, other in ages[_RESOLUTIONS_MAX:]:
            other.unlink(missing_ok=True)
