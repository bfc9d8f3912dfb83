"""Opens the blob store at an address."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from moonpool.core.errors import ConfigError
from moonpool.store.blobs.addresses import FolderAddress
from moonpool.store.blobs.folder import open_folder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.store.blobs.addresses import BlobAddress
    from moonpool.store.blobs.base import BlobStore


@asynccontextmanager
async def open_blobs(address: BlobAddress) -> AsyncGenerator[BlobStore]:
    """Open it and see that it can be used. Raises ConfigError, StoreFolderError, StorageError."""
    blobs: BlobStore
    if isinstance(address, FolderAddress):
        blobs = await open_folder(address.path)
    else:
        try:
            from moonpool.store.blobs.s3 import S3Blobs  # noqa: PLC0415  an extra, for few
        except ModuleNotFoundError:
            raise ConfigError("files_url names S3, which needs more: pip install 'moonpool[s3]'") from None
        blobs = S3Blobs(address)
    try:
        await blobs.check()
        yield blobs
    finally:
        await blobs.close()
