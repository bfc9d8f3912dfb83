# pyright: basic, reportMissingImports=false
"""fastmcp's CodeMode over stdio in front of one other stdio server: `python codemode_server.py COMMAND ARGUMENT...`."""

from __future__ import annotations

import sys

from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy

command, *arguments = sys.argv[1:]
server = create_proxy({"mcpServers": {"bench": {"command": command, "args": arguments}}}, name="bench")
server.add_transform(CodeMode(max_tool_calls=None))

if __name__ == "__main__":
    server.run(transport="stdio", show_banner=False)
