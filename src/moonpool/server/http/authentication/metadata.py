"""Where clients learn how to get a token: protected resource metadata (RFC 9728) and challenges (RFC 6750).

The service is no authorization server: it has no endpoint that gives out codes, tokens or client ids, and no login of
third parties. Clients of revision 2025-03-26 look for one at our origin; they are redirected to the metadata of the
issuer.

SECURITY: addresses in answers are made of the operator's origins; a request only chooses among them. Redirects go to
the configured issuer, and nothing of the request is in their target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from moonpool.core.scopes import DEFAULT_SCOPES, SCOPES
from moonpool.oauth.addresses import issuer_metadata_addresses, origin
from moonpool.server.http.authentication.resource import MCP, SSE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from starlette.requests import Request
    from starlette.types import Scope as ConnectionScope

    from moonpool.core.scopes import Scope
    from moonpool.server.http.authentication.issuer_file import IssuerEntry
    from moonpool.server.http.authentication.resource import Resource

ChallengeError: TypeAlias = Literal["", "invalid_token", "insufficient_scope"]

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_AS_WELL_KNOWN: Final = "/.well-known/oauth-authorization-server"
_OIDC_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_DOORS: Final = {"/message": SSE}
_REMEDY: Final = "unknown, expired or revoked; send a valid key or token"
_PUBLIC: Final = {"access-control-allow-origin": "*", "cache-control": "public, max-age=300"}


class ResourceMetadata:
    """What a service with OAuth issuers says about itself."""

    def __init__(self, issuers: Sequence[IssuerEntry], resource: Resource) -> None:
        self._issuers, self._resource = issuers, resource

    def challenge(self, connection: ConnectionScope, missing: Scope | None = None) -> str:
        """`WWW-Authenticate` for a request that was refused, because of its credential or of a `missing` scope."""
        path: str = connection["path"]
        path = _DOORS.get(path, path)
        well_known = f"{WELL_KNOWN}{path}" if self._resource.is_path(path) else WELL_KNOWN
        where = self._resource.identifier(well_known, origin=_origin_of(connection))
        scopes = DEFAULT_SCOPES if missing is None else (missing,)  # the rest when it needs it
        return _bearer_challenge(
            _error_of(connection, missing), resource_metadata=where, scope=" ".join(self._names(scopes))
        )

    def routes(self) -> list[Route]:
        """The routes, which need no credential."""
        return [
            Route(WELL_KNOWN, self._document),
            Route(f"{WELL_KNOWN}/{{path:path}}", self._document),
            Route(_AS_WELL_KNOWN, self._redirect),
            Route(_OIDC_WELL_KNOWN, self._redirect),
        ]

    async def _document(self, request: Request) -> Response:
        path = f"/{request.path_params['path']}" if "path" in request.path_params else MCP
        if not self._resource.is_path(path):
            return JSONResponse({"error": "not_found", "message": "There is no such resource."}, status_code=404)
        document = {
            "resource": self._resource.identifier(path, origin=_origin_of(request.scope)),
            "authorization_servers": [entry.url for entry in self._issuers],
            "scopes_supported": self._names(SCOPES),
            "bearer_methods_supported": ["header"],
            "resource_name": "Moonpool",
        }
        return JSONResponse(document, headers=_PUBLIC)

    async def _redirect(self, request: Request) -> Response:
        kind = request.url.path.removeprefix("/.well-known/")
        targets = issuer_metadata_addresses(self._issuers[0].url)
        # Of OpenID Connect the last: issuers have it behind their path, as its own specification says.
        return RedirectResponse([target for target in targets if f"/{kind}" in target][-1], headers=_PUBLIC)

    def _names(self, scopes: Collection[Scope]) -> list[str]:
        """What the first issuer, which clients choose unless told otherwise, calls these scopes."""
        return list(dict.fromkeys(name for name, scope in self._issuers[0].scopes.named() if scope in scopes))


def key_challenge(connection: ConnectionScope, missing: Scope | None = None) -> str:
    """The same without issuers: keys are the only credentials, and there is nothing to find."""
    return _bearer_challenge(_error_of(connection, missing), scope=missing or "")


def _error_of(connection: ConnectionScope, missing: Scope | None) -> ChallengeError:
    """What was wrong (RFC 6750 §3.1); nothing, if the request had no credential at all."""
    if missing is not None:
        return "insufficient_scope"
    return "invalid_token" if any(name == b"authorization" for name, _ in connection["headers"]) else ""


def _bearer_challenge(error: ChallengeError = "", *, resource_metadata: str = "", scope: str = "") -> str:
    given = {
        "realm": "moonpool",
        "error": error,
        "error_description": _REMEDY if error == "invalid_token" else "",
        "resource_metadata": resource_metadata,
        "scope": scope,
    }
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in given.items() if value)


def _origin_of(connection: ConnectionScope) -> str:
    """The origin that the client used, as it says; empty if it says none."""
    host = next((value.decode("latin-1") for name, value in connection["headers"] if name == b"host"), "")
    try:
        return origin(f"{connection['scheme']}://{host}")
    except ValueError:
        return ""
