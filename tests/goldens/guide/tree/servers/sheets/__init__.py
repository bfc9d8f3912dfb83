"""sheets: 3 tools of the server "sheets".

import servers.sheets; await servers.sheets.<tool>(...), or <tool>_sync(...) without await.

get_all_rows: All rows of a sheet.
admin_tools_list: List what administrators may do.
update_rows: Change rows.
"""

from client.packages import open_server

__all__ = [
    "admin_tools_list",
    "admin_tools_list_sync",
    "get_all_rows",
    "get_all_rows_sync",
    "update_rows",
    "update_rows_sync",
]

open_server(__name__, {
    "get_all_rows": ("get_all_rows", "get_all_rows_sync"),
    "admin_tools_list": ("admin_tools_list", "admin_tools_list_sync"),
    "update_rows": ("update_rows", "update_rows_sync"),
})
del open_server  # a tool may be called that
