"""A bug in a handler is one error without its text; the log has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import Client, MCPError

from moonpool.server.mcp.server import build_server
from moonpool.server.mcp.tool_set import offer_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio
PRIVATE = "/home/ada/.secret and the line that failed"


class Broken:
    """Tools and resources of which nothing works."""

    offer, tracing = offer_of("tools", "base"), None

    @property
    def resources(self) -> Any:
        return self

    def list_tools(self) -> Any:
        raise RuntimeError(PRIVATE)

    def listed(self) -> Any:
        raise RuntimeError(PRIVATE)

    async def read(self, uri: str) -> Any:
        raise RuntimeError(PRIVATE + uri)

    async def call(self, *_: Any) -> Any:
        raise RuntimeError(PRIVATE)

    def prepare(self) -> None: ...
    async def instructions(self) -> str:
        return ""

    def instructions_now(self) -> str:
        return ""


CALLS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "tools/list": lambda client: client.list_tools(),
    "tools/call": lambda client: client.call_tool("search_tools", {"queries": ["x"]}),
    "resources/list": lambda client: client.list_resources(),
    "resources/read": lambda client: client.read_resource("moonpool://s/a"),
}


@pytest.mark.req("A-017", "A-062", "C-022", "C-038")
@pytest.mark.parametrize("method", CALLS)
async def test_a_bug_is_answered_without_a_word_of_it(method: str, caplog: pytest.LogCaptureFixture) -> None:
    with anyio.fail_after(30):
        async with Client(build_server(Broken()), mode="legacy") as client:  # pyright: ignore[reportArgumentType]
            with pytest.raises(MCPError) as caught:
                await CALLS[method](client)

    assert (caught.value.error.code, PRIVATE in str(caught.value.error)) == (-32603, False)
    assert PRIVATE in caplog.text
