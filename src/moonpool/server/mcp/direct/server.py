"""The SDK's low-level server with the handlers of the profile `direct`.

Handlers take requests apart, make one call, and put the answer together; they decide nothing. What the client gets
verbatim goes past the SDK's models (`verbatim`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

import mcp_types as types
from mcp.server import NotificationOptions, Server
from mcp.server.caching import CacheHint
from mcp.shared.exceptions import MCPError

from moonpool.catalog.render import one_line
from moonpool.core.errors import MoonpoolError
from moonpool.core.phrases import near_names
from moonpool.core.version import VERSION
from moonpool.pipeline.normalisation import result_data
from moonpool.server.mcp.answers import words
from moonpool.server.mcp.connection_calls import InputNeeded
from moonpool.server.mcp.direct.calls import DirectCall, protocol_error, refused
from moonpool.server.mcp.direct.content import linked, messages, resource_contents, tool_result
from moonpool.server.mcp.direct.pages import page_of
from moonpool.server.mcp.direct.shown import shown_prompt, shown_resource, shown_template, shown_tool
from moonpool.server.mcp.direct.verbatim import keep_verbatim, send_verbatim
from moonpool.server.mcp.direct.watching import connection_of
from moonpool.server.mcp.input_rounds import SEALED_FROM, abilities, input_required
from moonpool.server.mcp.request_spans import traced
from moonpool.server.mcp.server import NAME, hide_bugs, instructions_added, progress_report, wants_progress
from moonpool.upstreams.resources_and_prompts import COMPLETE, GET_PROMPT, READ_RESOURCE, SUBSCRIBE, UNSUBSCRIBE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import ServerRequestContext

    from moonpool.core.calls import ToolCallOutcome
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.server.mcp.direct.served import Served

    Context = ServerRequestContext[Any, Any]

COMPLETIONS_MAX: Final = 100
"""SPEC: values in one answer."""
SUBSCRIBED_MAX: Final = 32
"""Resources of one `subscriptions/listen`: as many as one session may subscribe to at a server."""
_LEVEL: Final = "moonpool.log_level"
_NOW: Final = CacheHint(ttl_ms=0, scope="private")


class DirectServer(Server[Any]):
    """A server that tells when its lists change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        told = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(notification_options or told, *args, **kwargs)


def build(tools: Served) -> Server[Any]:
    """The server of one principal."""
    handlers = _Handlers(tools)
    server = DirectServer(
        NAME,
        version=VERSION,
        title="Moonpool",
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_subscribe_resource=handlers.subscribe,
        on_unsubscribe_resource=handlers.unsubscribe,
        on_subscriptions_listen=handlers.listen,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
        get_tool_input_schema=handlers.input_schema,
        cache_hints=dict.fromkeys(
            ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"), _NOW
        ),
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, handlers.set_level)
    server.add_notification_handler("notifications/initialized", types.NotificationParams, handlers.initialized)
    server.middleware[:] = [traced(tools.tracing), hide_bugs, instructions_added(tools), keep_verbatim]
    return server


