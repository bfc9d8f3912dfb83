"""class: 2 tools of the server "class".

import servers.class_; await servers.class_.<tool>(...), or <tool>_sync(...) without await.

get_x_e64bf8: Tool 0.
get_x: Tool 1.
"""

from client.packages import open_server

__all__ = ["get_x", "get_x_e64bf8", "get_x_e64bf8_sync", "get_x_sync"]

open_server(__name__, {
    "get_x_e64bf8": ("get_x_e64bf8", "get_x_e64bf8_sync"),
    "get_x": ("get_x", "get_x_sync"),
})
del open_server  # a tool may be called that
