"""The part of a login that needs a person: the authorization request and its answer (RFC 6749, 7636, 9207).

INVARIANT: the answer counts only with the `state` that was sent and, if it names an issuer, with the issuer that was
asked; both are compared exactly, before anything else in the answer is used.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

from moonpool.core.phrases import said
from moonpool.oauth.challenge import scope_names
from moonpool.oauth.errors import OAuthError
from moonpool.oauth.grants import TokenSet, machine_tokens, redeem_code
from moonpool.oauth.registration import identify
from moonpool.oauth.stored_logins import Login

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from moonpool.configuration.oauth_settings import OAuthSettings
    from moonpool.oauth.discovery import Discovery
    from moonpool.oauth.metadata import IssuerMetadata
    from moonpool.oauth.registration import ClientIdentity
    from moonpool.oauth.wire import LoginHttp

_ANSWER_CHARS_MAX: Final = 16_384
OFFLINE: Final = "offline_access"


class Visit(Protocol):
    """One visit of a person to an authorization server; the server sends the person back to `redirect_uri`."""

    redirect_uri: str

    async def fetch(self, address: str) -> str:
        """Have the person open `address` and return the address they were sent back to. Raises OAuthError."""
        ...


class UserAgent(Protocol):
    """Shows a person an address."""

    def open(self, redirect_uri: str) -> AbstractAsyncContextManager[Visit]:
        """Prepare for an answer at `redirect_uri`, or at an address of the agent's choice if empty."""
        ...


async def log_in(
    http: LoginHttp,
    found: Discovery,
    agent: UserAgent,
    settings: OAuthSettings,
    *,
    scopes: tuple[str, ...] | None,
    known: ClientIdentity | None = None,
    before_redeeming: Callable[[], Awaitable[None]] | None = None,
) -> Login:
    """Ask a person for permission and get tokens. Raises OAuthError.

    `before_redeeming` runs after the person has agreed and before tokens are issued, so that it cannot revoke the new
    ones.
    """
    issuer, scopes = found.issuer, _with_refreshing(scopes, found.issuer)
    async with agent.open(settings.redirect_uri) as visit:
        client = await identify(http, issuer, settings, redirect_uri=visit.redirect_uri, scopes=scopes, known=known)
        verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(32)
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": client.redirect_uri,
            "code_challenge": _s256(verifier),
            "code_challenge_method": "S256",
            "state": state,
            "resource": found.resource,
        }
        if scopes:
            query["scope"] = " ".join(scopes)
        if scopes and OFFLINE in scopes:
            query["prompt"] = "consent"  # required for a refresh token in OpenID Connect
        joint = "&" if urlsplit(issuer.authorization_endpoint).query else "?"
        answer = await visit.fetch(f"{issuer.authorization_endpoint}{joint}{urlencode(query)}")
    code = read_answer(answer, state=state, issuer=issuer)
    if before_redeeming is not None:
        await before_redeeming()
    tokens = await redeem_code(
        http, issuer.token_endpoint, client, issuer=issuer.issuer, code=code, verifier=verifier, resource=found.resource
    )
    return _login(found, client, tokens, scopes)


async def log_in_as_machine(
    http: LoginHttp, found: Discovery, settings: OAuthSettings, *, scopes: tuple[str, ...] | None
) -> Login:
    """Get the client's own tokens, without a person. Raises OAuthError."""
    issuer = found.issuer
    client = await identify(http, issuer, settings, redirect_uri="", scopes=scopes, known=None)
    tokens = await machine_tokens(
        http, issuer.token_endpoint, client, issuer=issuer.issuer, scopes=scopes, resource=found.resource
    )
    return _login(found, client, tokens, scopes)


def _login(found: Discovery, client: ClientIdentity, tokens: TokenSet, scopes: tuple[str, ...] | None) -> Login:
    issuer = found.issuer
    if tokens.scope is None and scopes:
        tokens = TokenSet(
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token,
            expires_at=tokens.expires_at,
            scope=" ".join(scopes),  # RFC 6749 §5.1: the requested scopes
        )
    return Login(
        server_url=found.server_url,
        issuer=issuer.issuer,
        resource=found.resource,
        token_endpoint=issuer.token_endpoint,
        client=client,
        tokens=tokens,
        revocation_endpoint=issuer.revocation_endpoint,
    )


def read_answer(address: str, *, state: str, issuer: IssuerMetadata) -> str:
    """The code in the address that the person was sent back to. Raises OAuthError, which quotes no code."""
    try:
        pairs = parse_qsl(urlsplit(address[:_ANSWER_CHARS_MAX]).query, keep_blank_values=True, max_num_fields=64)
    except ValueError:
        pairs = []
    given = dict(reversed(pairs))
    if len(given) != len(pairs):
        raise OAuthError("the answer of the authorization server names something twice; the login was given up")
    if not hmac.compare_digest(given.get("state", "").encode(), state.encode()):
        raise OAuthError("the answer does not belong to this login (another state); start it again")
    named = given.get("iss")
    if named is None and issuer.names_itself_in_answers:
        raise OAuthError("the answer does not say which authorization server it is from; the login was given up")
    if named is not None and named != issuer.issuer:
        raise OAuthError(
            f"the answer is from another authorization server, {said(named, 200)!r}; the login was given up"
        )
    if "error" in given:
        why = said(f"{given['error']} {given.get('error_description', '')}", 300)
        raise OAuthError(f"the authorization server refused: {why}")
    if not given.get("code"):
        raise OAuthError("the answer of the authorization server has no code")
    return given["code"]


def joined(*lists: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """All scopes of these lists, without duplicates; None if there are none."""
    names = scope_names(" ".join(" ".join(some) for some in lists if some))
    return names or None


def _with_refreshing(scopes: tuple[str, ...] | None, issuer: IssuerMetadata) -> tuple[str, ...] | None:
    """SPEC: `offline_access` is requested only if the issuer lists it, and only with other scopes."""
    return joined(scopes, (OFFLINE,)) if scopes and OFFLINE in (issuer.scopes or ()) else scopes


def _s256(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