class _Handlers:
    """The handlers, one method per request."""

    def __init__(self, tools: Served) -> None:
        self._tools, self._turn = tools, asyncio.Lock()

    async def initialized(self, ctx: Context, params: types.NotificationParams) -> None:
        del params
        self._tools.watching.join(ctx)

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        connection_of(ctx).state[_LEVEL] = params.level
        return types.EmptyResult()

    # --- tools

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        offered = await self._tools.list_tools()
        shown = [shown_tool(tool.raw, name, ctx.protocol_version) for name, tool in offered.tools.items()]
        _send_page("tools", shown, params)
        return types.ListToolsResult(tools=[])

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        offered = await self._tools.offered.tools()
        seen = offered.tools.get(params.name)
        tool = seen or offered.hidden.get(params.name)
        if tool is None:
            raise _unknown("tool", params.name, list(offered.tools))
        call = DirectCall(
            server_id=tool.server_id, tool=tool.name, arguments=params.arguments or {}, said=one_line(params.name, 128)
        )
        try:
            outcome = await self._outcome(ctx, call)
        except MoonpoolError as error:
            send_verbatim(refused(error.code, self._words(error)))
            return types.CallToolResult(content=[])
        if seen is None:  # SECURITY: policy denied it, which is on record; to the client it does not exist
            raise _unknown("tool", params.name, list(offered.tools))
        if isinstance(outcome, InputNeeded):
            return input_required(outcome, abilities(ctx))
        if outcome.raw is not None:
            self._tools.offered.link(tool.server_id, linked(outcome.raw))
            send_verbatim(tool_result(outcome.raw, ctx.protocol_version))
        elif outcome.error is not None:
            if outcome.error.rpc is not None:
                raise protocol_error(outcome.error, ctx.protocol_version)
            send_verbatim(refused(str(outcome.error.type), outcome.error.message))
        return types.CallToolResult(content=[])

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """What a tool takes; None if it is not offered."""
        tool = self._tools.offered.tools_now().tools.get(name)
        schema = None if tool is None else tool.input_schema
        return schema if isinstance(schema, dict) else None

    # --- resources

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        listed = (await self._tools.offered.lists()).resources.values()
        shown = [one for _, item in listed if (one := shown_resource(item, ctx.protocol_version)) is not None]
        _send_page("resources", shown, params)
        return types.ListResourcesResult(resources=[])

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        listed = (await self._tools.offered.lists()).templates.values()
        shown = [one for _, item in listed if (one := shown_template(item, ctx.protocol_version)) is not None]
        _send_page("resourceTemplates", shown, params)
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        answer = await self._of_resource(ctx, params.uri, READ_RESOURCE)
        if isinstance(answer, InputNeeded):
            return input_required(answer, abilities(ctx))
        send_verbatim({"contents": resource_contents(answer)})
        return types.ReadResourceResult(contents=[])

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        connection = connection_of(ctx)
        watched = self._tools.watching.watched_by(connection)
        await self._of_resource(ctx, params.uri, SUBSCRIBE)
        self._tools.watching.watch(params.uri, connection)
        if not watched:
            connection.exit_stack.push_async_callback(self._tools.unwatch_all, connection)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        if self._tools.watching.unwatch(params.uri, connection_of(ctx)):
            await self._of_resource(ctx, params.uri, UNSUBSCRIBE)
        return types.EmptyResult()

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """The stream of a 2026-07-28 client; resources without subscriptions are left out of what is honoured."""
        watcher, honoured = object(), list[str]()
        try:
            for uri in dict.fromkeys((params.notifications.resource_subscriptions or [])[:SUBSCRIBED_MAX]):
                try:
                    await self._of_resource(ctx, uri, SUBSCRIBE)
                except MCPError:
                    continue
                self._tools.watching.watch(uri, watcher)
                honoured.append(uri)
            wanted = params.notifications.model_copy(update={"resource_subscriptions": honoured})
            return await self._tools.watching.listen(ctx, params.model_copy(update={"notifications": wanted}))
        finally:
            self._tools.unwatch_soon(watcher)

    # --- prompts and completion

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        listed = (await self._tools.offered.lists()).prompts
        _send_page(
            "prompts", [shown_prompt(item, name, ctx.protocol_version) for name, (_, item) in listed.items()], params
        )
        return types.ListPromptsResult(prompts=[])

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        server_id, name = await self._prompt(params.name)
        given = params.arguments or {}
        if missing := self._tools.offered.lists_now.missing(params.name, given):
            raise MCPError(
                types.INVALID_PARAMS, f"the prompt needs {', '.join(one_line(one, 100) for one in missing[:5])}"
            )
        arguments: JsonObject = {"name": name, "arguments": dict(given)}
        call = DirectCall(server_id=server_id, tool=GET_PROMPT, arguments=arguments, said=one_line(params.name, 128))
        answer = await self._data(ctx, call)
        if isinstance(answer, InputNeeded):
            return input_required(answer, abilities(ctx))
        send_verbatim(messages(answer, ctx.protocol_version))
        return types.GetPromptResult(messages=[])

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        argument: JsonObject = {"argument": params.argument.name, "value": params.argument.value}
        if isinstance(params.ref, types.PromptReference):
            server_id, name = await self._prompt(params.ref.name)
            argument["prompt"] = name
        else:
            lists = await self._tools.offered.lists()
            found = lists.templates.get(params.ref.uri) or lists.resources.get(params.ref.uri)
            if found is None:
                raise _not_found(params.ref.uri, ctx.protocol_version)
            server_id, argument["template"] = found[0], params.ref.uri
        if params.context is not None and params.context.arguments:
            argument["known"] = dict(params.context.arguments)
        if not self._tools.offered.offers(server_id, COMPLETE):
            return types.CompleteResult(completion=types.Completion(values=[]))
        call = DirectCall(server_id=server_id, tool=COMPLETE, arguments=argument, said="completion/complete")
        data = await self._data(ctx, call)
        if isinstance(data, InputNeeded):
            raise MCPError(types.INTERNAL_ERROR, "a server asks for input to complete an argument")
        values = [one for one in cast("list[Any]", data["values"]) if isinstance(one, str)]
        total, more = data.get("total"), data.get("hasMore")
        return types.CompleteResult(
            completion=types.Completion(
                values=values[:COMPLETIONS_MAX],
                total=total if isinstance(total, int) and not isinstance(total, bool) else None,
                has_more=True if len(values) > COMPLETIONS_MAX else more if isinstance(more, bool) else None,
            )
        )

    # --- what they share

    async def _outcome(self, ctx: Context, call: DirectCall) -> ToolCallOutcome | InputNeeded:
        level = str(connection_of(ctx).state.get(_LEVEL, ""))
        report = progress_report(ctx) if wants_progress(ctx.params) else None
        return await self._tools.calls.outcome(ctx, call, report=report, level=level, turn=self._turn)

    def _words(self, error: MoonpoolError) -> str:
        return words(error, hides_host=self._tools.calls.hides_host)

    async def _data(self, ctx: Context, call: DirectCall, *, uri: str = "") -> JsonObject | InputNeeded:
        """What one of the protocol's methods gave. Raises MCPError."""
        try:
            outcome = await self._outcome(ctx, call)
        except MoonpoolError as error:
            raise MCPError(types.INTERNAL_ERROR, self._words(error), {"reason": error.code}) from None
        if isinstance(outcome, InputNeeded):
            return outcome
        if outcome.error is not None:
            raise protocol_error(outcome.error, ctx.protocol_version, uri=uri)
        assert outcome.raw is not None
        return cast("JsonObject", result_data(outcome.raw, outcome.data_from))

    async def _of_resource(self, ctx: Context, uri: str, method: str) -> JsonObject | InputNeeded:
        """Make a call about a resource at the server that it belongs to. Raises MCPError."""
        server_id = await self._tools.offered.server_of(uri)
        if server_id is None:
            raise _not_found(uri, ctx.protocol_version)
        if not self._tools.offered.offers(server_id, method):
            raise MCPError(types.INVALID_PARAMS, "the server of this resource takes no subscriptions", {"uri": uri})
        call = DirectCall(server_id=server_id, tool=method, arguments={"uri": uri}, said=one_line(uri, 200))
        return await self._data(ctx, call, uri=uri)

    async def _prompt(self, name: str) -> tuple[str, str]:
        """The server of a prompt, and its own name there. Raises MCPError."""
        for fresh in (False, True):
            lists = await self._tools.offered.lists() if fresh else self._tools.offered.lists_now
            if (found := lists.prompts.get(name)) is not None:
                return found[0]
        raise _unknown("prompt", name, list(self._tools.offered.lists_now.prompts))


def _send_page(member: str, shown: list[JsonObject], params: types.PaginatedRequestParams | None) -> None:
    page, after = page_of(shown, None if params is None else params.cursor)
    send_verbatim({member: cast("JsonValue", page), **({"nextCursor": after} if after is not None else {})})


def _unknown(what: str, name: str, known: list[str]) -> MCPError:
    near = near_names([name], known)
    hint = f"; did you mean {near[0]}?" if near else ""
    return MCPError(types.INVALID_PARAMS, f"Unknown {what}: {one_line(name, 100)}{hint}")


def _not_found(uri: str, version: str) -> MCPError:
    code = types.INVALID_PARAMS if version >= SEALED_FROM else -32002
    return MCPError(code, f"Resource not found: {one_line(uri, 200)}", {"uri": uri})
