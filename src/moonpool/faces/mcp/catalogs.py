"""The catalog of what the toolbox holds now. Indexing is work for a thread; searching is quick."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from moonpool.catalog.catalog import Catalog

if TYPE_CHECKING:
    from moonpool.runtime.tools import Toolbox, ToolSnapshot


class CurrentCatalog:
    """Follows a toolbox; a new snapshot is indexed when somebody asks."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._catalog: Catalog | None = None
        self._snapshot: ToolSnapshot | None = None
        self._loading: asyncio.Task[Catalog] | None = None

    async def get(self) -> Catalog:
        """The catalog of the newest snapshot. A caller that stops waiting does not stop the listing of servers."""
        return await asyncio.shield(self.load_soon())

    def load_soon(self) -> asyncio.Task[Catalog]:
        """Begin to list the servers' tools, unless that is going on."""
        if self._loading is None or self._loading.done():
            self._loading = asyncio.ensure_future(self._load())
        return self._loading

    async def close(self) -> None:
        """Stop listing."""
        if self._loading is not None:
            self._loading.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._loading

    async def _load(self) -> Catalog:
        snapshot = await self._toolbox.snapshot()
        if self._catalog is None or self._snapshot is not snapshot:
            self._catalog = await asyncio.to_thread(Catalog, snapshot.manifest)
            self._snapshot = snapshot
        return self._catalog
