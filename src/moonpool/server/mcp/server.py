"""The SDK's low-level server with our handlers: tools, the prompt, files as resources, the handshake's instructions.

One object serves every revision; the SDK adapts results to the negotiated revision (no `structuredContent` before
2025-06-18, `resultType` and cache hints from 2026-07-28). The lists of tools and prompts never change, and each result
lists its files, so `listChanged` is false and no subscription is offered (X-08, C-002).
"""

from __future__ import annotations

import asyncio
import base64
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

import mcp_types as types
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from moonpool.catalog.render import one_line
from moonpool.core.phrases import near_names
from moonpool.core.version import VERSION
from moonpool.engine.files.errors import FileMissingError, FileTransferError
from moonpool.engine.request_state import RequestStateError
from moonpool.server.mcp.client_requests import LeavingAsker, SendingAsker
from moonpool.server.mcp.connection_calls import Caller, InputNeeded
from moonpool.server.mcp.definitions import (
    DEFINITIONS,
    EXECUTE,
    PROMPT_DESCRIPTION,
    PROMPT_NAME,
)
from moonpool.server.mcp.input_rounds import SEALED_FROM, abilities, input_required, sender
from moonpool.server.mcp.progress import OutputProgress
from moonpool.server.mcp.request_spans import traced
from moonpool.server.mcp.resources import TEMPLATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.pending_calls import Parked
    from moonpool.pipeline.request_responder import RequestResponder
    from moonpool.server.mcp.answers import Answer
    from moonpool.server.mcp.progress import Report
    from moonpool.server.mcp.resources import McpResources
    from moonpool.server.mcp.tool_set import Offer
    from moonpool.tracing.spans import Tracing

    Context = ServerRequestContext[Any, Any]
    Lifespan = Callable[[Server[Any]], AbstractAsyncContextManager[dict[str, Any]]]

NAME: Final = "moonpool"
_ABOUT: Final = "Runs code that calls tools of MCP servers, in a sandbox"
LISTING_WAIT_S: Final = 2.0
"""How long the handshake waits for servers to list their tools. Clients time out after ten seconds."""
_ANNOTATED_FROM: Final = "2025-03-26"
_STRUCTURED_FROM: Final = "2025-06-18"
_SERVER_INFO_SINCE: Final = {"title": "2025-06-18", "description": "2025-11-25"}
_UNTIL_RESTART_MS: Final = 3_600_000
_RESOURCE_NOT_FOUND: Final = -32002  # removed in 2026-07-28
_log = logging.getLogger(__name__)


class Instructed(Protocol):
    """What can say in a handshake how to use it."""

    async def instructions(self) -> str: ...
    def instructions_now(self) -> str: ...


class ServedProfile(Instructed, Protocol):
    """What is served to the clients of one connection, or of one principal: what transports need of every profile."""

    @property
    def is_busy(self) -> bool:
        """Whether a call goes on, also without a request; `close` would end it."""
        ...

    def prepare(self) -> None:
        """Begin in the background what the first call would wait for."""
        ...

    def leave(self) -> int: ...
    async def wait_spared(self) -> None: ...
    async def close(self) -> None: ...


class ServedTools(ServedProfile, Protocol):
    """A profile of a few tools of our own, which this server presents."""

    @property
    def offer(self) -> Offer: ...
    @property
    def tracing(self) -> Tracing | None: ...
    @property
    def resources(self) -> McpResources | None:
        """Files as resources; None: the profile has neither these nor a prompt."""
        ...

    def list_tools(self) -> list[JsonObject]: ...
    async def call(self, name: str, arguments: Mapping[str, JsonValue], caller: Caller, /) -> Answer | InputNeeded: ...


@runtime_checkable
class OwnServer(ServedProfile, Protocol):
    """A profile with a server of its own."""

    def make_server(self) -> Server[Any]: ...


