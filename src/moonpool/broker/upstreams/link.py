"""One live connection to one server: requests in its era, its listing, and what became of a failed request.

The SDK contributes the dispatcher (ids, cancellation, concurrent requests), the session (era, answers to a server's own
requests, subscriptions) and the Streamable HTTP transport. Requests go through the dispatcher and come back as the
server's own JSON; see `era`. A request runs in its caller's task from end to end.

INVARIANT: a Link is entered and left by one task, its owner in `supervisor`; everybody may call `request` on it.
"""

from __future__ import annotations

import math
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import httpx2
from mcp import ClientSession, MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SERVER_INFO_META_KEY,
    ToolListChangedNotification,
)

from moonpool.broker.expansion import conceal
from moonpool.broker.upstreams.base import (
    RESULT_BYTES_MAX,
    UpstreamClosedAtOnceError,
    UpstreamConnectTimeoutError,
    UpstreamDiedError,
    UpstreamError,
    UpstreamGarbageError,
    UpstreamProtocolError,
    UpstreamResultError,
    UpstreamResultTooLargeError,
    UpstreamSessionGoneError,
    said,
)
from moonpool.broker.upstreams.era import CLIENT, UnknownRevisionError, discover, is_modern, negotiate, stamp
from moonpool.broker.upstreams.frames import LocalFault
from moonpool.broker.upstreams.http import EXCHANGE, Exchange, open_streamable_http
from moonpool.broker.upstreams.listing import ListingPages
from moonpool.broker.upstreams.process import ServerProcess, StopTimes, open_process
from moonpool.broker.upstreams.results import check_encodable, check_result
from moonpool.broker.upstreams.sse import open_legacy_sse
from moonpool.broker.upstreams.stdio import LineReader, LineWriter
from moonpool.broker.upstreams.streams import EndOfMessages, WatchedReader
from moonpool.core.manifest import ServerListing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from moonpool.broker.config import ServerConfig
    from moonpool.core.json import JsonObject, JsonValue

