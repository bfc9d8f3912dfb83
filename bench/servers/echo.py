"""The server that tool calls are measured with: two tools that answer with the number after the one given.

It writes a line to $BENCH_STARTED, if set, when it starts, so that a benchmark can prove that it was not started.
$BENCH_ONLY names the one tool to offer; $BENCH_EXTRA_TOOLS is a file with a JSON array of further tools, which are
listed and never called.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import mcp.types as t
from mcp.server import Server
from mcp.server.stdio import stdio_server

_NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
TOOLS = [
    t.Tool(
        name=name,
        description=f"Answer with the next number ({name}).",
        input_schema=_NUMBER,
        output_schema=_NUMBER,
        annotations=t.ToolAnnotations(read_only_hint=reads, destructive_hint=not reads, open_world_hint=False),
    )
    for name, reads in (("read_only", True), ("writing", False))
    if os.environ.get("BENCH_ONLY", name) == name
]
if extra := os.environ.get("BENCH_EXTRA_TOOLS"):
    TOOLS.extend(t.Tool.model_validate(raw) for raw in json.loads(Path(extra).read_text(encoding="utf-8")))


async def _list(_ctx: Any, _params: Any) -> t.ListToolsResult:
    return t.ListToolsResult(tools=TOOLS)


async def _call(_ctx: Any, params: Any) -> t.CallToolResult:
    assert params.name in {"read_only", "writing"}, params.name
    answer = {"n": params.arguments["n"] + 1}
    return t.CallToolResult(content=[t.TextContent(text=json.dumps(answer))], structured_content=answer)


async def _serve() -> None:
    server = Server("bench", version="1.0", on_list_tools=_list, on_call_tool=_call)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    if started := os.environ.get("BENCH_STARTED"):
        with Path(started).open("a", encoding="utf-8") as marks:
            marks.write("started\n")
    anyio.run(_serve)
