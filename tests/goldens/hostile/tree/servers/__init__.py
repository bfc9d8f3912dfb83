"""MCP servers as Python packages.

hostile: \"\"\" import os; os.abort() \"\"\"\\, 4 tools
"""

from client.packages import open_servers

__all__ = ["hostile"]

open_servers(__name__, __all__)
del open_servers
