"""MCP servers as Python packages.

time: mcp-time, 2 tools
"""

from client.packages import open_servers

__all__ = ["time"]

open_servers(__name__, __all__)
del open_servers
