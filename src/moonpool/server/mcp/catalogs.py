"""The catalog of what the tool registry holds now. Indexing is work for a thread; searching is quick.

Vectors, where they are wanted, are computed in the background: no caller ever waits for them. A catalog ranks by words
until they are there and by both from then on; it changes once, between two searches and never within one.
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
    """Follows a tool registry; what is new in a snapshot is indexed when somebody asks."""

    def __init__(self, tool_registry: ToolRegistry, vectors: Vectors | None = None) -> None:
        self._tool_registry = tool_registry
        self._vectors = vectors
        self._stop = Event()  # of the embedding that goes on
        self._embedding: asyncio.Task[None] | None = None
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
            make = Catalog if self._catalog is None else self._catalog.followed  # who holds the old one may go on
            self._catalog = await asyncio.to_thread(make, snapshot.manifest)
            self._catalog.missing = snapshot.why_missing()
            self._snapshot = snapshot
            self._embed_soon(self._catalog)
        return self._catalog

    def _embed_soon(self, catalog: Catalog) -> None:
        """Begin to embed this catalog's tools; an older catalog's embedding ends."""
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
        """Wait until vectors take part, or until it is known that they cannot."""
        if self._embedding is not None:
            await self._embedding
