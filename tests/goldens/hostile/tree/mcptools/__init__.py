"""MCP tools as Python modules: mcptools.<server>.<tool> with Params, Result and run."""

__all__ = [
    "hostile",
]