_EXIT_STATUS_S: Final = 0.3
_RELISTEN_COUNT_MAX: Final = 20
_ANSWERED_WITH_404: Final = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS})
GOODBYE_S: Final = 5.0
"""How long a remote server may take to end a session; a process has `StopTimes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """What a connection needs to know."""

    config: ServerConfig
    environ: Mapping[str, str]
    known_era: str | None
    on_listing_changed: Callable[[], None]
    stop_times: StopTimes


class Link:
    """A negotiated connection."""

    def __init__(
        self, spec: LinkSpec, reader: EndOfMessages, dispatcher: JSONRPCDispatcher, process: ServerProcess | None
    ) -> None:
        self.ended = reader.ended
        self.suspect = False  # a request ran into its time limit; ask for a sign of life before the next one
        self.blind = False  # a known era was taken on trust
        self._spec = spec
        self._config = spec.config
        self._reader = reader
        self._dispatcher = dispatcher
        self._process = process
        self._about: JsonObject = {}
        self._header_maps: dict[str, Any] = {}
        self.session = ClientSession(dispatcher=dispatcher, message_handler=self._on_message, client_info=CLIENT)

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
        """Settle the era. Raises UpstreamError."""
        token = EXCHANGE.set(exchange)
        try:
            about = await negotiate(
                self.session,
                self._dispatcher,
                known_era=self._spec.known_era,
                probe_s=min(10.0, self._config.connect_timeout_s / 3),
            )
        except MCPError as exc:
            raise await self._connect_failure(exc, exchange) from None
        except UnknownRevisionError as exc:
            problem = f"speaks MCP revision {said(str(exc), 40)!r}, which this release does not know"
            raise UpstreamProtocolError(self._config.server_id, problem) from None
        finally:
            EXCHANGE.reset(token)
        self.blind = about is None
        self._about = about or {}

    async def request(self, method: str, params: JsonObject, *, doing: str, header_map: Any = None) -> JsonObject:
        """One request, raw in both directions. Raises UpstreamError; has no time limit of its own."""
        exchange = Exchange()
        token = EXCHANGE.set(exchange)
        try:
            opts = stamp(self.protocol_version, method, params, header_map)
            return cast("JsonObject", await self._dispatcher.send_raw_request(method, params, opts))
        except MCPError as exc:
            raise await self._failure(exc, exchange, doing) from None
        except (ValueError, RecursionError) as exc:
            problem = f"cannot be sent this request as JSON: {said(str(exc), 200)}"
            raise UpstreamProtocolError(self._config.server_id, problem) from None
        finally:
            EXCHANGE.reset(token)

    async def call_tool(self, name: str, arguments: JsonObject) -> JsonObject:
        """The raw CallToolResult."""
        try:
            result = await self._call(name, arguments)
        except UpstreamProtocolError as exc:
            if exc.rpc_code != HEADER_MISMATCH or not is_modern(self.protocol_version):
                raise
            await self.list_tools()  # the server refused before it ran anything: our header map is missing or stale
            result = await self._call(name, arguments)
        result = check_result(self._config.server_id, name, result)
        if self._process is None:  # lines of a process were parsed strictly; what the SDK parsed was not
            check_encodable(self._config.server_id, name, result)
        return result

    async def _call(self, name: str, arguments: JsonObject) -> JsonObject:
        params: JsonObject = {"name": name, "arguments": arguments}
        return await self.request("tools/call", params, doing=name, header_map=self._header_maps.get(name))

    async def list_tools(self) -> ServerListing:
        """All pages. Raises UpstreamError."""
        pages = ListingPages(self._config.server_id)
        cursor = pages.add(await self.request("tools/list", {}, doing="tools/list"))
        while cursor is not None:
            cursor = pages.add(await self.request("tools/list", {"cursor": cursor}, doing="tools/list"))
        if is_modern(self.protocol_version):
            self._keep_header_maps(pages)
        return await self._listing(pages)

    async def answers(self, timeout_s: float) -> bool:
        """Whether the server gives any sign of life."""
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

    async def follow_listing(self) -> None:
        """Pass a modern server's list_changed events on until the connection ends; never raises."""
        for _ in range(_RELISTEN_COUNT_MAX):
            try:
                async with listen(self.session, tools_list_changed=True) as subscription:
                    async for _event in subscription:
                        self._spec.on_listing_changed()
                return  # the server closed the subscription in good order
            except SubscriptionLost:
                self._spec.on_listing_changed()  # something may have been missed
                await anyio.sleep(1.0)
            except (MCPError, ListenNotSupportedError, TimeoutError):
                return

    def _keep_header_maps(self, pages: ListingPages) -> None:
        """SPEC: a 2026-07-28 client must drop tools whose `x-mcp-header` annotations are invalid."""
        self._header_maps.clear()
        for tool in pages.tools:
            if (reason := find_invalid_x_mcp_header(tool.input_schema)) is not None:
                pages.drop(tool.name, f"invalid x-mcp-header: {said(reason, 200)}")
            else:
                self._header_maps[tool.name] = x_mcp_header_map(tool.input_schema)

    async def _listing(self, pages: ListingPages) -> ServerListing:
        if not self._about and is_modern(self.protocol_version):
            try:
                self._about = await discover(self.session, str(self.protocol_version))
            except MCPError:
                self._about = {}
        meta = self._about.get("_meta")
        info = self._about.get("serverInfo") or (meta.get(SERVER_INFO_META_KEY) if isinstance(meta, dict) else None)
        named = info if isinstance(info, dict) else {}
        return ServerListing(
            server_id=self._config.server_id,
            tools=pages.tools,
            name=_text(named.get("name")),
            title=_text(named.get("title")),
            version=_text(named.get("version")),
            instructions=_text(self._about.get("instructions")) if self._config.instructions else "",
            protocol_version=self.protocol_version or "",
            warnings=pages.warnings,
        )

    async def _on_message(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._spec.on_listing_changed()

    async def _failure(self, exc: MCPError, exchange: Exchange, doing: str) -> UpstreamError:
        """The typed error of a failed request."""
        server_id, error = self._config.server_id, exc.error
        if error.data is LocalFault.TOO_LARGE or exchange.too_large or _above_event_cap(exc):
            limit = f"{RESULT_BYTES_MAX // 1024**2} MiB"
            return UpstreamResultTooLargeError(server_id, f"answered {doing!r} with more than {limit}; ask it for less")
        if error.data is LocalFault.UNUSABLE or (error.code == PARSE_ERROR and exchange.status == 200):
            problem = f"answered {doing!r} with something that is not JSON: {self._said(error.message, 300)}"
            return UpstreamResultError(server_id, problem)
        if (fault := exchange.fault(self._config)) is not None:
            return fault
        if exchange.status == 404 and not is_modern(self.protocol_version) and error.code not in _ANSWERED_WITH_404:
            return UpstreamSessionGoneError(
                server_id, f"no longer knows our session; {doing!r} was not run, call it again"
            )
        if self.ended.is_set() or error.code == CONNECTION_CLOSED:
            return UpstreamDiedError(server_id, f"closed the connection while {doing!r} ran{await self._last_words()}")
        problem = f"refused {doing!r}: {self._said(error.message)} (JSON-RPC error {error.code})"
        return UpstreamProtocolError(server_id, problem, rpc_code=error.code)

    async def _connect_failure(self, exc: MCPError, exchange: Exchange) -> UpstreamError:
        """The same before the handshake was over."""
        server_id = self._config.server_id
        if (fault := exchange.fault(self._config)) is not None:
            return fault
        if self._garbage and self.ended.is_set():
            return self.garbage_error()
        if self.ended.is_set() or exc.error.code == CONNECTION_CLOSED:
            problem = (
                f"closed the connection at once{await self._last_words()}; run its command in a terminal to see why"
            )
            return UpstreamClosedAtOnceError(server_id, problem)
        if exchange.no_such_transport:
            problem = f"answered HTTP {exchange.status} at {self._config.address}; check the URL and the type"
            return UpstreamProtocolError(server_id, problem)
        return UpstreamProtocolError(server_id, f"refused the handshake: {self._said(exc.error.message)}")

    def connect_timeout(self) -> UpstreamError:
        """The error for a server that did not finish the handshake in time."""
        if self._garbage:
            return self.garbage_error()
        words = ""
        if self._process is not None:
            words = self._process.last_words(self._config.secrets, ended_itself=False)
        limit = f"{self._config.connect_timeout_s:g} s"
        problem = f'did not answer the handshake within {limit}{words}; raise "connect_timeout_s" if it starts slowly'
        return UpstreamConnectTimeoutError(self._config.server_id, problem)

    def garbage_error(self) -> UpstreamError:
        sample = conceal(self._garbage, self._config.secrets)
        problem = (
            f"prints to stdout something that is not MCP: {sample!r}; a server must print its own output to stderr"
        )
        return UpstreamGarbageError(self._config.server_id, problem)

    @property
    def remark(self) -> str:
        """What may explain a silence."""
        sample = conceal(self._garbage, self._config.secrets)
        return f"; it printed something that is not MCP: {sample!r}" if sample else ""

    @property
    def _garbage(self) -> str:
        return self._reader.garbage_sample if isinstance(self._reader, LineReader) else ""

    async def _last_words(self) -> str:
        if self._process is None:
            return ""
        await self._process.wait_exited(_EXIT_STATUS_S)  # stdout ends a moment before the exit status is known
        return self._process.last_words(self._config.secrets)

    def _said(self, text: str, length_max: int = 2000) -> str:
        return said(conceal(text, self._config.secrets), length_max)


@asynccontextmanager
async def open_link(spec: LinkSpec) -> AsyncGenerator[Link]:
    """Connect and negotiate within `connect_timeout_s`. Exit: nothing of the connection is left.

    The transports that the configuration allows are tried in its order (X-12). An error of the handshake leaves the
    SDK's task groups as a value and is raised outside them, so that it arrives as itself.
    """
    kinds = _transports(spec.config)
    for kind in kinds:
        dial = _Dial(spec, kind)
        with anyio.CancelScope(deadline=anyio.current_time() + spec.config.connect_timeout_s) as scope:
            async with AsyncExitStack() as stack:
                link = await dial.connect(stack)
                if link is not None:
                    scope.deadline = math.inf
                    try:
                        yield link
                    finally:
                        link.ended.set()
                        scope.deadline = anyio.current_time() + GOODBYE_S
                    return
        if dial.connected:
            return  # the goodbye took too long
        if kind == kinds[-1] or not dial.exchange.no_such_transport:
            raise dial.failure()


class _Dial:
    """One attempt over one transport."""

    def __init__(self, spec: LinkSpec, kind: str) -> None:
        self.exchange = Exchange()
        self.connected = False
        self._spec = spec
        self._kind = kind
        self._link: Link | None = None
        self._error: UpstreamError | None = None

    async def connect(self, stack: AsyncExitStack) -> Link | None:
        """A link whose resources are on `stack`, or None and `failure` knows why."""
        try:
            link = self._link = await self._enter(stack)
            await link.negotiate(self.exchange)
        except UpstreamError as exc:
            self._error = exc
            return None
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        if is_modern(link.protocol_version) and _may_change(link.session):
            tasks.start_soon(link.follow_listing)
        self.connected = True
        return link

    def failure(self) -> UpstreamError:
        if self._error is not None:
            return self._error
        if self._link is not None:
            return self._link.connect_timeout()
        config = self._spec.config
        problem = f"did not answer at {config.address} within {config.connect_timeout_s:g} s"
        return UpstreamConnectTimeoutError(config.server_id, problem)

    async def _enter(self, stack: AsyncExitStack) -> Link:
        spec, config = self._spec, self._spec.config
        process: ServerProcess | None = None
        reader: EndOfMessages
        writer: Any
        if self._kind == "stdio":
            opened = open_process(config, spec.environ, times=spec.stop_times)
            process = await stack.enter_async_context(opened)
            reader, writer = LineReader(process), LineWriter(process)
        elif self._kind == "sse":
            reader, writer = await stack.enter_async_context(open_legacy_sse(config, self.exchange))
        else:
            inner, writer = await stack.enter_async_context(open_streamable_http(config))
            reader = WatchedReader(inner)
        link = Link(spec, reader, JSONRPCDispatcher(cast("Any", reader), writer), process)
        await stack.enter_async_context(link.session)
        return link


def _transports(config: ServerConfig) -> tuple[str, ...]:
    if config.transport != "auto":
        return (config.transport,)
    path = httpx2.URL(config.url).path.rstrip("/")
    return ("sse", "http") if path.endswith("/sse") else ("http", "sse")


def _may_change(session: ClientSession) -> bool:
    """Whether the server says that its listing changes; one whose era was taken on trust was not asked."""
    capabilities = session.server_capabilities
    if capabilities is None or capabilities.tools is None:
        return True
    return bool(capabilities.tools.list_changed)


def _above_event_cap(exc: MCPError) -> bool:
    """The SDK's wording for an SSE event that exceeds `max_sse_event_size`."""
    return "SSE stream failed" in exc.error.message and "limit" in exc.error.message


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
