"""The text about tools that a model reads before its first request: the handshake's instructions and
our definitions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from moonpool.catalog.library_entries import library_line
from moonpool.catalog.summaries import server_summaries
from moonpool.features.usage.token_accounting import Unasked
from moonpool.server.mcp.instructions import instructions
from moonpool.server.mcp.tool_set import offer_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.core.json import JsonObject
    from moonpool.tools.snapshot import ToolSnapshot


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
    """Our definitions in the form that a model's API takes, which is the form that is counted."""
    shown = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in tools]
    return "\n".join(json.dumps(one, separators=(",", ":")) for one in shown)
