"""mcp-time: each tool is a module with Params, run and, where it is known, Result.

get_current_time: Get current time in a specific timezone
convert_time: Convert time between timezones
"""

__all__ = [
    "convert_time",
    "get_current_time",
]
