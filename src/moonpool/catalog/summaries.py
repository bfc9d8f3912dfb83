"""One summary per server, for the compact manifest; needs no index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.catalog.entries import ServerSummary
from moonpool.catalog.names import GuestNames

if TYPE_CHECKING:
    from moonpool.core.manifest import Manifest


def server_summaries(manifest: Manifest, names: GuestNames | None = None) -> tuple[ServerSummary, ...]:
    """Summaries in the manifest's order; `names` if the caller has them already."""
    known = names or GuestNames(manifest)
    return tuple(
        ServerSummary(
            server_id=server.server_id,
            module=known.module(server.server_id),
            tool_count=len(server.tools),
            about=server.description or server.title or server.instructions,
        )
        for server in manifest.servers
    )
