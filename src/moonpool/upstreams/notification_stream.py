"""The stream on which an older server over Streamable HTTP sends notifications, observed through the requests for it.

The SDK opens it with a GET, opens it again when it ends, and silently gives up after two refusals in a row: the
connection then answers calls but receives no notifications. A 404 means the same at once, because the server has
forgotten the session (it was restarted).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2


class NotificationStream:
    """One connection's. `lost` is set when a stream that was open cannot be opened again.

    `on_gap` is called when it was opened again and notifications in between are lost.
    """

    def __init__(self, on_gap: Callable[[], None]) -> None:
        self.lost = anyio.Event()
        self._on_gap = on_gap
        self._was_open = False

    def note(self, request: httpx2.Request, response: httpx2.Response) -> None:
        """Look at any request of the connection and how it was answered."""
        if request.method != "GET" or "mcp-session-id" not in request.headers:
            return
        if not response.is_success:
            if self._was_open:  # else the server has no such stream, which is allowed
                self.lost.set()
        elif self._was_open and "last-event-id" not in request.headers:
            self._on_gap()
        else:
            self._was_open = True
