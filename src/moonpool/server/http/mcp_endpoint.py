"""`/mcp`, `/mcp/<profile>`, `/sse` and `/message`: every revision of MCP on one address.

| request | is |
|---|---|
| POST with `MCP-Protocol-Version: 2026-07-28` | that revision: no sessions, no handshake; the SDK's own entry |
| POST `initialize` | opens a session |
| POST, GET, DELETE with `Mcp-Session-Id` | of that session |
| any other POST | one request or batch without a session |
| any of a stateless profile | one request, whatever its headers say of sessions; see `stateless_mcp` |

SECURITY: nothing is read from a request before its caller is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from moonpool.features.caller_limits.model import LimitExceededError
from moonpool.server.http import sessionless, sse_endpoint, stateless_mcp
from moonpool.server.http.admission import caller_in
from moonpool.server.http.mcp_session import SESSION_HEADER
from moonpool.server.http.request_limits import RequestError, read_body
from moonpool.server.http.request_log import keep_method
from moonpool.server.http.request_spans import hand_on
from moonpool.server.http.responses import JSON, STREAM, limit_error, rpc_error, rpc_response
from moonpool.server.http.revisions import (
    ASSUMED,
    VERSION_HEADER,
    Accepted,
    is_modern,
    member,
    version_problem,
)
from moonpool.server.mcp.messages import (
    INVALID_REQUEST,
    PARSE_ERROR,
    Ignored,
    Invalid,
    encode_line,
    error_payload,
    parse_line,
    read_message,
)
from moonpool.server.mcp.profiles import DEFAULT_PROFILE, UnknownProfileError
from moonpool.server.mcp.protocol_gate import batch_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Message, Receive, Scope, Send

    from moonpool.features.caller_limits.service import CallerLimiter
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.mcp_session import McpSession
    from moonpool.server.http.principal_servers import PrincipalServer, PrincipalServers
    from moonpool.server.mcp.profiles import Profile, Profiles

LAST_EVENT_HEADER: Final = "last-event-id"
_HANDSHAKE_S: Final = 30.0
"""A handshake is answered as one JSON body; it lists servers first, for `LISTING_WAIT_S` at most."""
_UNKNOWN_SESSION: Final = "there is no such session here: it has ended, or was never open; send initialize"


class McpEndpoints:
    """The endpoints of MCP, as ASGI applications behind `admission`."""

    def __init__(
        self, servers: PrincipalServers, profiles: Profiles, limiter: CallerLimiter, *, body_bytes_max: int
    ) -> None:
        self._servers, self._profiles, self._limiter, self._body_bytes_max = servers, profiles, limiter, body_bytes_max

    async def mcp(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`/mcp` and `/mcp/<profile>`."""
        with (await self._server(scope)).using() as server:
            match scope["method"]:
                case "POST":
                    await self._post(server, scope, receive, send)
                case "GET" if server.stateless is not None:
                    caller_in(scope).require("execute")
                    await _quiet_stream(server, Headers(scope=scope))(scope, receive, send)
                case _ if server.stateless is not None:
                    await stateless_mcp.no_method()(scope, receive, send)
                case "GET":
                    caller_in(scope).require("execute")
                    await _get(server, Headers(scope=scope))(scope, receive, send)
                case "DELETE":
                    caller_in(scope).require("execute")
                    await _delete(server, Headers(scope=scope))(scope, receive, send)
                case _:
                    response = rpc_error(405, "use POST, GET or DELETE", headers={"allow": "POST, GET, DELETE"})
                    await response(scope, receive, send)

    async def sse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`GET /sse`. Raises RequestError."""
        server = await self._server_of_sessions(scope)
        if scope["method"] != "GET":
            response = rpc_error(
                405, "use GET; messages go to the address that the stream names", headers={"allow": "GET"}
            )
        elif not _takes_streams(Headers(scope=scope)):
            response = rpc_error(406, f"the answer is {STREAM}; accept it")
        else:
            caller_in(scope).require("execute")
            response = sse_endpoint.open_stream(server, scope.get("root_path", "") + sse_endpoint.MESSAGE_PATH)
        await response(scope, receive, send)

    async def message(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /message?sessionId=`. Raises RequestError."""
        with (await self._server_of_sessions(scope)).using() as server:
            if scope["method"] != "POST":
                await rpc_error(405, "use POST", headers={"allow": "POST"})(scope, receive, send)
                return
            value = await self._read(server, scope, receive)
            require_rights(caller_in(scope), value)
            session_id = Request(scope).query_params.get("sessionId")
            ended = await self._begun(server, caller_in(scope), value)
            if isinstance(ended, Response):
                await ended(scope, receive, send)
                return
            await (await sse_endpoint.take_message(server, session_id, value, ended))(scope, receive, send)

    async def _server(self, scope: Scope) -> PrincipalServer:
        """The server of this caller with the profile that the path or the credential names."""
        return await self._servers.get(caller_in(scope), self._profile(scope))

    async def _server_of_sessions(self, scope: Scope) -> PrincipalServer:
        profile = self._profile(scope)
        if profile.is_stateless:
            raise RequestError(404, f"there is nothing at this path in the profile {profile.name}; MCP is at /mcp")
        return await self._servers.get(caller_in(scope), profile)

    def _profile(self, scope: Scope) -> Profile:
        """Raises UnknownProfileError."""
        caller = caller_in(scope)
        named = scope.get("path_params", {}).get("profile")
        if named is not None and caller.profile is not None and named != caller.profile:
            raise UnknownProfileError(f"there is no profile {named[:60]!r} for this credential; use /mcp")
        return self._profiles.find(caller.profile or named or DEFAULT_PROFILE)

    async def _read(self, server: PrincipalServer, scope: Scope, receive: Receive) -> Any:
        """The decoded body. Raises RequestError."""
        headers = Headers(scope=scope)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise RequestError(415, f"the body must be {JSON}, not {kind[:80] or 'unnamed'}", {"connection": "close"})
        bytes_max = min(self._body_bytes_max, server.profile.body_bytes_max or self._body_bytes_max)
        body = await read_body(scope["headers"], receive, bytes_max=bytes_max)
        try:
            value: Any = parse_line(body)
        except ValueError as error:
            raise RequestError(400, f"Parse error: {error}", rpc_code=PARSE_ERROR) from None
        keep_method(scope, "batch" if isinstance(value, list) else member(value, "method"))
        hand_on(scope, cast("Any", value))
        return cast("Any", value)

    async def _post(self, server: PrincipalServer, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        accepted = Accepted.of(headers)
        if not (accepted.json or accepted.streams):
            raise RequestError(406, f"the answer is {JSON} or {STREAM}; accept one of them", {"connection": "close"})
        value = await self._read(server, scope, receive)
        version, stateless = headers.get(VERSION_HEADER), server.stateless
        problem_of = version_problem if stateless is None else stateless_mcp.version_problem
        if (refusal := problem_of(version, value)) is not None:
            await refusal(scope, receive, send)
            return
        require_rights(caller_in(scope), value)
        modern = stateless is None and is_modern(version)
        ended = await self._begun(server, caller_in(scope), value, modern=modern)
        if isinstance(ended, Response):
            await ended(scope, receive, send)
        elif stateless is not None:
            try:
                response = await stateless_mcp.answer(stateless, accepted, value, receive)
            finally:
                ended()
            await response(scope, receive, send)
        elif modern:
            try:
                await _modern(server, scope, value, receive, send)
            finally:
                ended()
        else:
            await (await _handshake_era(server, headers, accepted, value, receive, ended))(scope, receive, send)

    async def _begun(
        self, server: PrincipalServer, caller: HttpCaller, value: Any, *, modern: bool = False
    ) -> Callable[[], None] | Response:
        """What is to be called when all executions of these messages have ended, or why they may not begin.

        A request of 2026-07-28 that brings back a state goes on with a call that was counted before.
        """
        messages = cast("list[Any]", value) if isinstance(value, list) else [value]
        asked = [params(one) for one in messages if member(one, "method") == "tools/call"]
        runs = [one for one in asked if server.runs(one.get("name"))]
        try:
            if len(messages) > 1:
                await self._limiter.take(caller, len(messages) - 1)
            if not runs:
                return _nothing
            resumes = modern and isinstance(runs[0].get("requestState"), str)
            return await self._limiter.begin(caller, len(runs), charged=not resumes)
        except LimitExceededError as error:
            request_id = member(messages[0], "id") if len(messages) == 1 else None
            return limit_error(error, rpc=True, request_id=request_id if isinstance(request_id, str | int) else None)


def params(message: Any) -> dict[str, Any]:
    """The parameters of a decoded message; empty for what has none."""
    found = member(message, "params")
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _nothing() -> None:
    """No execution has begun."""


async def _handshake_era(
    server: PrincipalServer,
    headers: Headers,
    accepted: Accepted,
    value: Any,
    receive: Receive,
    ended: Callable[[], None],
) -> Response:
    """A POST of a revision up to 2025-11-25. `ended` is called when nothing of it runs any more."""
    session_id = headers.get(SESSION_HEADER)
    if session_id is not None:
        session = server.sessions.get(session_id)
        refusal = _session_problem(session, headers)
        if refusal is not None or session is None:
            ended()
            return refusal or _unknown_session()
        if (problem := _unanswerable(value, session.version)) is not None:
            ended()
            return rpc_response(problem, 400)
        return await session.post(value, accepted, receive, ended=ended)
    if member(value, "method") == "initialize" and "id" in value:
        return await _open_session(server, accepted, value, receive)
    try:
        return await sessionless.answer(server.server, headers.get(VERSION_HEADER, ASSUMED), value)
    finally:
        ended()


async def _open_session(server: PrincipalServer, accepted: Accepted, value: Any, receive: Receive) -> Response:
    if (problem := _unanswerable(value)) is not None:
        return rpc_response(problem, 400)
    session = server.open_session()
    opened = False
    try:
        response = await session.post(value, accepted, receive, quick_s=_HANDSHAKE_S)
        opened = bool(session.version)
    finally:
        if not opened:
            server.close_session(session)
    if not opened:
        del response.headers[SESSION_HEADER]
    return response


def _quiet_stream(server: PrincipalServer, headers: Headers) -> Response:
    if not _takes_streams(headers):
        return rpc_error(406, f"the answer is {STREAM}; accept it")
    return stateless_mcp.listen(server)


def _get(server: PrincipalServer, headers: Headers) -> Response:
    """A stream of what belongs to no call, or the rest of one that has broken."""
    if is_modern(headers.get(VERSION_HEADER)):
        return rpc_error(405, "this revision has POST only", headers={"allow": "POST"})
    if not _takes_streams(headers):
        return rpc_error(406, f"the answer is {STREAM}; accept it")
    session = server.sessions.get(headers.get(SESSION_HEADER, ""))
    refusal = _session_problem(session, headers)
    if refusal is not None or session is None:
        return refusal or _unknown_session()
    event_id = headers.get(LAST_EVENT_HEADER)
    return session.listen() if event_id is None else session.resume(event_id)


def _delete(server: PrincipalServer, headers: Headers) -> Response:
    """End a session, and what runs in it."""
    if is_modern(headers.get(VERSION_HEADER)):
        return rpc_error(405, "this revision has POST only", headers={"allow": "POST"})
    session = server.sessions.get(headers.get(SESSION_HEADER, ""))
    refusal = _session_problem(session, headers)
    if refusal is not None or session is None:
        return refusal or _unknown_session()
    server.close_session(session)
    return Response(status_code=204)


def _session_problem(session: McpSession | None, headers: Headers) -> Response | None:
    if SESSION_HEADER not in headers:
        return rpc_error(400, "Mcp-Session-Id is missing; send the one that came with the answer to initialize")
    if session is None or not session.is_running:
        return _unknown_session()
    version = headers.get(VERSION_HEADER)
    if version is not None and version != session.version:
        return rpc_error(400, f"this session speaks {session.version}; send that as MCP-Protocol-Version")
    session.touch()
    return None


def _unknown_session() -> Response:
    return rpc_error(404, _UNKNOWN_SESSION)


def _unanswerable(value: Any, version: str = "") -> Any:
    """The error for what is no message and no batch of this revision."""
    if isinstance(value, list):
        problem = batch_problem([read_message(one) for one in cast("list[object]", value)], version)
        return error_payload(Invalid(INVALID_REQUEST, problem)) if problem else None
    match read_message(value):
        case Invalid() as problem:
            return error_payload(problem)
        case Ignored(problem):
            return error_payload(Invalid(INVALID_REQUEST, problem))
        case _:
            return None


async def _modern(server: PrincipalServer, scope: Scope, value: Any, receive: Receive, send: Send) -> None:
    """Hand a request of 2026-07-28 to the SDK. Closing the connection ends what runs."""
    if (problem := _unanswerable(value)) is not None:
        await rpc_response(problem, 400)(scope, receive, send)
        return
    body = encode_line(value)
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    names = [one for one in scope["headers"] if one[0] not in {b"accept", b"content-length"}]
    accept = b", ".join(one for name, one in scope["headers"] if name == b"accept") or b"*/*"
    headers = [*names, (b"accept", accept), (b"content-length", str(len(body)).encode())]
    await server.modern.handle_request({**scope, "headers": headers}, receive_again, send)


def require_rights(caller: HttpCaller, value: Any) -> None:
    """Raises ScopeError when the credential lacks what one of the messages needs."""
    messages = cast("list[object]", value) if isinstance(value, list) else [value]
    for message in messages:
        method = member(message, "method")
        caller.require("files" if isinstance(method, str) and method.startswith("resources/") else "execute")


def _takes_streams(headers: Headers) -> bool:
    accepted = Accepted.of(headers)
    return accepted.streams or "accept" not in headers or "*/*" in headers["accept"]
