"""MCP servers as Python packages.

google_drive: Google Drive, 1 tool
sheets: sheets, 3 tools
"""

from client.packages import open_servers

__all__ = ["google_drive", "sheets"]

open_servers(__name__, __all__)
del open_servers
