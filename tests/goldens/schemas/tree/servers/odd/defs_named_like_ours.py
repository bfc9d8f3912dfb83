"""Tool "defs_named_like_ours" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class Params(TypedDict):
    x: NotRequired[int]


class Result(TypedDict):
    y: NotRequired[str]
    z: NotRequired[Params]


class Model2(TypedDict):
    x: NotRequired[str]


class Any2(TypedDict):
    q: NotRequired[str]


class DefsNamedLikeOursInput(TypedDict):
    p: Params
    r: NotRequired[Result]
    m: NotRequired[Model2]
    a: NotRequired[Any2]


async def defs_named_like_ours(
    arguments: DefsNamedLikeOursInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[Any]:
    """The defs_named_like_ours case.

    Arguments, in one dict or as keywords:
        p (Params)
        r (Result, optional)
        m (Model2, optional)
        a (Any2, optional)

    Objects, as dicts (? marks members that may be left out):
        Params: {x?: int}
        Result: {y?: str, z?: Params}
        Model2: {x?: str}
        Any2: {q?: str}
    """
    return await call_tool(server_id="odd", name="defs_named_like_ours", arguments=pack(arguments, kwargs))


def defs_named_like_ours_sync(
    arguments: DefsNamedLikeOursInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[Any]:
    """`defs_named_like_ours` without `await`."""
    return call_tool_sync(server_id="odd", name="defs_named_like_ours", arguments=pack(arguments, kwargs))
