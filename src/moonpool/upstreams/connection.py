"""One live connection to one server: requests in its protocol version, and its tool listing.

The SDK contributes the dispatcher (ids, cancellation, concurrent requests), the session (protocol version, answers to a
server's own requests, subscriptions) and the Streamable HTTP transport. Requests go through the dispatcher and come
back as the server's own JSON; see `protocol_version`. A request runs in its caller's task from end to end.

INVARIANT: a ServerConnection is entered and left by one task, its owner in `supervisor`; any task may call `request`.
Neighbours: `connecting` makes it, `tool_calls` says how a call goes over it, `connection_failures` why a request
failed.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from mcp import ClientSession, MCPError
from mcp.types import (
    LOG_LEVEL_META_KEY,
    SERVER_INFO_META_KEY,
    LoggingMessageNotification,
    RootsListChangedNotification,
)

from moonpool.core.calls import LogMessage
from moonpool.core.manifest import RESERVED_PREFIX, ServerListing
from moonpool.core.phrases import said
from moonpool.tracing.spans import TRACEPARENT
from moonpool.upstreams.base import UpstreamError, UpstreamProtocolError
from moonpool.upstreams.changes import ChangeStream, notified
from moonpool.upstreams.connection_failures import ConnectionFailures
from moonpool.upstreams.dispatcher import OWN_TRACEPARENT
from moonpool.upstreams.forms import URL_ELICITATION_REQUIRED
from moonpool.upstreams.http import EXCHANGE, Exchange
from moonpool.upstreams.listing import ListingPages
from moonpool.upstreams.open_call import OPEN_CALL
from moonpool.upstreams.protocol_version import CLIENT, UnknownRevisionError, discover, is_modern, negotiate, stamp
from moonpool.upstreams.resources_and_prompts import SUBSCRIBE, offered_tools
from moonpool.upstreams.results import check_encodable, check_result
from moonpool.upstreams.server_logging import LEVELS, ServerLogging
from moonpool.upstreams.tool_calls import ToolCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

    from moonpool.configuration.servers import ServerConfig
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.oauth.credentials import Credentials
    from moonpool.tracing.spans import TraceParent
    from moonpool.upstreams.open_call import OpenCall
    from moonpool.upstreams.process import ServerProcess, StopTimes
    from moonpool.upstreams.root_folders import RootFolders
    from moonpool.upstreams.server_requests import PendingServerRequests, ServerRequestHandlers
    from moonpool.upstreams.streams import EndOfMessages
    from moonpool.upstreams.subscriptions import Subscriptions

INSTRUCTIONS_CHARS_MAX: Final = 64 * 1024
"""Bounds what a server says about itself, because it is kept, cached and searched at each start."""
_NAME_CHARS_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSpec:
    """What a connection needs to know."""

    config: ServerConfig
    environ: Mapping[str, str]
    known_version: str | None
    on_change: Callable[[str, str], None]  # what kind of thing, and which resource
    subscriptions: Subscriptions
    folders: RootFolders
    stop_times: StopTimes
    handlers: ServerRequestHandlers
    credentials: Credentials | None = None
    known_transport: str = ""  # by which it was connected before

    def may_have_missed(self) -> None:
        """Notifications about any subscription may have been lost."""
        for uri in self.subscriptions.uris:
            self.on_change("resource", uri)


class ServerConnection:
    """A negotiated connection."""

    def __init__(
        self,
        spec: ConnectionSpec,
        reader: EndOfMessages,
        dispatcher: JSONRPCDispatcher,
        process: ServerProcess | None,
        server_requests: PendingServerRequests,
    ) -> None:
        self.ended = reader.ended
        self.deaf = anyio.Event()  # it answers calls, but no notification arrives any more
        self.transport = ""
        self.suspect = False  # a request ran into its time limit; ping before the next one
        self.knows_roots = False  # the server may ask for roots
        self.blamed = False  # its end was counted as a failure
        self.blind = False  # a known protocol version was assumed without asking
        self.failures = ConnectionFailures(spec.config, reader, process, spec.credentials)
        self._spec = spec
        self._config = spec.config
        self._dispatcher = dispatcher
        self._process = process
        self._server_requests = server_requests
        self._about: JsonObject = {}
        self._first_roots: list[JsonValue] = []
        self._level = ""  # that an older server was told
        self._logging = ServerLogging(spec.config, lambda: self.failures.secrets)
        self._calls = ToolCalls(spec.config, self, server_requests)
        self.session = ClientSession(dispatcher=dispatcher, message_handler=self._on_message, client_info=CLIENT)
        self._changes = ChangeStream(self.session, spec.subscriptions, spec.on_change)

    @property
    def protocol_version(self) -> str | None:
        return self.session.protocol_version

    @property
    def alive(self) -> bool:
        return not self.ended.is_set()

    def retire(self) -> None:
        """Have the owner close this connection; a process gets no grace, because it hangs or misbehaves."""
        if self._process is not None:
            self._process.stop_at_once = True
        self.ended.set()

    async def negotiate(self, exchange: Exchange) -> None:
        """Negotiate the protocol version. Raises UpstreamError."""
        declared = self._server_requests.handshake_capabilities
        self._first_roots = await self._spec.folders.present() if "roots" in declared else []
        token = EXCHANGE.set(exchange)
        try:
            about = await negotiate(
                self.session,
                self._dispatcher,
                known_version=self._spec.known_version,
                probe_s=min(10.0, self._config.connect_timeout_s / 3),
                capabilities=declared,
            )
        except MCPError as exc:
            raise await self.failures.of_handshake(exc, exchange) from None
        except UnknownRevisionError as exc:
            problem = f"speaks MCP revision {said(str(exc), 40)!r}, which this release does not know"
            raise UpstreamProtocolError(self._config.server_id, problem) from None
        finally:
            EXCHANGE.reset(token)
        self.knows_roots = is_modern(self.protocol_version) or "roots" in declared
        self.blind = about is None
        self._about = about or {}
        await self._ask_for_logs()

    async def _ask_for_logs(self) -> None:
        """Tell an older server the wanted log level; a newer one is told in every request (`stamp`)."""
        level, declared = self._level_for(OPEN_CALL.get()), self._about.get("capabilities")
        if level == self._level or is_modern(self.protocol_version):
            return
        if not isinstance(declared, dict) or "logging" not in declared:
            return
        self._level = level
        try:
            await self.request("logging/setLevel", {"level": level}, doing="logging/setLevel")
        except UpstreamProtocolError as exc:
            self._logging.message("warning", f"(about logging/setLevel) {exc}")

    def _level_for(self, call: OpenCall[Any] | None) -> str:
        """The lowest level that somebody wants: the operator, a client that calls, or one that called before."""
        client = None if call is None else call.context.client
        wanted = (self._config.log_level or "", self._level, "" if client is None else client.log_level)
        return min((level for level in wanted if level), key=LEVELS.index, default="")

    async def request(self, method: str, params: JsonObject, *, doing: str, header_map: Any = None) -> JsonObject:
        """One request, raw in both directions. Raises UpstreamError; has no time limit of its own."""
        exchange = Exchange()
        token = EXCHANGE.set(exchange)
        try:
            call = OPEN_CALL.get()
            declared = self._server_requests.capabilities_for(call)
            opts = stamp(self.protocol_version, method, params, declared, header_map)
            if is_modern(self.protocol_version) and (level := self._level_for(call)):
                cast("JsonObject", params["_meta"])[LOG_LEVEL_META_KEY] = level
            if method == "tools/call" and (receiver := self._logging.progress_of(doing, call)) is not None:
                opts["on_progress"] = receiver
            with self._span_of(call, method) as place:
                if place is not None:
                    opts["headers"] = {**opts.get("headers", {}), TRACEPARENT: str(place)}
                    params["_meta"] = {**cast("JsonObject", params.get("_meta", {})), OWN_TRACEPARENT: str(place)}
                return cast("JsonObject", await self._dispatcher.send_raw_request(method, params, opts))
        except MCPError as exc:
            version = self.protocol_version
            raise await self.failures.of_request(exc, exchange, doing=doing, protocol_version=version) from None
        except (ValueError, RecursionError) as exc:
            problem = "cannot be sent this request as JSON"
            operators = f"{problem}: {said(str(exc), 200)}"
            raise UpstreamProtocolError(self._config.server_id, operators, for_guest=problem) from None
        finally:
            exchange.over = True
            EXCHANGE.reset(token)

    def _span_of(self, call: OpenCall[Any] | None, method: str) -> AbstractContextManager[TraceParent | None]:
        if call is None or call.span is None:
            return nullcontext()
        return call.span.request(method, self.protocol_version or "", self.transport)

    async def call_tool(self, name: str, arguments: JsonObject) -> JsonObject:
        """The raw CallToolResult, or what a reserved name stands for as one."""
        if not self._declares_tools and not name.startswith(RESERVED_PREFIX):
            problem = "does not offer tools"
            raise UpstreamProtocolError(self._config.server_id, problem, for_guest=problem)
        await self._ask_for_logs()
        with self._server_requests.on_behalf_of(call := OPEN_CALL.get()):
            try:
                raw = await self._calls.call(name, arguments)
            except UpstreamProtocolError as error:
                await self._show_addresses(error, call)
                raise
        result = check_result(self._config.server_id, name, raw)
        if self._process is None:  # lines of a process were parsed strictly; what the SDK parsed was not
            check_encodable(self._config.server_id, name, result)
        return result

    async def _show_addresses(self, error: UpstreamProtocolError, call: OpenCall[Any] | None) -> None:
        """Where a server wants a person elsewhere first. It is not called again: nobody knows how long that takes."""
        if error.rpc_code != URL_ELICITATION_REQUIRED or not await self._server_requests.show_addresses(
            error.rpc_data, call
        ):
            return
        problem = error.for_guest.removeprefix(f"server {self._config.server_id!r} ")
        told = f"{problem}; the user was shown the address that this needs: call again once that is done"
        raise UpstreamProtocolError(
            self._config.server_id, told, for_guest=told, rpc_code=error.rpc_code, rpc_data=error.rpc_data
        ) from error

    async def list_tools(self) -> ServerListing:
        """All pages; of a server that declares no tools only what its resources and prompts stand for. Raises
        UpstreamError.
        """
        if is_modern(self.protocol_version):
            await self._changes.precedes(lambda: self.answers(self._config.connect_timeout_s))
        pages = ListingPages(self._config.server_id)
        cursor = None
        if self._declares_tools:
            cursor = pages.add(await self.request("tools/list", {}, doing="tools/list"))
        while cursor is not None:
            cursor = pages.add(await self.request("tools/list", {"cursor": cursor}, doing="tools/list"))
        self._calls.learn(pages)
        return await self._listing(pages)

    async def answers(self, timeout_s: float) -> bool:
        """Whether the server answers a ping."""
        method = "server/discover" if is_modern(self.protocol_version) else "ping"
        with anyio.move_on_after(timeout_s):
            try:
                await self.request(method, {}, doing=method)
            except UpstreamProtocolError:
                return True  # an error is an answer
            except UpstreamError:
                return False
            return True
        return False

    async def follow_changes(self) -> None:
        """Pass on change notifications of a modern server, until the connection ends; never raises."""
        await self._changes.follow(self._about.get("capabilities"))

    async def follow_roots(self) -> None:
        """Tell an older server when its roots change; ends with the connection, or at once if the server does not use
        roots.
        """
        if self.knows_roots and not is_modern(self.protocol_version):
            await self._spec.folders.watch(
                self._first_roots, lambda: self.session.send_notification(RootsListChangedNotification())
            )

    async def subscribe(self, uri: str) -> None:
        """Subscribe to a resource. Raises UpstreamError."""
        if not any(tool.name == SUBSCRIBE for tool in offered_tools(self._config.server_id, await self.capabilities())):
            problem = "does not offer subscriptions (any more)"
            raise UpstreamProtocolError(self._config.server_id, problem, for_guest=problem)
        if not is_modern(self.protocol_version):
            await self.request("resources/subscribe", {"uri": uri}, doing="resources/subscribe")
        elif not await self._changes.takes(uri):
            problem = f"does not tell when {said(uri, 200)!r} changes"
            raise UpstreamProtocolError(self._config.server_id, problem, for_guest=problem)

    async def unsubscribe(self, uri: str) -> None:
        """Unsubscribe; the stream of a modern server is replaced by one without the address anyway."""
        if not is_modern(self.protocol_version):
            await self.request("resources/unsubscribe", {"uri": uri}, doing="resources/unsubscribe")

    async def capabilities(self) -> JsonValue:
        """What the server declared; one whose protocol version was assumed is asked now."""
        if not self._about and is_modern(self.protocol_version):
            try:
                self._about = await discover(self.session, str(self.protocol_version))
            except MCPError:
                self._about = {}
        return self._about.get("capabilities")

    @property
    def _declares_tools(self) -> bool:
        """False only when it is known (A-047); a server that describes itself badly is asked."""
        declared = self._about.get("capabilities")
        return not isinstance(declared, dict) or "tools" in declared

    async def _listing(self, pages: ListingPages) -> ServerListing:
        offered = await self._calls.offered()
        meta = self._about.get("_meta")
        info = self._about.get("serverInfo") or (meta.get(SERVER_INFO_META_KEY) if isinstance(meta, dict) else None)
        named = info if isinstance(info, dict) else {}
        return ServerListing(
            server_id=self._config.server_id,
            tools=(*pages.tools, *offered),
            name=_text(named.get("name")),
            title=_text(named.get("title")),
            version=_text(named.get("version")),
            instructions=_text(self._about.get("instructions"), INSTRUCTIONS_CHARS_MAX)
            if self._config.instructions
            else "",
            protocol_version=self.protocol_version or "",
            warnings=pages.warnings,
        )

    async def _on_message(self, message: object) -> None:
        if (change := notified(message)) is not None:
            self._spec.on_change(*change)
        elif isinstance(message, LoggingMessageNotification):
            self._logging.message(message.params.level, message.params.data)
            if (client := self._server_requests.client) is not None:
                told = message.params
                client.log(LogMessage(level=told.level, data=told.data, logger=told.logger or ""))


def _text(value: JsonValue, chars_max: int = _NAME_CHARS_MAX) -> str:
    return value[:chars_max] if isinstance(value, str) else ""
