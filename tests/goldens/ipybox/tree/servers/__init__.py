"""MCP servers as Python packages.

brave_search: Brave Search, 1 tool
github: github, 1 tool
"""

from client.packages import open_servers

__all__ = ["brave_search", "github"]

open_servers(__name__, __all__)
del open_servers
