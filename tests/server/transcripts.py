"""Whole conversations on stdio, line by line, as files under `goldens/`.

`python -m server.transcripts FOLDER`, started in `tests`, writes them anew; FOLDER is a place to work in.

What differs from run to run (ids, digests, durations, versions) is replaced by a word.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from apps import fixture_server
from server.raw_client import RawClient

GOLDENS = Path(__file__).with_name("goldens")
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
ALL = (*VERSIONS, MODERN)
_VOLATILE = {
    "run_id": "RUN",
    "trace_id": "TRACE",
    "sandbox_image": "IMAGE",
    "duration_ms": 0,
    "tool_version": "VERSION",
    "version": "VERSION",
    "metrics": "METRICS",
    "stderr": "TRACEBACK",  # differs between Python versions
}


def make_config(folder: Path) -> Path:
    """Write a configuration with the two servers that the conversations call."""
    allow = ["get_*", "convert_*", "git_log", "git_status"]
    servers = {name: fixture_server("stand_in.py", name, allow=allow) for name in ("time", "git")}
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


def conversation(version: str) -> list[Any]:
    """What the client says. A list is a batch."""
    client = {"name": "transcript", "version": "1.0"}
    handshake = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in handshake.items()}
    meta["io.modelcontextprotocol/clientCapabilities"] = meta.pop("io.modelcontextprotocol/capabilities")
    time_code = "import servers.time as t\nresult = (await t.get_current_time(timezone='UTC'))['timezone']"
    git_code = (
        "import servers.git as g\nlog = await g.git_log(repo_path='REPOSITORY')\n"
        "print(len(log['result'] if 'result' in log else log.data) > 0)\nresult = 'first' in str(log.data)"
    )
    greetings: list[Any] = [
        {"id": 1, "method": "initialize", "params": handshake},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "ping"},
    ]
    calls: list[Any] = [
        {"id": "three", "method": "tools/list"},
        {"id": 4, "method": "prompts/list"},
        _tool(5, "search_tools", queries=["current time of a zone", "git commit history"], limit=1),
        _tool(6, "get_tool_definition", paths=["servers.time.get_current_time"]),
        _tool(7, "execute_code", code=time_code),
        _tool(8, "execute_code", code=git_code),
        _tool(9, "execute_code", code="1 / 0"),
        _tool(10, "execute_code", cod="1"),
        _tool(11, "execute"),
        {"id": 12, "method": "no/such"},
        {"id": 13, "method": "tools/list", "params": {"cursor": "page 2"}},
    ]
    batches: list[Any] = [
        [
            {"id": 14, "method": "ping"},
            {"method": "notifications/cancelled", "params": {"requestId": 1}},
            _tool(15, "x"),
        ],
        [{"id": 16, "method": "initialize", "params": handshake}, {"id": None, "method": "ping"}],
        [],
    ]
    if version == MODERN:  # no handshake, no ping, no batch: what a request needs is in it
        discover = {"id": 1, "method": "server/discover"}
        other = {**meta, "io.modelcontextprotocol/protocolVersion": "1999-01-01"}
        strange: list[Any] = [
            {"id": 14, "method": "tools/list", "params": {"_meta": other}},
            {"id": 15, "method": "tools/list"},
        ]
        calls = [{**one, "params": {**one.get("params", {}), "_meta": meta}} for one in (discover, *calls)] + strange
    else:
        calls = [*greetings, *calls, *batches]
    return [[_versioned(one) for one in call] if isinstance(call, list) else _versioned(call) for call in calls]


def play(version: str, config: Path) -> list[str]:
    """Have the conversation; return it, `> ` before what the client says and `< ` before what it hears."""
    lines: list[str] = []
    with RawClient(config, MOONPOOL_LEARN="off") as client:
        for message in conversation(version):
            client.send(message)
            lines.append("> " + line_of(message))
            if isinstance(message, list) or "id" in message:
                lines.append("< " + line_of(_sorted(client.receive())))
        assert client.close() == 0
        assert client.rest() == []
    return lines


def _tool(request_id: int, name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": request_id, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def _versioned(message: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **message}


def _sorted(answer: Any) -> Any:
    """Answers of a batch may come in any order."""
    return sorted(answer, key=lambda one: str(one["id"])) if isinstance(answer, list) else answer


def line_of(message: Any) -> str:
    """JSON without what differs from run to run."""
    text = json.dumps(_settled(message), ensure_ascii=False)
    return re.sub(r"sha256:[0-9a-f]{64}", "sha256:DIGEST", text)


def _settled(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("{"):
        return json.dumps(_settled(json.loads(value)), ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, dict):
        return {key: _VOLATILE.get(key, _settled(item)) for key, item in value.items()}
    return [_settled(item) for item in value] if isinstance(value, list) else value


def main(folder: Path) -> None:
    """Write every transcript anew, working in `folder`."""
    config = make_config(folder)
    for version in ALL:
        path = GOLDENS / f"{version}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(play(version, config)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
