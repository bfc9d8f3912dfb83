"""class: each tool is a module with Params, run and, where it is known, Result.

get_x_e64bf8: Tool 0.
get_x: Tool 1.
"""

__all__ = [
    "get_x",
    "get_x_e64bf8",
]