def build_server(tools: ServedTools | OwnServer, *, lifespan: Lifespan | None = None) -> Server[Any]:
    """The server of one connection. `lifespan` is entered when it begins, and left when it ends."""
    if isinstance(tools, OwnServer):
        return tools.make_server()
    handlers = _Handlers(tools)
    more: dict[str, Any] = {} if lifespan is None else {"lifespan": lifespan}
    if tools.resources is not None:
        more |= {
            "on_list_prompts": handlers.list_prompts,
            "on_get_prompt": handlers.get_prompt,
            "on_list_resources": handlers.list_resources,
            "on_list_resource_templates": handlers.list_resource_templates,
            "on_read_resource": handlers.read_resource,
        }
    server: Server[Any] = Server(
        NAME,
        version=VERSION,
        title="Moonpool",
        description=_ABOUT,
        on_list_tools=handlers.list_tools,
        get_tool_input_schema=_nothing_in_headers,
        **more,
        cache_hints={
            "tools/list": CacheHint(ttl_ms=_UNTIL_RESTART_MS, scope="public"),
            "prompts/list": CacheHint(ttl_ms=_UNTIL_RESTART_MS, scope="public"),
        },
    )
    server.add_request_handler("tools/call", types.CallToolRequestParams, handlers.call_tool)
    server.middleware[:] = [traced(tools.tracing, tools.offer.names), hide_bugs, instructions_added(tools)]
    return server


