"""MCP servers as Python packages.

odd: Odd schemas, 28 tools
"""

from client.packages import open_servers

__all__ = ["odd"]

open_servers(__name__, __all__)
del open_servers
