"""A server whose tool `change` adds a tool with the name it is given: `python changing.py HOW`.

HOW it becomes known: `list_changed` (2025-11-25, a notification after the answer), `listen` (2026-07-28, on the stream
that the client opened) or `refresh` (2025-11-25, never said).
"""

from __future__ import annotations

import json
import sys
from typing import Any

_HOW = sys.argv[1]
_MODERN = _HOW == "listen"
_CAPABILITIES = {"tools": {} if _HOW == "refresh" else {"listChanged": True}}
_ABOUT = {"name": "changing", "version": "1"}
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
_TOOLS = [{"name": "change", "description": "Add a tool.", "inputSchema": _SCHEMA}]
_listening: list[Any] = []


def _result(request: dict[str, Any]) -> dict[str, Any] | None:
    match request["method"]:
        case "server/discover" if _MODERN:
            return {"supportedVersions": ["2026-07-28"], "capabilities": _CAPABILITIES, "serverInfo": _ABOUT}
        case "initialize" if not _MODERN:
            return {"protocolVersion": "2025-11-25", "capabilities": _CAPABILITIES, "serverInfo": _ABOUT}
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


def _listen(request: dict[str, Any]) -> None:
    _listening.append(request["id"])
    params = {"notifications": request["params"]["notifications"], "_meta": {_SUBSCRIPTION: request["id"]}}
    _send(method="notifications/subscriptions/acknowledged", params=params)


def _announce() -> None:
    if _HOW == "list_changed":
        _send(method="notifications/tools/list_changed")
    for number in _listening:
        _send(method="notifications/tools/list_changed", params={"_meta": {_SUBSCRIPTION: number}})


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        if asked.get("method") == "subscriptions/listen" and _MODERN:
            _listen(asked)
            continue
        if (answer := _result(asked)) is None:
            _send(id=asked["id"], error={"code": -32601, "message": "not here"})
            continue
        _send(id=asked["id"], result={**answer, **({"resultType": "complete"} if _MODERN else {})})
        if asked["method"] == "tools/call":
            _announce()
