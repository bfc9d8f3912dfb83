"""The HTTP and WebSocket face of a tool server, as an ASGI application.

SECURITY: any program of this machine, and web pages in a browser on it, can connect. So a request must name the server
by its own address (`Host`), must not come from a page (`Origin`), and must bring a token of this start; only `/status`
needs none. Bodies are bounded in bytes, time and nesting. A request names a server and cannot describe one.
"""

from __future__ import annotations

import asyncio
import hmac
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse
from starlette.websockets import WebSocket

from moonpool.core.errors import MoonpoolError
from moonpool.ipybox.tool_exec.host_tools import answer_of
from moonpool.pipeline.guest_json import parse_arguments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from starlette.types import Receive, Scope, Send

    from moonpool.core.json import JsonObject
    from moonpool.ipybox.tool_exec.addresses import Access
    from moonpool.ipybox.tool_exec.approval.server import ApprovalChannel
    from moonpool.ipybox.tool_exec.host_tools import HostTools

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
BODY_S: Final = 10.0
"""How long a body may take to come, and an answer to be taken."""
_NAME_CHARS_MAX: Final = 1024
_HANDOVER_S: Final = 0.5
"""How long an approval client waits for the one before it to be gone."""
_REFUSED: Final = 1008  # close code: policy


class _RefusedError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ToolServerApp:
    """`GET /status`, `POST /run`, `POST /approve`, `PUT /reset`, and the WebSocket `/approval`."""

    def __init__(self, tools: HostTools, channel: ApprovalChannel, hosts: Collection[str], access: Access) -> None:
        """`hosts` are the accepted values of `Host`, in lower case."""
        self._tools, self._channel = tools, channel
        self._hosts, self._access = frozenset(hosts), access
        self._routes: dict[str, tuple[str, Callable[[Request], Awaitable[JsonObject]]]] = {
            "/status": ("GET", self._status),
            "/reset": ("PUT", self._reset),
            "/run": ("POST", self._run),
            "/approve": ("POST", self._approve),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or serve one approval client."""
        if scope["type"] == "websocket":
            await self._approval(WebSocket(scope, receive, send))
            return
        request = Request(scope, receive, send)
        try:
            response = JSONResponse(await self._answer(request))
        except _RefusedError as error:
            response = JSONResponse({"error": str(error)}, status_code=error.status)
        async with asyncio.timeout(BODY_S):
            await response(scope, receive, send)

    async def _answer(self, request: Request) -> JsonObject:
        self._check_address(request)
        method, work = self._routes.get(request.url.path, ("", self._status))
        if method != "GET":
            self._check_token(request, self._access.call)
        if not method:
            raise _RefusedError(404, "there are /status, /run, /approve, /reset and the WebSocket /approval here")
        if request.method != method:
            raise _RefusedError(405, f"use {method}")
        return await work(request)

    async def _status(self, _request: Request) -> JsonObject:
        return {"status": "ok"}

    async def _reset(self, _request: Request) -> JsonObject:
        await self._tools.close()
        return {"reset": "success"}

    async def _run(self, request: Request) -> JsonObject:
        server, tool, arguments = await _call_in(request)
        call = asyncio.ensure_future(self._tools.call(server, tool, arguments))
        gone = asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait({call, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                raise _RefusedError(499, "whoever asked has gone")
            return answer_of(await call)
        except MoonpoolError as error:
            return {"error": str(error)}
        finally:
            call.cancel()
            gone.cancel()
            await asyncio.gather(call, gone, return_exceptions=True)

    async def _approve(self, request: Request) -> JsonObject:
        server, tool, arguments = await _call_in(request)
        about = f"Approval request for {server}.{tool}"
        try:
            if await self._channel.request(server, tool, arguments):
                return {"approved": True}
            return {"approved": False, "error": f"{about} rejected", "type": "rejected"}
        except TimeoutError:
            return {"approved": False, "error": f"{about} expired", "type": "timeout"}
        except (RuntimeError, UnicodeEncodeError) as error:  # no client, or a text that no WebSocket carries
            return {"approved": False, "error": f"{about} failed: {error}"}

    async def _approval(self, websocket: WebSocket) -> None:
        try:
            self._check_address(websocket)
            self._check_token(websocket, self._access.approval)
            if websocket.url.path != "/approval":
                raise _RefusedError(404, "there is /approval here")
            await self._channel.join(_HANDOVER_S)
            await self._channel.connect(websocket)
        except (_RefusedError, TimeoutError, RuntimeError):
            await websocket.close(_REFUSED)

    def _check_address(self, connection: HTTPConnection[Any]) -> None:
        hosts = connection.headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise _RefusedError(421, "this address is not served under that name")
        if "origin" in connection.headers:
            raise _RefusedError(403, "pages have no access")

    @staticmethod
    def _check_token(connection: HTTPConnection[Any], token: str) -> None:
        given = connection.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {token}".encode()):
            raise _RefusedError(401, "the token of this server is missing or another one's")


async def _call_in(request: Request) -> tuple[str, str, JsonObject]:
    """The call that a body names. What it says of the server's parameters is not read."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_BYTES_MAX:
                    raise _RefusedError(413, f"the body is larger than {BODY_BYTES_MAX} bytes")
    except TimeoutError:
        raise _RefusedError(408, "the body took too long") from None
    given = await asyncio.to_thread(parse_arguments, bytes(body))
    if isinstance(given, str):
        raise _RefusedError(400, given)
    server, tool, arguments = given.get("server_name"), given.get("tool_name"), given.get("tool_args")
    if not (_is_name(server) and _is_name(tool) and isinstance(arguments, dict)):
        raise _RefusedError(422, "server_name and tool_name must be strings, and tool_args an object")
    return str(server), str(tool), arguments


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _NAME_CHARS_MAX


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
