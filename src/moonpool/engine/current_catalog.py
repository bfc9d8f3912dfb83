"""The catalog of the tools that the registry holds now. Indexing runs in a thread; searching is fast.

Vectors, if enabled, are computed in the background; no caller waits for them. A catalog ranks by words until they are
ready and by both from then on. The switch happens between two searches, never within one.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Protocol

from moonpool.catalog.catalog import Catalog
from moonpool.core.errors import MoonpoolError

if TYPE_CHECKING:
    from moonpool.catalog.dense import Similarity
    from moonpool.core.manifest import Manifest
    from moonpool.engine.tool_registry import ToolRegistry
    from moonpool.tools.snapshot import ToolSnapshot


_log = logging.getLogger(__name__)


class Vectors(Protocol):
    """Embeds manifests; blocks."""

    def similarity(self, manifest: Manifest, /, stop: Event | None = None) -> Similarity | None: ...


class CurrentCatalog:
    """Follows a tool registry; new tools in a snapshot are indexed on the next request."""

    def __init__(self, tool_registry: ToolRegistry, vectors: Vectors | None = None) -> None:
        self._tool_registry = tool_registry
        self._vectors = vectors
        self._stop = Event()  # stops the embedding in progress
        self._embedding: asyncio.Task[None] | None = None
        self._catalog: Catalog | None = None
        self._snapshot: ToolSnapshot | None = None
        self._loading: asyncio.Task[Catalog] | None = None

    async def get(self) -> Catalog:
        """The catalog of the newest snapshot. Cancelling a caller does not stop the listing."""
        return await asyncio.shield(self.load_soon())

    def load_soon(self) -> asyncio.Task[Catalog]:
        """Start listing the servers' tools unless that is in progress."""
        if self._loading is None or self._loading.done():
            self._loading = asyncio.ensure_future(self._load())
        return self._loading

    async def close(self) -> None:
        """Stop listing and embedding."""
        self._stop.set()
        if self._embedding is not None:
            await asyncio.gather(self._embedding, return_exceptions=True)
        if self._loading is not None:
            self._loading.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._loading

    async def _load(self) -> Catalog:
        snapshot = await self._tool_registry.snapshot()
        if self._catalog is None or self._snapshot is not snapshot:
            # holders of the old one may keep using it
            make = Catalog if self._catalog is None else self._catalog.followed
            self._catalog = await asyncio.to_thread(make, snapshot.manifest)
            self._catalog.missing = snapshot.why_missing()
            self._snapshot = snapshot
            self._embed_soon(self._catalog)
        return self._catalog

    def _embed_soon(self, catalog: Catalog) -> None:
        """Start embedding this catalog's tools; embedding of an older catalog stops."""
        if self._vectors is None:
            return
        self._stop.set()
        self._stop = Event()
        self._embedding = asyncio.ensure_future(self._embed(catalog, self._vectors, self._stop, self._embedding))

    @staticmethod
    async def _embed(catalog: Catalog, vectors: Vectors, stop: Event, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        try:
            similarity = await asyncio.to_thread(vectors.similarity, catalog.manifest, stop)
        except MoonpoolError as error:
            _log.warning("search goes by words alone: %s", error)
            return
        if similarity is not None:
            catalog.use_similarity(similarity)

    async def embedded(self) -> None:
        """Wait until vectors are in use, or are known to be unavailable."""
        if self._embedding is not None:
            await self._embedding
