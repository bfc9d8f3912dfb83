"""mcp-time: 2 tools of the server "time".

import servers.time; await servers.time.<tool>(...), or <tool>_sync(...) without await.

get_current_time: Get current time in a specific timezone
convert_time: Convert time between timezones
"""

from client.packages import open_server

__all__ = ["convert_time", "convert_time_sync", "get_current_time", "get_current_time_sync"]

open_server(__name__, {
    "get_current_time": ("get_current_time", "get_current_time_sync"),
    "convert_time": ("convert_time", "convert_time_sync"),
})
del open_server  # a tool may be called that
