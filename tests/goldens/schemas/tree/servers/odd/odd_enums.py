"""Tool "odd_enums" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class OddEnumsInput(TypedDict):
    mixed: NotRequired[str | int | bool | float | None]
    ints: NotRequired[Literal[1, 2]]
    flags: NotRequired[Literal[True, 1, "1"]]
    words: NotRequired[Literal["", "-created", "created", "class", "mro", "name", "value", "2fa", "a b", "A", "a", "__x__", "_y_", 'quote"', "new\nline", "'''"]]
    one: NotRequired[Literal["only"]]
    object: NotRequired[dict[str, Any]]
    none: NotRequired[Any]
    null: NotRequired[None]
    many: NotRequired[str]


async def odd_enums(arguments: OddEnumsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The odd_enums case.

    Arguments, in one dict or as keywords:
        mixed (str | int | bool | float | None, optional)
        ints (Literal[1, 2], optional)
        flags (Literal[True, 1, "1"], optional)
        words (Literal["", "-created", "created", "class", "mro", "name", "value", "2fa", "a b", "A", "a",
            "__x__", "_y_", 'quote"', "new\\nline", "'''"], optional)
        one (Literal["only"], optional)
        object (dict[str, Any], optional)
        none (Any, optional)
        null (None, optional)
        many (str, optional)
    """
    return await call_tool(server_id="odd", name="odd_enums", arguments=pack(arguments, kwargs))


def odd_enums_sync(arguments: OddEnumsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`odd_enums` without `await`."""
    return call_tool_sync(server_id="odd", name="odd_enums", arguments=pack(arguments, kwargs))
