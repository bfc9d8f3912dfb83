"""The ASGI application of the service: what every request passes, the routes, and errors in one form.

A request passes in this order: the names of this service, readiness, its caller and its rate, its endpoint. Probes
pass nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from starlette.responses import Response
from starlette.routing import Match, Mount, Route, Router

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.features.caller_limits.model import LimitExceededError
from moonpool.server.http.admission import caller_in, keep_caller
from moonpool.server.http.baponi_errors import baponi_answer, is_baponi_path
from moonpool.server.http.callers import AuthenticationError, ScopeError
from moonpool.server.http.health import healthz, readyz
from moonpool.server.http.request_limits import ClientGoneError, RequestError
from moonpool.server.http.request_spans import begin_request, end_request
from moonpool.server.http.responses import limit_error, plain_error, rpc_error, unauthorized
from moonpool.server.http.sessions.bodies import error_answer
from moonpool.server.http.sessions.errors import UnknownPathError
from moonpool.server.mcp.profiles import UnknownProfileError
from moonpool.store.database.base import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from moonpool.features.caller_limits.service import CallerLimiter
    from moonpool.server.http.admission import Admission
    from moonpool.server.http.health import Readiness
    from moonpool.server.http.request_limits import Names
    from moonpool.tracing.spans import Tracing

RETRY_S: Final = "1"
ADMITTED_S: Final = 0.1
"""How long an admission counts for a request whose body is not whole yet; beside `keys.service.REMEMBERED_S`."""
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_RPC_PATHS: Final = ("/mcp", "/sse", "/message")
_SESSIONS_PATH: Final = "/v1/"
_log = logging.getLogger(__name__)


class Application:
    """Answers from the start; `open` gives it the endpoints once the service is there."""

    def __init__(self, names: Names, admission: Admission, readiness: Readiness) -> None:
        self._names, self._admission, self._readiness = names, admission, readiness
        self._router: Router | None = None
        self._public: Router | None = None
        self._limiter: CallerLimiter | None = None
        self._tracing: Tracing | None = None

    def open(
        self,
        routes: Sequence[BaseRoute],
        public: Sequence[BaseRoute] = (),
        *,
        limiter: CallerLimiter | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """`routes` need a caller, whose requests `limiter` counts and get spans of `tracing`; `public` ones do not."""
        self._limiter, self._tracing = limiter, tracing
        self._router = Router(routes, redirect_slashes=False, default=_nothing_here)
        self._public = Router(public, redirect_slashes=False, default=_nothing_here)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"there is nothing but HTTP here, and no {scope['type']}")
        status = 0  # once an answer has begun

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._answer(scope, receive, watched)
        except ClientGoneError:
            await Response(status_code=400)(scope, receive, send)  # nobody reads it
        except Exception as error:
            if status:
                raise  # the connection is broken off: half an answer must not pass for a whole one
            await self._refusal(scope, error)(scope, receive, watched)
        finally:
            end_request(scope, status)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (probe := await self._probe(scope)) is not None:
            await probe(scope, receive, send)
            return
        self._names.check(scope["headers"])
        if self._readiness.phase != "ready" or self._router is None or self._public is None:
            raise RequestError(503, f"the service is {self._readiness.phase}; try again", {"retry-after": RETRY_S})
        if any(route.matches(scope)[0] is not Match.NONE for route in self._public.routes):
            await self._public(scope, receive, send)
            return
        caller = await self._admission.caller(scope)
        if self._limiter is not None:
            await self._limiter.take(caller)
        keep_caller(scope, caller, self._admission)
        if self._tracing is not None:
            begin_request(self._tracing, scope)
        await self._router(scope, self._admitted_again(scope, receive), send)

    def _admitted_again(self, scope: Scope, receive: Receive) -> Receive:
        """SECURITY: a body may end long after its caller was admitted, and what is done then is done with the rights of
        that moment. So a credential that was taken back meanwhile is refused before anything has the whole body.
        """
        now = asyncio.get_running_loop().time
        admitted_at = now()

        async def received() -> Message:
            message = await receive()
            is_whole = message["type"] == "http.request" and not message.get("more_body", False)
            if is_whole and scope["method"] in _WITH_BODY and now() - admitted_at > ADMITTED_S:
                await self._admission.caller(scope)
            return message

        return received

    async def _probe(self, scope: Scope) -> Response | None:
        if scope["path"] not in {"/healthz", "/readyz"}:
            return None
        if scope["method"] not in {"GET", "HEAD"}:
            return plain_error(405, "request_refused", "use GET", {"allow": "GET, HEAD"})
        return healthz() if scope["path"] == "/healthz" else await readyz(self._readiness)

    def _refusal(self, scope: Scope, error: Exception) -> Response:
        """SECURITY: errors of this host are not shown to whoever calls from elsewhere; the log has them."""
        if isinstance(error, AuthenticationError):
            return unauthorized(error, self._admission.challenge(scope))
        if scope["path"].startswith(_SESSIONS_PATH):
            return _refusal_about_sessions(scope, error)
        rpc = scope["path"].startswith(_RPC_PATHS)
        match error:
            case ScopeError():
                challenge = {"www-authenticate": self._admission.challenge(scope, error.scope)}
                return plain_error(403, error.code, str(error), challenge)
            case RequestError():
                if rpc:
                    return rpc_error(error.status, str(error), code=error.rpc_code, headers=error.headers)
                return plain_error(error.status, error.code, str(error), error.headers)
            case LimitExceededError():
                return limit_error(error, rpc=rpc)
            case UnknownProfileError():
                return plain_error(404, error.code, str(error))
            case DatabaseError():  # it names hosts and files
                _log.error("a request to %s failed: %s", scope["path"], error)
                text = "the service cannot use its database now; try again"
                return plain_error(503, error.code, text, {"retry-after": RETRY_S})
            case MoonpoolError() if error.fault is Fault.CALLER or error.retryable:
                status = 503 if error.retryable else 400
                headers = {"retry-after": RETRY_S} if error.retryable else {}
                return plain_error(status, error.code, str(error), headers)
            case _:
                _log.error("a request to %s failed", scope["path"], exc_info=error)
                text = "Internal error; the server's log says more"
                return rpc_error(500, text) if rpc else plain_error(500, "internal_error", text)


def _refusal_about_sessions(scope: Scope, error: Exception) -> Response:
    """The same in the form that `/v1/openapi.json` describes."""
    answer = baponi_answer if is_baponi_path(scope["path"]) else error_answer
    match error:
        case RequestError():
            return answer(error, error.status, error.headers)
        case DatabaseError():
            return answer(error, 503)
        case _:
            return answer(error)


def asgi_route(path: str, endpoint: ASGIApp) -> Route:
    """A route to an ASGI application that looks at the method itself."""
    return Route(path, _Endpoint(endpoint))


def mounted(path: str, application: ASGIApp) -> Mount:
    """Everything below a path."""
    return Mount(path, application)


class _Endpoint:
    """Starlette takes a class's instance for an ASGI application, and a function for an endpoint of its own kind."""

    def __init__(self, endpoint: ASGIApp) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._endpoint(scope, receive, send)


def admins_only(endpoint: ASGIApp, organisation: str) -> ASGIApp:
    """For callers of `organisation`, the operator's, with the scope `admin`.

    SECURITY: the figures are of all organisations together, which an administrator of one must not see.
    """

    async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
        caller = caller_in(scope)
        caller.require("admin")
        if caller.organisation != organisation:
            raise RequestError(403, f"this is for the operator; use a credential of the organisation {organisation}")
        await endpoint(scope, receive, send)

    return admitted


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"].startswith(_SESSIONS_PATH):  # of a character that Starlette has in no path
        answer = baponi_answer if is_baponi_path(scope["path"]) else error_answer
        await answer(UnknownPathError())(scope, receive, send)
        return
    await plain_error(404, "not_found", "there is nothing at this path; MCP is at /mcp")(scope, receive, send)
