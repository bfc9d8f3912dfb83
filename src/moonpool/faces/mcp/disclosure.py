"""What a model reads of the tools before it asks for anything: the handshake's text and our own definitions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from moonpool.catalog.shelf import library_line
from moonpool.catalog.summaries import server_summaries
from moonpool.faces.mcp.instructions import instructions
from moonpool.faces.mcp.offer import offer_of
from moonpool.runtime.token_book import Unasked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.core.json import JsonObject
    from moonpool.runtime.tool_snapshot import ToolSnapshot


def unasked_texts(snapshot: ToolSnapshot, catalog: str, environment: str) -> Unasked:
    """The texts for these tools; `catalog` and `environment` are the settings."""
    offer, manifest = offer_of(catalog, environment), snapshot.manifest
    told = instructions(
        server_summaries(manifest),
        unavailable=[one for one in snapshot.missing if one not in snapshot.reasons],
        left_out=snapshot.reasons,
        library=library_line(manifest.library),
        how=offer.how,
    )
    return Unasked(manifest=told, own_tools=own_tools_text(offer.tools))


def own_tools_text(tools: Sequence[JsonObject]) -> str:
    """Our own definitions as a model's API takes them, which is what is counted."""
    shown = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in tools]
    return "\n".join(json.dumps(one, separators=(",", ":")) for one in shown)
