"""`MCPClient`, where ipybox 0.7 had it."""

from moonpool.ipybox.client import MCPClient

__all__ = ["MCPClient"]
