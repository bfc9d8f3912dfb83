"""The application below `/v1`: who calls, what they may, one endpoint, errors in one form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match, Route

from moonpool.core.errors import InputError
from moonpool.server.http.admission import challenge_in
from moonpool.server.http.baponi_errors import baponi_answer, is_baponi_path
from moonpool.server.http.callers import AuthenticationError
from moonpool.server.http.responses import unauthorized
from moonpool.server.http.sessions.bodies import error_answer, json_answer
from moonpool.server.http.sessions.errors import ProfileForbidsError, UnknownPathError
from moonpool.server.http.sessions.file_routes import FileRoutes
from moonpool.server.http.sessions.openapi import document
from moonpool.server.http.sessions.operations import NoQuery
from moonpool.server.http.sessions.organisation_routes import OrganisationRoutes
from moonpool.server.http.sessions.routes import SessionRoutes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request

    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.sessions.operations import Endpoint, Operation
    from moonpool.server.http.sessions.organisation_routes import Affairs
    from moonpool.server.http.sessions.registry import SessionRegistry

    CallerOf = Callable[[Request], HttpCaller]


def sessions_application(
    registry: SessionRegistry, caller_of: CallerOf, affairs: Affairs | None = None, more: Sequence[Operation] = ()
) -> Starlette:
    """To be mounted at `/v1`, behind whatever authenticates: `caller_of` gives the caller of a request. `more` is what
    others than sessions and organisations offer there.

    SECURITY: it trusts `caller_of` for all but `/openapi.json`, which is public (`openapi_route`, where what stands
    before this lets nobody pass without a credential).
    """
    routes = [
        Route(one.path, _endpoint(one, one.endpoint, caller_of), methods=[one.method], name=one.name)
        for one in _offered(registry, affairs, more)
        if one.endpoint is not None
    ]
    application = Starlette(
        routes=[*routes, openapi_route(registry, affairs, more, path="/openapi.json")],
        exception_handlers={HTTPException: _refused},
    )
    # SECURITY: behind TLS it would send clients to http://, and with them their credentials.
    application.router.redirect_slashes = False
    return application


def openapi_route(
    registry: SessionRegistry,
    affairs: Affairs | None = None,
    more: Sequence[Operation] = (),
    *,
    path: str = "/v1/openapi.json",
) -> Route:
    """What describes the others, for everybody."""
    described = document(_offered(registry, affairs, more))

    async def openapi(request: Request) -> Response:
        del request
        return json_answer(described)

    return Route(path, openapi, methods=["GET"])


def _offered(registry: SessionRegistry, affairs: Affairs | None, more: Sequence[Operation]) -> tuple[Operation, ...]:
    """Without `affairs` organisations manage nothing here; `more` are no sessions'."""
    own = () if affairs is None else OrganisationRoutes(affairs).operations()
    return (*SessionRoutes(registry).operations(), *FileRoutes(registry).operations(), *own, *more)


def _endpoint(operation: Operation, work: Endpoint, caller_of: CallerOf) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        whole = False
        try:
            caller = caller_of(request)
            whole = caller.is_terminal
            if operation.profiles is not None and caller.profile not in operation.profiles:
                raise ProfileForbidsError(caller.profile or "")
            if operation.scope is not None:
                caller.require(operation.scope)
            if operation.query is NoQuery and request.url.query:
                raise InputError(f"{operation.name} takes no query")
            if _has_nul(request):
                raise InputError("the address holds a NUL character, which no name here has; remove it")
            return await work(request, caller)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except AuthenticationError as error:  # taken back before the body was whole
            return unauthorized(error, challenge_in(request.scope))
        except Exception as error:  # noqa: BLE001  the boundary of requests: whatever it is, it has one form
            return operation.form.answer(error, whole=whole)

    return endpoint


def _has_nul(request: Request) -> bool:
    """PostgreSQL refuses one in whatever is looked up, which would read as if the database were gone."""
    asked = (word for pair in request.query_params.multi_items() for word in pair)
    return any("\0" in str(word) for word in (*request.path_params.values(), *asked))


async def _refused(request: Request, refused: Exception) -> Response:
    """A path or method that is not there. Starlette names the methods of one route; a path has several here."""
    assert isinstance(refused, HTTPException)
    routes: list[Route] = [one for one in request.app.routes if one.matches(request.scope)[0] is not Match.NONE]
    allowed = sorted({method for one in routes for method in one.methods or ()})
    answer = baponi_answer if is_baponi_path(request.scope["path"]) else error_answer
    return answer(UnknownPathError(), refused.status_code, {"allow": ", ".join(allowed)} if allowed else None)
