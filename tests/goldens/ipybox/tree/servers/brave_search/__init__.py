"""Brave Search: 1 tool of the server "brave_search".

import servers.brave_search; await servers.brave_search.<tool>(...), or <tool>_sync(...) without await.

brave_image_search: Search the web for images.
"""

from client.packages import open_server

__all__ = ["brave_image_search", "brave_image_search_sync"]

open_server(__name__, {"brave_image_search": ("brave_image_search", "brave_image_search_sync")})
del open_server  # a tool may be called that