class _Handlers:
    """The handlers, one method per request."""

    def __init__(self, tools: ServedTools) -> None:
        self._tools = tools
        self._turn = asyncio.Lock()

    @property
    def _resources(self) -> McpResources:
        assert self._tools.resources is not None
        return self._tools.resources

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        _refuse_cursor(params)
        shown = [_shown(tool, ctx.protocol_version) for tool in self._tools.list_tools()]
        return types.ListToolsResult.model_validate({"tools": shown})

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> JsonObject | types.InputRequiredResult:
        if params.name not in self._tools.offer.names:
            raise MCPError(
                types.INVALID_PARAMS, f"Unknown tool: {one_line(params.name, 100)}; {self._hint(params.name)}"
            )
        modern = ctx.protocol_version >= SEALED_FROM
        async with AsyncExitStack() as stack:
            progress = None
            if params.name in {self._tools.offer.runs, self._tools.offer.waits} and wants_progress(ctx.params):
                progress = OutputProgress(progress_report(ctx))
                await stack.enter_async_context(progress.reporting())
            caller = Caller(
                listener=progress,
                asker=lambda call: self._asker(ctx, call),
                state=params.request_state if modern else None,
                answers=(ctx.params or {}).get("inputResponses") or {} if modern else {},
            )
            try:
                answer = await self._tools.call(params.name, params.arguments or {}, caller)
            except RequestStateError as error:
                raise MCPError(types.INVALID_PARAMS, str(error), {"reason": error.code}) from None
        if isinstance(answer, InputNeeded):
            return input_required(answer, abilities(ctx))
        return _tool_result(answer, ctx.protocol_version)

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        del ctx
        _refuse_cursor(params)
        return types.ListPromptsResult(prompts=[types.Prompt(name=PROMPT_NAME, description=PROMPT_DESCRIPTION)])

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        del ctx
        if params.name != PROMPT_NAME:
            raise MCPError(
                types.INVALID_PARAMS, f"Unknown prompt: {one_line(params.name, 100)}; there is {PROMPT_NAME}"
            )
        message = types.PromptMessage(role="user", content=types.TextContent(text=self._tools.offer.prompt))
        return types.GetPromptResult(description=PROMPT_DESCRIPTION, messages=[message])

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        del ctx
        _refuse_cursor(params)
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=uri, name=file.name, mime_type=file.mime, size=file.size)
                for uri, file in self._resources.listed()
            ]
        )

    async def list_resource_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        del ctx
        _refuse_cursor(params)
        template = types.ResourceTemplate(
            uri_template=TEMPLATE, name="files", description="A file in /workspace of a session of execute_code"
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        try:
            read = await self._resources.read(params.uri)
        except FileTransferError as error:
            modern = ctx.protocol_version >= SEALED_FROM
            missing = isinstance(error, FileMissingError) and not modern
            code = _RESOURCE_NOT_FOUND if missing else types.INVALID_PARAMS
            raise MCPError(code, str(error), {"uri": params.uri, "reason": error.code}) from None
        if read.text is not None:
            return types.ReadResourceResult(
                contents=[types.TextResourceContents(uri=read.uri, mime_type=read.mime, text=read.text)]
            )
        blob = base64.b64encode(read.data).decode()
        return types.ReadResourceResult(
            contents=[types.BlobResourceContents(uri=read.uri, mime_type=read.mime, blob=blob)]
        )

    def _hint(self, name: str) -> str:
        """Advice after a call of a tool that is not offered."""
        offer = self._tools.offer
        if name in DEFINITIONS and offer.runs == EXECUTE:
            return f"here code finds tools, with client.catalog; use {EXECUTE}"
        if near := near_names([name], offer.names):
            return f"did you mean {near[0]}?"
        return f"upstream tools are called from code; use {offer.runs}"

    def _asker(self, ctx: Context, call: Parked[Any]) -> RequestResponder:
        """The asker for this client's user and model: by a request, or in the answer of the call."""
        able = abilities(ctx)
        if ctx.protocol_version >= SEALED_FROM:
            return LeavingAsker(able, call)
        return SendingAsker(able, sender(ctx), self._turn)


def instructions_added(profile: Instructed) -> ServerMiddleware[Any]:
    """A middleware that adds the current servers to the answer to the handshake, and leaves out of it what its
    revision does not have.
    """

    async def add(ctx: Context, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method == "initialize" and isinstance(result, dict):
            told = cast("JsonObject", result["serverInfo"])
            later = {name for name, since in _SERVER_INFO_SINCE.items() if result["protocolVersion"] < since}
            result["serverInfo"] = {name: value for name, value in told.items() if name not in later}
            if result["protocolVersion"] < _ANNOTATED_FROM:
                cast("JsonObject", result["capabilities"]).pop("completions", None)  # answered all the same
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            try:
                async with asyncio.timeout(LISTING_WAIT_S):
                    result["instructions"] = await profile.instructions()
            except TimeoutError:
                result["instructions"] = profile.instructions_now()
        return result

    return add


async def hide_bugs(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Answer a bug with -32603 without its text (A-062); the SDK would send the text, with code 0."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception:  # noqa: BLE001  the client must not see any of it
        _log.exception("a bug while answering %s", ctx.method)
        raise MCPError(types.INTERNAL_ERROR, "Internal error; the server's log says more") from None


def _shown(tool: JsonObject, version: str) -> JsonObject:
    """`tool` without members that the client's revision does not have (A-041); the SDK would send them."""
    unknown = {"annotations"} if version < _ANNOTATED_FROM else set[str]()
    unknown |= {"outputSchema"} if version < _STRUCTURED_FROM else set[str]()
    return {key: value for key, value in tool.items() if key not in unknown}


def _tool_result(answer: Answer, version: str) -> JsonObject:
    """As it is sent: the SDK checks it against the revision, so a model of its own before that would check it twice."""
    pictures: list[JsonValue] = [
        {"type": "image", "data": base64.b64encode(picture.data).decode(), "mimeType": picture.mime}
        for picture in answer.pictures
    ]
    result: JsonObject = {
        "resultType": "complete",  # left out again where the revision does not have it
        "content": [{"type": "text", "text": answer.text}, *pictures],
        "isError": answer.is_error,
    }
    if answer.structured is not None and version >= _STRUCTURED_FROM:
        result["structuredContent"] = answer.structured
    if answer.meta is not None:
        result["_meta"] = answer.meta
    return result


def _nothing_in_headers(name: str) -> None:
    """No schema of ours names a header that repeats an argument (`x-mcp-header`), so none need be compared."""
    del name


def _refuse_cursor(params: types.PaginatedRequestParams | None) -> None:
    if params is not None and params.cursor is not None:
        raise MCPError(types.INVALID_PARAMS, "Invalid cursor: there is one page, and none was given out")


def wants_progress(params: Mapping[str, Any] | None) -> bool:
    meta = (params or {}).get("_meta")
    return isinstance(meta, dict) and "progressToken" in meta


def progress_report(ctx: Context) -> Report:
    """Progress of this request; without `message` in 2024-11-05, which lacks it (A-083)."""
    if ctx.protocol_version != HANDSHAKE_PROTOCOL_VERSIONS[0]:
        return ctx.session.report_progress

    async def report(progress: float, total: float | None = None, message: str | None = None) -> None:
        del message
        await ctx.session.report_progress(progress, total)

    return report
