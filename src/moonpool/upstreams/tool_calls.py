"""How one tool call goes over a live connection: plainly, as a task, or as several rounds of server requests and
answers.

What a listing tells about calling (which tools must be called as tasks, which parameters travel as headers) is kept
here. Requests themselves are the connection's (`connection`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from mcp.types import HEADER_MISMATCH

from moonpool.core.manifest import RESERVED_PREFIX
from moonpool.core.phrases import said
from moonpool.upstreams.base import UpstreamProtocolError
from moonpool.upstreams.open_call import OPEN_CALL
from moonpool.upstreams.protocol_version import is_modern
from moonpool.upstreams.resources_and_prompts import ResourcesAndPrompts
from moonpool.upstreams.server_requests import ROUND_COUNT_MAX
from moonpool.upstreams.tasks import REVISION as TASK_REVISION
from moonpool.upstreams.tasks import TaskCall, supports_tasks, tools_that_require_tasks

if TYPE_CHECKING:
    from moonpool.configuration.servers import ServerConfig
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.core.manifest import ServerListing, ToolDefinition
    from moonpool.upstreams.listing import ListingPages
    from moonpool.upstreams.server_requests import PendingServerRequests


class Connection(Protocol):
    """What a call needs of a link."""

    @property
    def protocol_version(self) -> str | None: ...
    async def capabilities(self) -> JsonValue: ...
    async def list_tools(self) -> ServerListing: ...
    async def request(self, method: str, params: JsonObject, *, doing: str, header_map: Any = None) -> JsonObject: ...


class ToolCalls:
    """The calls of one connection."""

    def __init__(self, config: ServerConfig, connection: Connection, server_requests: PendingServerRequests) -> None:
        self._config, self._connection, self._server_requests = config, connection, server_requests
        self._resources_and_prompts = ResourcesAndPrompts(config.server_id, self._ask)
        self._task_tools: frozenset[str] | None = None
        self._header_maps: dict[str, Any] = {}

    async def call(self, name: str, arguments: JsonObject) -> JsonObject:
        """The raw CallToolResult, or the result of a reserved tool as one. Raises UpstreamError."""
        if name.startswith(RESERVED_PREFIX):
            return await self._resources_and_prompts.call(name, arguments, await self._connection.capabilities())
        try:
            return await self._call(name, arguments)
        except UpstreamProtocolError as exc:
            if exc.rpc_code != HEADER_MISMATCH or not is_modern(self._connection.protocol_version):
                raise
        await self._connection.list_tools()  # it was refused before it ran: our header map is missing or stale
        return await self._call(name, arguments)

    async def offered(self) -> tuple[ToolDefinition, ...]:
        """The server's resources and prompts, as tools of reserved names."""
        return await self._resources_and_prompts.present(await self._connection.capabilities())

    def learn(self, pages: ListingPages) -> None:
        """Keep what the listing tells about calling."""
        if is_modern(self._connection.protocol_version):
            self._keep_header_maps(pages)
        self._task_tools = tools_that_require_tasks(pages.tools)

    async def _call(self, name: str, arguments: JsonObject) -> JsonObject:
        params: JsonObject = {"name": name, "arguments": arguments}
        if self._config.tasks and await self._requires_task(name):
            return await TaskCall(self._config.server_id, self._send_plain).result(params)
        return await self._ask("tools/call", params, doing=name, header_map=self._header_maps.get(name))

    async def _send_plain(self, method: str, params: JsonObject) -> JsonObject:
        return await self._connection.request(method, params, doing=method)

    async def _requires_task(self, name: str) -> bool:
        """Whether a tool has to be called as a task. The listing that told may be from the cache: then ask for it."""
        if self._connection.protocol_version != TASK_REVISION:
            return False
        if not supports_tasks(await self._connection.capabilities()):
            return False
        if self._task_tools is None:
            await self._connection.list_tools()
        return name in (self._task_tools or ())

    async def _ask(self, method: str, params: JsonObject, *, doing: str = "", header_map: Any = None) -> JsonObject:
        """Send, and send again with the answers as long as the server asks for input that can be given.

        SPEC: the request is repeated as it was, with a new id; its state goes back untouched and to no other request.
        """
        more: JsonObject | None = {}
        result: JsonObject = {}
        for _ in range(ROUND_COUNT_MAX):
            result = await self._connection.request(
                method, {**params, **more}, doing=doing or method, header_map=header_map
            )
            if result.get("resultType") != "input_required" or not is_modern(self._connection.protocol_version):
                break
            more = await self._server_requests.input_responses(result, OPEN_CALL.get())
            if more is None:
                break
        return result

    def _keep_header_maps(self, pages: ListingPages) -> None:
        """SPEC: a 2026-07-28 client must drop tools whose `x-mcp-header` annotations are invalid."""
        self._header_maps.clear()
        for tool in pages.tools:
            if (reason := find_invalid_x_mcp_header(tool.input_schema)) is not None:
                pages.drop(tool.name, f"invalid x-mcp-header: {said(reason, 200)}")
            else:
                self._header_maps[tool.name] = x_mcp_header_map(tool.input_schema)
