"""The MCP server `ipybox`, whose tools stand for shell commands that a kernel is about to run. It runs none.

A kernel that asks about its commands calls a tool before each; whoever may answer for tool calls answers, and an
accepted call comes here. On standard streams, started as a file of its own without Moonpool.
"""

import json
import sys

NAME = "ipybox"
_CMD = {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}
_TOOLS = [
    {"name": "shell", "description": "Run a shell command in the kernel's sandbox (`!cmd`).", "inputSchema": _CMD},
    {"name": "shell_magic", "description": "Run a cell as a script there (`%%bash`).", "inputSchema": _CMD},
]


def answer(method: str, params: dict[str, object]) -> dict[str, object] | None:
    """The result of a request; None: there is no such method."""
    match method:
        case "initialize":
            return {
                "protocolVersion": params.get("protocolVersion"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": NAME, "version": "1"},
            }
        case "tools/list":
            return {"tools": _TOOLS}
        case "tools/call":
            return {"content": []}
        case "ping":
            return {}
        case _:
            return None


def main() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request.get("method", ""), request.get("params") or {})
        said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **said}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
