"""Tool "odd_enums" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class Words(StrEnum):
    v_ = ""
    v__created = "-created"
    created = "created"
    class_ = "class"
    mro_ = "mro"
    name_ = "name"
    value_ = "value"
    v_2fa = "2fa"
    a_b = "a b"
    A = "A"
    a = "a"
    v___x__ = "__x__"
    v__y_ = "_y_"
    quote_ = 'quote"'
    new_line = "new\nline"
    v____ = "'''"


class Params(Model):
    mixed: str | int | bool | float | None = None
    ints: Literal[1, 2] | None = None
    flags: Literal[True, 1, "1"] | None = None
    words: Words | str | None = None
    one: Literal["only"] | None = None
    object: dict[str, Any] | None = None
    none: Any = None
    null: None = None
    many: str | None = None


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """The odd_enums case.

    Returns the tool's text. Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="odd",
        name="odd_enums",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """`run` for `await`."""
    return await run_tool(
        server_id="odd",
        name="odd_enums",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


__getattr__ = extension(__name__)
