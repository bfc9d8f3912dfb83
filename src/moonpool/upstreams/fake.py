"""An upstream in memory: the same contract without a server, for tests of everything above.

`tests/upstreams/test_upstream_contract.py` holds it to what the real ones do.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

import anyio

from moonpool.core.manifest import ServerListing
from moonpool.upstreams.base import UpstreamCallTimeoutError, UpstreamProtocolError
from moonpool.upstreams.listing import ListingPages
from moonpool.upstreams.resources_and_prompts import READ_RESOURCE, offered_tools
from moonpool.upstreams.results import check_result
from moonpool.upstreams.root_folders import RootFolders
from moonpool.upstreams.subscription_tools import OBSERVING, Observing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from moonpool.core.json import JsonObject

    Behaviour = Callable[[JsonObject], Awaitable[JsonObject]]

REVISION: Final = "2026-07-28"


class FakeUpstream:
    """Serves `tools` (raw definitions by name, with what each does) and records every call in `calls`.

    A behaviour may raise an UpstreamError of its choice, wait, or return any object as CallToolResult.
    """

    def __init__(
        self,
        server_id: str,
        tools: Mapping[str, tuple[JsonObject, Behaviour]],
        *,
        resources: Mapping[str, str] | None = None,
    ) -> None:
        self.server_id = server_id
        self.calls: list[tuple[str, JsonObject]] = []
        self.tools = dict(tools)
        self.resources = None if resources is None else dict(resources)  # texts by address
        self.roots = RootFolders(server_id)
        self.observing = Observing(server_id, self._ask_for)

    @property
    def protocol_version(self) -> str | None:
        return REVISION

    async def list_tools(self) -> ServerListing:
        await anyio.lowlevel.checkpoint()
        pages = ListingPages(self.server_id)
        pages.add({"tools": [copy.deepcopy(raw) for raw, _ in self.tools.values()]})
        return ServerListing(
            server_id=self.server_id,
            tools=(*pages.tools, *offered_tools(self.server_id, self._capabilities)),
            name=self.server_id,
            protocol_version=REVISION,
            warnings=pages.warnings,
        )

    async def call_tool(self, name: str, arguments: JsonObject, *, timeout_s: float) -> JsonObject:
        if name in OBSERVING and self.resources is not None:
            return await self.observing.call(name, arguments, timeout_s=timeout_s)
        if name == READ_RESOURCE and str(arguments.get("uri")) in (self.resources or {}):
            uri = str(arguments["uri"])
            return {
                "content": [],
                "structuredContent": {"contents": [{"uri": uri, "text": (self.resources or {})[uri]}]},
            }
        if name not in self.tools:
            problem = f"refused {name!r}: Unknown tool (JSON-RPC error -32602)"
            raise UpstreamProtocolError(self.server_id, problem, for_guest=problem)
        self.calls.append((name, copy.deepcopy(arguments)))
        with anyio.move_on_after(timeout_s):
            result = await self.tools[name][1](copy.deepcopy(arguments))
            await anyio.lowlevel.checkpoint()
            return check_result(self.server_id, name, result)
        problem = f"did not answer {name!r} within {timeout_s:g} s and was told to cancel it"
        raise UpstreamCallTimeoutError(self.server_id, problem, for_guest=problem)

    def change(self, uri: str, text: str) -> None:
        """Another content for a resource, told to whoever subscribed to it."""
        assert self.resources is not None
        self.resources[uri] = text
        self.observing.subscriptions.heard(uri)

    def forget_caller(self, caller: str) -> None:
        self.observing.subscriptions.forget(caller)

    @property
    def _capabilities(self) -> JsonObject:
        return {} if self.resources is None else {"resources": {"subscribe": True}}

    async def _ask_for(self, timeout_s: float, doing: str, use: object) -> None:
        """Every subscription is taken."""
        del timeout_s, doing, use
        await anyio.lowlevel.checkpoint()


async def echo(arguments: JsonObject) -> JsonObject:
    """Answer with the arguments as `structuredContent`."""
    return {"content": [], "structuredContent": arguments}
