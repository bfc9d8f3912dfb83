"""Calls MCP tools from inside the sandbox. Generated wrappers stand on this; hand-written code may use it too.

    from client.mcp_client import call_tool
    result = await call_tool(server_id="sheets", name="get_all_rows", arguments={"sheetId": "q"})

A call leaves through the sandbox's one channel to the broker on the host, which decides, calls and records. A failing
tool is a result with `ok == False`, not an exception; see `client.results` for reading results.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from moonpool_guest import toolcalls

from .errors import (
    ApprovalExpired,
    ApprovalRejected,
    ExecutionEnded,
    OutputTooLarge,
    PolicyDenied,
    RateLimit,
    Timeout,
    ToolCallError,
    ToolError,
    ToolPaused,
    ToolRunnerError,
    TransientNetwork,
    UnknownTool,
    UpstreamError,
    ValidationError,
    runner_error_from,
)
from .models import Model, alias, to_wire
from .packages import extension
from .results import ToolCallResult, outcome_of

__all__ = [
    "ApprovalExpired",
    "ApprovalRejected",
    "ExecutionEnded",
    "Model",
    "OutputTooLarge",
    "PolicyDenied",
    "RateLimit",
    "Timeout",
    "ToolCallError",
    "ToolCallResult",
    "ToolError",
    "ToolPaused",
    "ToolRunnerError",
    "TransientNetwork",
    "UnknownTool",
    "UpstreamError",
    "ValidationError",
    "alias",
    "call_tool",
    "call_tool_sync",
    "extension",
    "pack",
    "run_tool",
    "run_tool_sync",
]


async def call_tool(
    *, server_id: str, name: str, arguments: Mapping[str, Any] | Model | None = None
) -> ToolCallResult[Any]:
    """Call a tool by its own name. Never raises for a failing tool."""
    reply = await toolcalls.invoke(server_id, name, pack(arguments, {}))
    return ToolCallResult(reply, f"{server_id}.{name}")


def call_tool_sync(
    *, server_id: str, name: str, arguments: Mapping[str, Any] | Model | None = None
) -> ToolCallResult[Any]:
    """`call_tool` without `await`; works in threads and inside a running event loop too."""
    reply = toolcalls.invoke_sync(server_id, name, pack(arguments, {}))
    return ToolCallResult(reply, f"{server_id}.{name}")


def pack(
    arguments: Mapping[str, Any] | Model | None,
    keywords: dict[str, Any],
    wire_names: Mapping[str, str] | type[Model] | None = None,
) -> dict[str, Any]:
    """The arguments to send: a dict or model as it is, and keywords, which may use Python names for `wire_names`.

    Nothing is added, dropped or converted: no defaults, None stays, unknown names stay.
    """
    names = wire_names or {}
    if isinstance(names, type):
        names = names.__wire_names__
        if (
            arguments is None
            and len(keywords) == 1
            and "params" not in names
            and isinstance(keywords.get("params"), Model)
        ):
            arguments, keywords = keywords["params"], {}  # ipybox's run(params=Params(...))
    packed: Any = {} if arguments is None else to_wire(arguments)
    if not isinstance(packed, dict):
        raise TypeError(f"tool arguments are a dict, a model or keywords, not {type(arguments).__name__}")
    for name, value in keywords.items():
        wire_name = names.get(name, name)
        if wire_name in packed:
            raise TypeError(f"argument {wire_name!r} is given twice")
        packed[wire_name] = to_wire(value)
    return packed  # pyright: ignore[reportUnknownVariableType]


async def run_tool(*, server_id: str, name: str, arguments: dict[str, Any], result: type[Any] = object) -> Any:
    """`call_tool` in ipybox's form: the data as `result`, or ToolRunnerError."""
    return _adapt(await call_tool(server_id=server_id, name=name, arguments=arguments), result)


def run_tool_sync(*, server_id: str, name: str, arguments: dict[str, Any], result: type[Any] = object) -> Any:
    """`run_tool` without `await`."""
    return _adapt(call_tool_sync(server_id=server_id, name=name, arguments=arguments), result)


def _adapt(outcome: ToolCallResult[Any], result: type[Any]) -> Any:
    """A `Result` for an object, text for tools without a result type, else the data."""
    try:
        data = outcome.unwrap()
    except ToolCallError as error:
        raise runner_error_from(error) from error
    if result is str:
        return outcome_of(outcome).text or _text(data)
    if issubclass(result, Model) and isinstance(data, dict):
        return result.model_validate(data)
    return data


def _text(data: Any) -> str:
    if isinstance(data, str):
        return data
    return json.dumps(data, ensure_ascii=False) if data else ""
