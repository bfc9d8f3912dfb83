"""The profile `codegen` as transports serve it: the SDK's server of one connection over the table of tools."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, cast

import mcp_types as types
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import NotificationOptions
from mcp.shared.exceptions import MCPError

from moonpool.catalog.render import one_line
from moonpool.core.errors import MoonpoolError, told
from moonpool.features.storage.model import TreeName
from moonpool.server.mcp.codegen.scrubbing import scrubbed
from moonpool.server.mcp.codegen.tool_table import PROFILE, TOOLS
from moonpool.server.mcp.codegen.workspace import ToolError, Workspace, thread_of
from moonpool.server.mcp.direct.shown import shown_tool
from moonpool.server.mcp.direct.watching import connection_of
from moonpool.server.mcp.request_spans import traced
from moonpool.server.mcp.sandbox_services import services_of
from moonpool.server.mcp.server import hide_bugs

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.server.mcp.client_requests import Bindings
    from moonpool.server.mcp.sandbox_services import CallerSetup, SandboxApp

    Context = ServerRequestContext[Any, Any]

_NAME: Final = "codegen-sandbox"
_VERSION: Final = "0.1.0"
_TOLD: Final = "moonpool.codegen_tools"
_COMPLETE: Final[dict[str, JsonValue]] = {"resultType": "complete"}
"""Left out again where the revision does not have it."""
_log = logging.getLogger(__name__)


class CodegenServer(Server[Any]):
    """A server that tells when its tools change, and has no more to say of itself than its clients expect."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        told_changes = NotificationOptions(tools_changed=True)
        return super().create_initialization_options(notification_options or told_changes, *args, **kwargs)


class CodegenTools:
    """The profile's tools for one caller (`server.mcp.server.OwnServer`)."""

    def __init__(self, app: SandboxApp, bindings: Bindings) -> None:
        """Raises ProfileUnavailableError."""
        self._services = services_of(app, PROFILE)
        self._grant = bindings.caller_grant(app.caller_grant)
        self._redactor, self._tracing = app.runtime.redactor, app.runtime.tracing
        self._calls = 0

    def make_server(self) -> Server[Any]:
        """The SDK's server, for one transport or several."""
        server = CodegenServer(
            _NAME,
            version=_VERSION,
            on_list_tools=self._list_tools,
            get_tool_input_schema=_nothing_in_headers,
            cache_hints={"tools/list": CacheHint(ttl_ms=0, scope="private")},
        )
        server.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)
        server.middleware[:] = [scrubbed(self._redactor), traced(self._tracing, TOOLS), hide_bugs, _as_ever]
        return server

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "Invalid cursor: there is one page, and none was given out")
        offered = _offered(await self._services.setup(self._grant))
        connection_of(ctx).state[_TOLD] = offered
        shown = [shown_tool(TOOLS[name].definition, name, ctx.protocol_version) for name in offered]
        return types.ListToolsResult.model_validate({"tools": shown})

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> JsonObject:
        setup = await self._services.setup(self._grant)
        offered = _offered(setup)
        await _tell_changes(ctx, offered)
        if params.name not in offered:
            raise MCPError(types.INVALID_PARAMS, f"tool '{one_line(params.name, 100)}' not found: tool not found")
        owner = setup.owner
        thread = TreeName(kind="thread", name=thread_of(owner.principal, setup.workspace), owner=owner.thread_owner)
        workspace = Workspace(thread=thread, trees=self._services.trees, redactor=self._redactor)
        self._calls += 1
        try:
            text = await TOOLS[params.name].work(workspace, cast("JsonObject", params.arguments or {}))
        except ToolError as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True, **_COMPLETE}
        except MoonpoolError as error:
            _log.warning("a call of the profile %s failed: %s", PROFILE, error)
            raise MCPError(types.INTERNAL_ERROR, told(error, hides_host=self._grant.hides_host)) from None
        finally:
            self._calls -= 1
        return {"content": [{"type": "text", "text": text}], **_COMPLETE}

    # --- what a transport needs of every profile

    @property
    def is_busy(self) -> bool:
        """Whether a tool works."""
        return self._calls > 0

    def prepare(self) -> None:
        """Nothing: a tree is read when a tool asks for it."""

    async def instructions(self) -> str:
        """None: the answer to the handshake is fixed."""
        return ""

    def instructions_now(self) -> str:
        """The same."""
        return ""

    def leave(self) -> int:
        """See `ServedProfile`; no call goes on without its request."""
        return 0

    async def wait_spared(self) -> None:
        """Nothing is spared."""

    async def close(self) -> None:
        """Nothing stays open between calls."""


async def _as_ever(ctx: Context, call_next: CallNext) -> HandlerResult:
    """The answer to the handshake in the order of members that clients of this server have always seen."""
    result = await call_next(ctx)
    if ctx.method != "initialize" or not isinstance(result, dict):
        return result
    return {name: result[name] for name in ("protocolVersion", "capabilities", "serverInfo")}


def _offered(setup: CallerSetup) -> tuple[str, ...]:
    return tuple(name for name in TOOLS if name not in setup.tools_off)


async def _tell_changes(ctx: Context, offered: tuple[str, ...]) -> None:
    """Tell a client that what it was listed is not so any more, once, when it next calls a tool (X-08)."""
    state = connection_of(ctx).state
    if state.get(_TOLD, offered) != offered:
        state[_TOLD] = offered
        await ctx.session.send_tool_list_changed()


def _nothing_in_headers(name: str) -> None:
    """No schema here names a header that repeats an argument."""
    del name
