"""The cursors of one paged listing. Pure.

A cursor is opaque and goes back as it came; an empty string is one too, a missing one ends the listing (D-050, D-051).
A server that repeats a cursor or never stops is cut off (D-052), and all pages together are bounded like one message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from moonpool.net.message_limits import RESULT_BYTES_MAX, too_large
from moonpool.upstreams.base import UpstreamProtocolError, UpstreamResultTooLargeError

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject

PAGE_COUNT_MAX: Final = 1000


class Cursors:
    """Remembers what it gave out."""

    def __init__(self, server_id: str, method: str, *, bytes_max: int = RESULT_BYTES_MAX) -> None:
        self._server_id, self._bytes_max = server_id, bytes_max
        self._method = method
        self._seen: set[str] = set()
        self._page_count = self._bytes = 0

    def next(self, page: JsonObject) -> str | None:
        """The cursor to ask for after `page`, or None at the end; one that is no string counts as the end."""
        self._page_count += 1
        self._bytes += _size(page)
        if self._bytes > self._bytes_max:
            problem = f"answered {self._method} with {too_large(self._bytes_max)} in all"
            raise UpstreamResultTooLargeError(self._server_id, problem, for_guest=problem)
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str):
            return None
        if cursor in self._seen:
            raise UpstreamProtocolError(self._server_id, f"repeats a cursor of {self._method} and would never end")
        if self._page_count >= PAGE_COUNT_MAX:
            raise UpstreamProtocolError(self._server_id, f"gives more than {PAGE_COUNT_MAX} pages of {self._method}")
        self._seen.add(cursor)
        return cursor


def _size(page: JsonObject) -> int:
    try:
        return len(msgspec.json.encode(page))
    except (ValueError, TypeError, RecursionError):  # what no JSON text can carry; `results` refuses that elsewhere
        return RESULT_BYTES_MAX
