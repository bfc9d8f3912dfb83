"""The cursors of one paged listing. Pure.

A cursor is opaque and goes back as it came; an empty string is one too, a missing one ends the listing (D-050, D-051).
A server that repeats a cursor or never stops is cut off (D-052).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.broker.upstreams.base import UpstreamProtocolError

if TYPE_CHECKING:
    from moonpool.core.json import JsonValue

PAGE_COUNT_MAX: Final = 1000


class Cursors:
    """Remembers what it gave out."""

    def __init__(self, server_id: str, method: str) -> None:
        self._server_id = server_id
        self._method = method
        self._seen: set[str] = set()
        self._page_count = 0

    def next(self, cursor: JsonValue) -> str | None:
        """The cursor to ask for next, or None at the end; one that is no string counts as the end."""
        self._page_count += 1
        if not isinstance(cursor, str):
            return None
        if cursor in self._seen:
            raise UpstreamProtocolError(self._server_id, f"repeats a cursor of {self._method} and would never end")
        if self._page_count >= PAGE_COUNT_MAX:
            raise UpstreamProtocolError(self._server_id, f"gives more than {PAGE_COUNT_MAX} pages of {self._method}")
        self._seen.add(cursor)
        return cursor
