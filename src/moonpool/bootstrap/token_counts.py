"""The book of token counts over this data folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.runtime.token_book import TokenBook, Unasked
from moonpool.store.paths import token_counts_dir
from moonpool.store.token_counts import TokenCountStore

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.runtime.tool_snapshot import ToolSnapshot
    from moonpool.settings import Settings


def make_token_book(settings: Settings, data: Path) -> TokenBook:
    """Counts what clients of `moonpool mcp` are given with these settings."""

    def unasked(snapshot: ToolSnapshot) -> Unasked:
        from moonpool.faces.mcp.disclosure import unasked_texts  # noqa: PLC0415  only when something is new

        return unasked_texts(snapshot, settings.catalog, settings.environment)

    offer = f"{settings.catalog} {settings.environment}"
    return TokenBook(store=TokenCountStore(token_counts_dir(data)), unasked=unasked, offer=offer)
