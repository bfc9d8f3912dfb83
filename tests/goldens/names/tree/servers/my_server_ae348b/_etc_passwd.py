"""Tool "../../etc/passwd" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class EtcPasswdInput(TypedDict):
    value: NotRequired[str]


async def _etc_passwd(arguments: EtcPasswdInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 30.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="../../etc/passwd", arguments=pack(arguments, kwargs))


def _etc_passwd_sync(arguments: EtcPasswdInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`_etc_passwd` without `await`."""
    return call_tool_sync(server_id="my-server", name="../../etc/passwd", arguments=pack(arguments, kwargs))
