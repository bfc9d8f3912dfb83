"""sheets: each tool is a module with Params, run and, where it is known, Result.

get_all_rows: All rows of a sheet.
admin_tools_list: List what administrators may do.
update_rows: Change rows.
"""

__all__ = [
    "admin_tools_list",
    "get_all_rows",
    "update_rows",
]
