"""Rows about tool definitions: every field is handled, and lists are asked for no more often than needed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import AsyncMock

import anyio
import pytest

from moonpool.core.json import digest_bytes
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.engine.tool_registry import ToolRegistry
from moonpool.features.drift.service import DriftWatch
from moonpool.features.drift.table import AcceptanceStore
from moonpool.store.paths import acceptance_dir
from moonpool.tools.listing_cache import CachedListing
from moonpool.wrappers.tree import render_tree

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.upstreams.base import Upstream

ICON = "data:image/svg+xml;base64,SUNPTkJZVEVT"
COMPLETE = ToolDefinition(
    server_id="complete",
    name="do_it",
    raw={
        "name": "do_it",
        "title": "Does It",
        "description": "Does the thing.",
        "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
        "outputSchema": {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"]},
        "icons": [{"src": ICON}],
        "annotations": {"readOnlyHint": True, "title": "Old title"},
    },
)
LISTING = ServerListing(server_id="complete", tools=(COMPLETE,))


@pytest.mark.req("H-036")
def test_every_field_of_a_tool_is_handled() -> None:
    files = {name: content.decode() for name, content in render_tree(Manifest(servers=(LISTING,))).files.items()}
    module = files["servers/complete/do_it.py"]
    for said in ("Does the thing.", "what: str", "done: bool", "only reads"):
        assert said in module
    assert "Result(Model)" in files["mcptools/complete/do_it.py"]
    assert ICON not in "".join(files.values())


class _Cache:
    """A cache that holds one listing."""

    def __init__(self, kept: CachedListing | None) -> None:
        self.kept = kept

    def load(self, key: str) -> CachedListing | None:
        del key
        return self.kept

    def save(self, key: str, listing: ServerListing, era: str, listed_at: float) -> None:
        del key
        self.kept = CachedListing(listing=listing, era=era, listed_at=listed_at)


class _Counting:
    """An upstream that counts how often its tools are listed."""

    server_id = "complete"
    protocol_version = "2025-11-25"

    def __init__(self) -> None:
        self.listed = 0

    def get(self, server_id: str, /) -> Upstream:
        del server_id
        return cast("Upstream", self)

    async def list_tools(self) -> ServerListing:
        self.listed += 1
        return LISTING

    async def call_tool(self, name: str, arguments: Any, *, timeout_s: float) -> Any:
        raise NotImplementedError


@pytest.mark.anyio
@pytest.mark.req("H-048")
async def test_expiry_notification_and_refresh_each_ask_the_server_once(tmp_path: Path) -> None:
    server = _Counting()
    old = CachedListing(listing=LISTING, era="2025-11-25", listed_at=time.time() - 3600)
    asked: list[int] = []
    key = digest_bytes(b"complete")
    watch = DriftWatch(
        {"complete": key},
        AcceptanceStore(acceptance_dir(tmp_path)),
        pauses=True,
        principal="p",
        record=AsyncMock(),
        redact=str,
    )
    tool_registry = ToolRegistry({"complete": key}, server, _Cache(old), tmp_path, ttl_s=60, watch=watch)
    with anyio.fail_after(30):
        await tool_registry.snapshot()
        await tool_registry.snapshot()
        asked.append(server.listed)  # the cached list had expired
        tool_registry.refresh_soon("complete")  # what a list_changed notification does
        await tool_registry.close()
        asked.append(server.listed)
        await tool_registry.refresh()  # what an operator does
        asked.append(server.listed)
    assert asked == [1, 2, 3]
