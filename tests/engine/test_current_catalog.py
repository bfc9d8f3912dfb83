"""A session never waits for vectors, and reads only what changed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, cast

import anyio
import pytest

from moonpool.catalog.documents import tool_document
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.embeddings.errors import DenseUnavailableError
from moonpool.engine.current_catalog import CurrentCatalog
from moonpool.tools.snapshot import ToolSnapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.catalog.dense import Similarity
    from moonpool.catalog.documents import Document
    from moonpool.engine.tool_registry import ToolRegistry

TOOL = ToolDefinition(server_id="sky", name="forecast", raw={"name": "forecast", "description": "Weather"})
MANIFEST = Manifest(servers=(ServerListing(server_id="sky", tools=(TOOL,)),))


class Everything:
    """Finds every tool like every question."""

    word_share = 0.4
    floor = 0.5
    bonus_share = 1.0

    def to_tools(self, _query: str) -> Sequence[float]:
        return [0.6]


class SlowVectors:
    def __init__(self, error: DenseUnavailableError | None = None) -> None:
        self.go, self.error, self.stopped = Event(), error, False

    def similarity(self, _manifest: Manifest, stop: Event | None = None) -> Similarity | None:
        assert stop is not None, "a session can be closed at any time"
        while not self.go.wait(0.01):
            if stop.is_set():
                self.stopped = True
                return None
        if self.error:
            raise self.error
        return Everything()


class OneSnapshot:
    def __init__(self) -> None:
        self.show(MANIFEST)

    def show(self, manifest: Manifest) -> None:
        self._snapshot = ToolSnapshot(manifest=manifest, tree=Path("unused"), digest=manifest.digest)

    async def snapshot(self) -> ToolSnapshot:
        return self._snapshot


def current(vectors: SlowVectors) -> CurrentCatalog:
    return CurrentCatalog(cast("ToolRegistry", OneSnapshot()), vectors)


def test_search_goes_by_words_until_vectors_are_there_and_by_both_afterwards() -> None:
    asyncio.run(_becomes_dense())


async def _becomes_dense() -> None:
    vectors = SlowVectors()
    catalogs = current(vectors)
    with anyio.fail_after(30):
        catalog = await catalogs.get()
        assert [hit.entry.tool_name for hit in catalog.search("weather")] == ["forecast"]
        assert not catalog.has_similarity
        vectors.go.set()
        await catalogs.embedded()
        assert (await catalogs.get()) is catalog
        assert catalog.has_similarity
        await catalogs.close()


def test_a_changed_server_is_indexed_and_the_others_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counting(tool: ToolDefinition, server: ServerListing) -> Document:
        read.append(tool.name)
        return tool_document(tool, server)

    monkeypatch.setattr("moonpool.catalog.catalog.tool_document", counting)
    asyncio.run(_follows(read))


async def _follows(read: list[str]) -> None:
    tool_registry = OneSnapshot()
    catalogs = CurrentCatalog(cast("ToolRegistry", tool_registry))
    with anyio.fail_after(30):
        before = await catalogs.get()
        tide = ToolDefinition(server_id="sea", name="tide", raw={"name": "tide"})
        tool_registry.show(Manifest(servers=(*MANIFEST.servers, ServerListing(server_id="sea", tools=(tide,)))))
        after = await catalogs.get()
        await catalogs.close()

    assert read == ["forecast", "tide"]
    assert [len(one.list()) for one in (before, after)] == [1, 2]
    assert [hit.path for hit in after.search("tide")] == ["servers.sea.tide"]
    assert before.search("tide") == ()


def test_closing_ends_the_embedding() -> None:
    asyncio.run(_closes_early())


async def _closes_early() -> None:
    vectors = SlowVectors()
    catalogs = current(vectors)
    with anyio.fail_after(30):
        await catalogs.get()
        await catalogs.close()
    assert vectors.stopped


def test_vectors_that_cannot_be_had_leave_the_words_and_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(_fails())
    assert "there is no model: make it" in caplog.text


async def _fails() -> None:
    vectors = SlowVectors(DenseUnavailableError("there is no model: make it"))
    vectors.go.set()
    catalogs = current(vectors)
    with anyio.fail_after(30):
        catalog = await catalogs.get()
        await catalogs.embedded()
        assert len(catalog.search("weather")) == 1
        await catalogs.close()
