"""Disk cache of servers' listings, so that a start needs no connection until the first call.

One file per server, named by the digest of its resolved configuration: another command, argument, variable or header
is another key. A file that is missing, too large, damaged or of another format is a miss, never an error; a cache that
cannot be written costs time, not correctness. Blocking: call from a worker thread.

SECURITY: the key is a digest over secrets and comes from another package, so it is checked before it names a file. The
content is untrusted data from servers and is validated again on reading.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from moonpool.core.manifest import ServerListing
from moonpool.store.private_files import StoreFolderError, private_folder, replace_private_file

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.core.json import JsonObject

FORMAT: Final = 1
FILE_BYTES_MAX: Final = 32 * 1024**2
_KEY: Final = re.compile(r"(?:sha256:)?[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedListing:
    """A listing as it was at `listed_at` (seconds since 1970), and the protocol revision the server spoke."""

    listing: ServerListing
    era: str
    listed_at: float


class ManifestCache:
    """Listings below one private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, key: str) -> CachedListing | None:
        """The listing stored under `key`, or None."""
        path = self._path(key)
        try:
            if path.stat().st_size > FILE_BYTES_MAX:
                return None
            stored = json.loads(path.read_bytes())
            return _read(cast("JsonObject", stored), key)
        except (OSError, ValueError, RecursionError):
            return None

    def save(self, key: str, cached: CachedListing) -> bool:
        """Store `cached` under `key`; False if that is not possible (too large, read-only disk)."""
        stored: JsonObject = {
            "format": FORMAT,
            "key": key,
            "era": cached.era,
            "listed_at": cached.listed_at,
            "listing": cached.listing.to_json(),
        }
        content = json.dumps(stored, separators=(",", ":")).encode()
        if len(content) > FILE_BYTES_MAX:
            return False
        try:
            private_folder(self._folder)
            replace_private_file(self._path(key), content, durable=False)  # can be listed again
        except (OSError, StoreFolderError):
            return False
        return True

    def forget(self, key: str) -> None:
        with contextlib.suppress(OSError):
            self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError("a manifest's key is a SHA-256 digest")
        return self._folder / f"{key.removeprefix('sha256:')}.json"


def _read(stored: JsonObject, key: str) -> CachedListing:
    if not isinstance(stored, dict) or stored.get("format") != FORMAT or stored.get("key") != key:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError("another format")
    listing, era, listed_at = stored.get("listing"), stored.get("era"), stored.get("listed_at")
    if not isinstance(listing, dict) or not isinstance(era, str) or not isinstance(listed_at, int | float):
        raise ValueError("not a cached listing")  # noqa: TRY004  one error for every wrong shape
    return CachedListing(listing=ServerListing.from_json(listing), era=era, listed_at=float(listed_at))
