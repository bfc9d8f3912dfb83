"""The token endpoint: exchanges a code or a refresh token for an access token.

SECURITY: `resource` (RFC 8707) is in every request, so that no token is valid for another server; a server's error
message is shown without the secrets of the request.
"""

from __future__ import annotations

import base64
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from moonpool.configuration.expansion import conceal
from moonpool.core.phrases import said
from moonpool.oauth.errors import GrantRefusedError, OAuthError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject
    from moonpool.oauth.registration import ClientIdentity
    from moonpool.oauth.wire import LoginHttp

_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,32768}")
_LIFETIME_S_MAX: Final = 10 * 365 * 86_400
_REFUSALS: Final = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TokenSet:
    """The tokens from a token endpoint."""

    access_token: str
    refresh_token: str = ""
    expires_at: float | None = None  # seconds since 1970; None: not given
    scope: str | None = None

    def __repr__(self) -> str:
        return "TokenSet(...)"


async def redeem_code(
    http: LoginHttp, endpoint: str, client: ClientIdentity, *, issuer: str, code: str, verifier: str, resource: str
) -> TokenSet:
    """Exchange a code for tokens. Raises OAuthError."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": client.redirect_uri,
        "code_verifier": verifier,
        "resource": resource,
    }
    return await _request(http, endpoint, client, form, issuer)


async def machine_tokens(
    http: LoginHttp,
    endpoint: str,
    client: ClientIdentity,
    *,
    issuer: str,
    scopes: tuple[str, ...] | None,
    resource: str,
) -> TokenSet:
    """The client's own tokens (RFC 6749 §4.4). Raises OAuthError."""
    form = {"grant_type": "client_credentials", "resource": resource}
    if scopes:
        form["scope"] = " ".join(scopes)
    return await _request(http, endpoint, client, form, issuer)


async def revoke(http: LoginHttp, endpoint: str, client: ClientIdentity, *, issuer: str, tokens: TokenSet) -> None:
    """Revoke these tokens at the issuer (RFC 7009), the refresh token first. Raises OAuthError."""
    named = (("refresh_token", tokens.refresh_token), ("access_token", tokens.access_token))
    for hint, token in named:
        if token:
            form, headers = _authenticated(client, {"token": token, "token_type_hint": hint}, issuer)
            answer = await http.post_form(endpoint, form, headers)
            if answer.status != 200 and not (hint == "access_token" and answer.status == 400):  # RFC 7009 §2.2.1
                raise OAuthError(f"the authorization server did not revoke the login: HTTP {answer.status}")


async def refresh(
    http: LoginHttp, endpoint: str, client: ClientIdentity, *, issuer: str, tokens: TokenSet, resource: str
) -> TokenSet:
    """A new token set; members that the server leaves out are kept. Raises OAuthError, GrantRefusedError."""
    form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token, "resource": resource}
    renewed = await _request(http, endpoint, client, form, issuer)
    return TokenSet(
        access_token=renewed.access_token,
        refresh_token=renewed.refresh_token or tokens.refresh_token,
        expires_at=renewed.expires_at,
        scope=tokens.scope if renewed.scope is None else renewed.scope,
    )


async def _request(
    http: LoginHttp, endpoint: str, client: ClientIdentity, form: dict[str, str], issuer: str
) -> TokenSet:
    form, headers = _authenticated(client, form, issuer)
    answer = await http.post_form(endpoint, form, headers)
    body = answer.body or {}
    if answer.status not in {200, 201}:
        raise _refusal(answer.status, body, secret=[*_secret_parts(form), client.client_secret, *headers.values()])
    return _tokens(body)


def _authenticated(client: ClientIdentity, form: dict[str, str], issuer: str) -> tuple[dict[str, str], dict[str, str]]:
    """The form and the headers that authenticate the client. Raises OAuthError."""
    headers: dict[str, str] = {}
    if client.private_key:
        # Imported here because its cryptography takes as long to import as a sandbox to start, and few servers need it.
        from moonpool.oauth.assertion import ASSERTION_TYPE, client_assertion  # noqa: PLC0415

        signed = client_assertion(client.private_key, client_id=client.client_id, issuer=issuer)
        return {**form, "client_assertion_type": ASSERTION_TYPE, "client_assertion": signed}, headers
    if client.auth_method == "client_secret_basic":
        pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"  # RFC 6749 §2.3.1
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        form = {**form, "client_id": client.client_id}
        if client.auth_method == "client_secret_post":
            form["client_secret"] = client.client_secret
    return form, headers


def _refusal(status: int, body: JsonObject, *, secret: list[str]) -> OAuthError:
    name = body.get("error")
    text = f"{name if isinstance(name, str) else ''} {body.get('error_description') or ''}".strip()
    why = said(conceal(text, frozenset(filter(None, secret))), 300)
    kind = GrantRefusedError if name in _REFUSALS else OAuthError
    return kind(f"the authorization server gave no token: HTTP {status} {why}".rstrip())


def _secret_parts(form: Mapping[str, str]) -> list[str]:
    return [
        value for name, value in form.items() if name in {"code", "code_verifier", "refresh_token", "client_assertion"}
    ]


def _tokens(body: JsonObject) -> TokenSet:
    access, refresh_token, kind = body.get("access_token"), body.get("refresh_token"), body.get("token_type")
    if not isinstance(access, str) or not _TOKEN.fullmatch(access):
        raise OAuthError("the authorization server's answer has no usable access token")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise OAuthError(f"the authorization server gave a token of type {said(str(kind), 40)!r}; only bearer is known")
    usable = isinstance(refresh_token, str) and _TOKEN.fullmatch(refresh_token) is not None
    scope = body.get("scope")
    return TokenSet(
        access_token=access,
        refresh_token=str(refresh_token) if usable else "",
        expires_at=_expiry(body.get("expires_in")),
        scope=scope[:_TOKEN_SCOPE_MAX] if isinstance(scope, str) else None,
    )


_TOKEN_SCOPE_MAX: Final = 16_384


def _expiry(given: object) -> float | None:
    try:
        seconds = float(given) if isinstance(given, int | float | str) and not isinstance(given, bool) else None
    except (ValueError, OverflowError):
        seconds = None
    if seconds is None or not 0 <= seconds <= _LIFETIME_S_MAX:
        return None
    return time.time() + seconds
