# pyright: basic, reportMissingImports=false
"""fastmcp's CodeMode over stdio, or over HTTP without sessions, in front of other stdio servers.

`codemode_server.py COMMAND ARGUMENT...`: one server, called as often as code likes. `codemode_server.py --config FILE`:
the `mcpServers` of the file, each mounted under its name, with all of CodeMode's settings as they come. A proxy of a
whole file starts servers anew for each call; one proxy a server keeps it. `--http PORT` before either: over HTTP.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy

command, *arguments = sys.argv[1:]
port = 0
if command == "--http":
    port, command, *arguments = int(arguments[0]), *arguments[1:]
if command == "--config":
    server = FastMCP("bench")
    for name, entry in json.loads(Path(arguments[0]).read_text(encoding="utf-8"))["mcpServers"].items():
        server.mount(create_proxy({"mcpServers": {name: entry}}, name=name), namespace=name)
    server.add_transform(CodeMode())
else:
    server = create_proxy({"mcpServers": {"bench": {"command": command, "args": arguments}}}, name="bench")
    server.add_transform(CodeMode(max_tool_calls=None))

if __name__ == "__main__":
    if port:
        options = {"stateless_http": True, "json_response": True, "log_level": "error"}
        server.run(transport="http", host="127.0.0.1", port=port, show_banner=False, **options)
    else:
        server.run(transport="stdio", show_banner=False)
