"""Token accounting for this data folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.features.usage.table import TokenCountStore
from moonpool.features.usage.token_accounting import TokenAccounting, Unasked
from moonpool.store.paths import token_counts_dir

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.settings import Settings
    from moonpool.tools.snapshot import ToolSnapshot


def make_token_accounting(settings: Settings, data: Path) -> TokenAccounting:
    """Token accounting of what clients of `moonpool mcp` get with these settings."""

    def unasked(snapshot: ToolSnapshot) -> Unasked:
        from moonpool.server.mcp.context_usage import unasked_texts  # noqa: PLC0415  only if something is new

        return unasked_texts(snapshot, settings.catalog, settings.environment)

    offer = f"{settings.catalog} {settings.environment}"
    return TokenAccounting(store=TokenCountStore(token_counts_dir(data)), unasked=unasked, offer=offer)
