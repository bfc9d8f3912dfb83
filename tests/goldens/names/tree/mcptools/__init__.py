"""MCP tools as Python modules: mcptools.<server>.<tool> with Params, Result and run."""

__all__ = [
    "my_server_ae348b",
    "my_server",
    "class_",
    "_9lives",
    "_up",
    "servers",
    "client",
    "_e3b0c4",
]
