"""What a generated package stands on where it is imported outside a sandbox: its calls go to a `ToolServer`.

Which one, `TOOL_SERVER_HOST` and `TOOL_SERVER_PORT` say. `Model` and its like are the sandbox's, so that `Params` and
`Result` are the same on both sides; they are plain Python and do no I/O.
"""

from __future__ import annotations

import json
import os
from typing import Any

from moonpool.ipybox.tool_exec.client import ToolRunner, ToolRunnerError
from moonpool_guest.path.client.mcp_client import pack
from moonpool_guest.path.client.models import Model, alias
from moonpool_guest.path.client.packages import extension

__all__ = ["Model", "ToolRunnerError", "alias", "extension", "pack", "run_tool", "run_tool_sync"]


async def run_tool(*, server_id: str, name: str, arguments: dict[str, Any], result: type[Any] = object) -> Any:
    """The result of a call as `result`. Raises ToolRunnerError."""
    return _shaped(await _runner(server_id).run(name, arguments), result)


def run_tool_sync(*, server_id: str, name: str, arguments: dict[str, Any], result: type[Any] = object) -> Any:
    """`run_tool`, blocking."""
    return _shaped(_runner(server_id).run_sync(name, arguments), result)


def _runner(server_id: str) -> ToolRunner:
    host, port = os.environ.get("TOOL_SERVER_HOST", "localhost"), os.environ.get("TOOL_SERVER_PORT", "8900")
    return ToolRunner(server_id, {}, host=host, port=int(port))


def _shaped(data: Any, result: type[Any]) -> Any:
    if result is str and not isinstance(data, str):
        return json.dumps(data, ensure_ascii=False) if data else ""
    return result.model_validate(data) if issubclass(result, Model) and isinstance(data, dict) else data
