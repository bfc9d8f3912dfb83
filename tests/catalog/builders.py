"""Small manifests and the published ones, for the catalog's tests."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from moonpool.catalog.catalog import Catalog
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition

TOOL_LISTS = Path(__file__).parents[1] / "data" / "toollists"


def listing(server_id: str, *tools: dict[str, Any], **about: str) -> ServerListing:
    definitions = tuple(ToolDefinition(server_id=server_id, name=raw["name"], raw=raw) for raw in tools)
    return ServerListing(server_id=server_id, tools=definitions, **about)


def catalog_of(*servers: ServerListing) -> Catalog:
    return Catalog(Manifest(servers=servers))


def nested(name: str, *, depth: int) -> dict[str, Any]:
    """A schema whose parameter `name` lies `depth` objects deep."""
    schema: dict[str, Any] = {"type": "object", "properties": {name: {"type": "string"}}}
    for _ in range(depth - 1):
        schema = {"type": "object", "properties": {"holder": schema}}
    return schema


@cache
def published_manifest() -> Manifest:
    """The tool lists of published servers."""
    files = sorted(TOOL_LISTS.glob("*.json"))
    assert len(files) >= 15, f"the tool lists are missing from {TOOL_LISTS}"  # or tests over them would show nothing
    return Manifest(servers=tuple(_read(path) for path in files))


def _read(path: Path) -> ServerListing:
    data = json.loads(path.read_text(encoding="utf-8"))
    about = {key: data["serverInfo"][key] for key in ("title", "description") if data["serverInfo"].get(key)}
    return listing(path.stem, *data["result"]["tools"], instructions=data.get("instructions") or "", **about)
