"""Our client id at an authorization server: registered beforehand, by a client document, or now (RFC 7591).

SECURITY: a client id and its secret belong to the issuer that gave them and are sent to no other; only the address of a
client document is the same for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.phrases import said
from moonpool.oauth.errors import OAuthError

if TYPE_CHECKING:
    from moonpool.configuration.oauth_settings import OAuthSettings
    from moonpool.core.json import JsonObject
    from moonpool.oauth.metadata import IssuerMetadata
    from moonpool.oauth.wire import LoginHttp

METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
"""The authentication methods that we support at a token endpoint; a program on a user's machine uses a secret only if
required.
"""
KEY_METHOD: Final = "private_key_jwt"
_TEXT_MAX: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClientIdentity:
    """A client id and its authentication at the token endpoint."""

    client_id: str
    client_secret: str = ""
    auth_method: str = "none"
    redirect_uri: str = ""
    private_key: str = ""  # never stored: it comes from the configuration

    def __repr__(self) -> str:
        return f"ClientIdentity({self.client_id!r})"


async def identify(
    http: LoginHttp,
    issuer: IssuerMetadata,
    settings: OAuthSettings,
    *,
    redirect_uri: str,
    scopes: tuple[str, ...] | None,
    known: ClientIdentity | None,
) -> ClientIdentity:
    """The client to log in as; `known` is an earlier registration at this issuer. Raises OAuthError."""
    if settings.client_id:
        method = KEY_METHOD if settings.private_key else _method_of(issuer, has_secret=bool(settings.client_secret))
        return ClientIdentity(
            client_id=settings.client_id,
            client_secret=settings.client_secret,
            auth_method=method,
            redirect_uri=redirect_uri,
            private_key=settings.private_key,
        )
    if settings.client_metadata_url and issuer.takes_client_documents:
        return ClientIdentity(client_id=settings.client_metadata_url, redirect_uri=redirect_uri)
    if known is not None and known.redirect_uri == redirect_uri:
        return known
    if not issuer.registration_endpoint:
        raise OAuthError(
            f"{said(issuer.issuer, 200)} registers no clients by itself; register one there by hand and put its "
            '"client_id" into the "oauth" block of the server'
        )
    return await _register(http, issuer, redirect_uri, scopes)


async def _register(
    http: LoginHttp, issuer: IssuerMetadata, redirect_uri: str, scopes: tuple[str, ...] | None
) -> ClientIdentity:
    offered = issuer.token_auth_methods
    wanted = METHODS[0] if offered is None else next((method for method in METHODS if method in offered), METHODS[0])
    body: JsonObject = {
        "client_name": "Moonpool",
        "application_type": "native",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted,
    }
    if scopes:
        body["scope"] = " ".join(scopes)
    answer = await http.post_json(issuer.registration_endpoint, body)
    given = answer.body or {}
    if answer.status not in {200, 201}:
        why = said(f"{given.get('error', '')} {given.get('error_description', '')}", 300)
        raise OAuthError(f"{said(issuer.issuer, 200)} did not register us: HTTP {answer.status} {why}".rstrip())
    client_id, secret = given.get("client_id"), given.get("client_secret")
    if not isinstance(client_id, str) or not 0 < len(client_id) <= _TEXT_MAX:
        raise OAuthError(f"{said(issuer.issuer, 200)} registered us but gave no client id")
    secret = secret if isinstance(secret, str) and len(secret) <= _TEXT_MAX else ""
    method = given.get("token_endpoint_auth_method", wanted if (wanted == "none") != bool(secret) else None)
    method = method or ("client_secret_basic" if secret else "none")
    if method not in METHODS or (method != "none" and not secret):
        raise OAuthError(
            f"{said(issuer.issuer, 200)} registered us for an authentication method that Moonpool does not have "
            f"({said(str(method), 60)}{'' if secret else ', without a secret'})"
        )
    return ClientIdentity(client_id=client_id, client_secret=secret, auth_method=str(method), redirect_uri=redirect_uri)


def _method_of(issuer: IssuerMetadata, *, has_secret: bool) -> str:
    if not has_secret:
        return "none"
    offered = issuer.token_auth_methods
    if offered is None:
        return "client_secret_basic"  # RFC 8414 §2
    for method in METHODS[1:]:
        if method in offered:
            return method
    raise OAuthError(
        f"{said(issuer.issuer, 200)} takes no client secret; it offers {said(', '.join(offered), 200) or 'nothing'}"
    )
