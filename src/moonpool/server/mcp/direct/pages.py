"""Long lists in pages. Pure.

A cursor names the list that it was given out for, so one of another list, or of a list that has changed since, is
refused instead of leaving items out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from moonpool.core.json import digest_json

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject

ITEMS_MAX: Final = 1000
_DIGEST_CHARS: Final = 16


def page_of(items: list[JsonObject], cursor: str | None) -> tuple[list[JsonObject], str | None]:
    """The items after `cursor`, and the cursor of what follows them. Raises MCPError."""
    if len(items) <= ITEMS_MAX and cursor is None:
        return items, None
    names = digest_json([item.get("name") or item.get("uri") for item in items])[-_DIGEST_CHARS:]
    starts = {f"{names}-{start}": start for start in range(ITEMS_MAX, len(items), ITEMS_MAX)}
    if cursor is not None and cursor not in starts:
        raise MCPError(types.INVALID_PARAMS, "Invalid cursor: it belongs to no page of this list; list from the start")
    start = 0 if cursor is None else starts[cursor]
    end = start + ITEMS_MAX
    return items[start:end], f"{names}-{end}" if end < len(items) else None
