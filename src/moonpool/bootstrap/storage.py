"""Files of threads and volumes, from settings."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from moonpool.features.storage.heads import TreeBounds
from moonpool.features.storage.service import StoredTrees
from moonpool.features.storage.sweeping import Sweeper
from moonpool.features.storage.table import TreeTable
from moonpool.store.blobs.addresses import blob_address
from moonpool.store.blobs.opening import open_blobs
from moonpool.store.database.addresses import SqliteAddress, database_address
from moonpool.store.paths import files_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from moonpool.settings import Settings
    from moonpool.store.database.base import Database


@asynccontextmanager
async def open_trees(
    settings: Settings,
    data: Path,
    environ: Mapping[str, str],
    database: Database,
    *,
    serving: bool = True,
    alone: bool = True,
) -> AsyncGenerator[StoredTrees]:
    """Open them on the service's open database; what is superseded is removed meanwhile.

    `serving`: this process is the service, not a command beside it. One on SQLite that is `alone` with its data folder
    takes the holds that it finds for those of one that died.

    Raises ConfigError, StoreFolderError, StorageError, DatabaseError.
    """
    address = blob_address(settings.files_url, files_dir(data), environ)
    bounds = TreeBounds(
        threads_max=settings.storage_threads_max,
        volumes_max=settings.storage_volumes_max,
        bytes_max=settings.storage_bytes_max,
    )
    async with open_blobs(address) as blobs:
        heads = TreeTable(database, bounds)
        if not serving:
            yield StoredTrees(heads, blobs)
            return
        if alone and isinstance(database_address(settings.database_url, data), SqliteAddress):
            await heads.clear_holds()
        sweeping = asyncio.create_task(Sweeper(heads, blobs).run())
        try:
            yield StoredTrees(heads, blobs)
        finally:
            sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await sweeping
