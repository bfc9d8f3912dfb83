"""What stored trees use of a blob store, and its errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.features.storage.model import BLOB_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

LISTED_MAX: Final = 1000
"""Names that one `list` returns at most, and that one `delete` takes."""
_PART: Final = "[0-9a-z]{2,40}"
_NAME: Final = re.compile(rf"{_PART}/{_PART}/[0-9a-z-]{{1,40}}", re.ASCII)
_PREFIX: Final = re.compile(rf"(?:{_PART}/){{1,2}}", re.ASCII)


class StorageError(MoonpoolError):
    """Where files are stored cannot be used now. Nothing was changed."""

    code = "storage_unusable"
    fault = Fault.HOST
    retryable = True
    _names_host = False


class StorageDamagedError(StorageError):
    """What is stored is not what was stored: a blob is missing, or has other content."""

    code = "storage_damaged"
    retryable = False


class BlobStore(Protocol):
    """Used from one event loop. All implementations pass `tests/store/test_blobs.py`.

    A blob has a name `TREE/COMMIT/NUMBER` (see `check_name`) and is written once. SECURITY: errors are a `StorageError`
    that names no host, path or credential; what the operator needs stands in the log.
    """

    async def put(self, name: str, content: bytes, /) -> None:
        """Keep it. Once this returns it survives a power loss. Raises StorageError, also for a name that is there."""
        ...

    async def get(self, name: str, /, offset: int = 0, length: int | None = None) -> bytes:
        """Exactly these bytes; None: to the end. Raises StorageError, StorageDamagedError when they are not there."""
        ...

    async def delete(self, names: Sequence[str], /) -> None:
        """Remove these, at most `LISTED_MAX`; those that are not there count as removed. Raises StorageError."""
        ...

    async def list(self, prefix: str, /) -> Sequence[str]:
        """Names that begin with `TREE/` or `TREE/COMMIT/`, at most `LISTED_MAX` of them, in any order; those of blobs
        whose writing was cut off, too. Raises StorageError.
        """
        ...

    async def check(self) -> None:
        """Raises StorageError when it cannot be used now. Cheap."""
        ...

    async def close(self) -> None: ...


def is_name(text: str) -> bool:
    """Whether a blob can be called so."""
    return _NAME.fullmatch(text) is not None


def check_name(name: str) -> str:
    """SECURITY: nothing else ever becomes a part of a path or address."""
    if not is_name(name):
        raise StorageDamagedError(f"{name[:200]!r} cannot be the name of a blob; restore a backup")
    return name


def check_prefix(prefix: str) -> str:
    assert _PREFIX.fullmatch(prefix), "a prefix ends between two parts of a name"
    return prefix


def check_content(content: bytes) -> bytes:
    assert len(content) <= BLOB_BYTES_MAX, "who writes blobs cuts them"
    return content


def unusable(doing: str) -> StorageError:
    """For callers; `doing` as `write`."""
    return StorageError(f"the storage of files cannot be used: it was not possible to {doing}; try again later")


def missing() -> StorageDamagedError:
    return StorageDamagedError("a part of a stored file is missing; restore a backup of the storage")
