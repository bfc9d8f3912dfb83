"""Tool "defs_named_like_ours" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class Params2(Model):
    x: int | None = None


class Result2(Model):
    y: str | None = None
    z: Params2 | None = None


class Model2(Model):
    x: str | None = None


class Any2(Model):
    q: str | None = None


class Params(Model):
    p: Params2
    r: Result2 | None = None
    m: Model2 | None = None
    a: Any2 | None = None


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """The defs_named_like_ours case.

    Returns the tool's text. Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="odd",
        name="defs_named_like_ours",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """`run` for `await`."""
    return await run_tool(
        server_id="odd",
        name="defs_named_like_ours",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


__getattr__ = extension(__name__)
