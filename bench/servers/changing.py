"""A server whose tool `change` adds a tool with the name it is given, and says so after its answer."""

from __future__ import annotations

import json
import sys
from typing import Any

_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
_TOOLS = [{"name": "change", "description": "Add a tool.", "inputSchema": _SCHEMA}]


def _result(request: dict[str, Any]) -> dict[str, Any] | None:
    match request["method"]:
        case "initialize":
            capabilities = {"tools": {"listChanged": True}}
            about = {"name": "changing", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": about}
        case "tools/list":
            return {"tools": _TOOLS}
        case "tools/call":
            _TOOLS.append({"name": request["params"]["arguments"]["name"], "inputSchema": _SCHEMA})
            return {"content": [{"type": "text", "text": "changed"}]}
        case _:
            return None


def _send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        if (answer := _result(asked)) is None:
            _send(id=asked["id"], error={"code": -32601, "message": "not here"})
            continue
        _send(id=asked["id"], result=answer)
        if asked["method"] == "tools/call":
            _send(method="notifications/tools/list_changed")
