"""Access tokens as JSON Web Tokens (RFC 9068): their form, and the claims that every token must have. Pure.

SECURITY: what a token says before its signature is verified chooses only the issuer and the key to verify it by. A
token is refused that is bound to a key its sender must prove (`cnf`), because that proof is not asked for; that names
an extension (`crit`); and that is another kind of token of the same issuer, such as an ID token.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from moonpool.core.phrases import said
from moonpool.oauth.addresses import same_issuer
from moonpool.oauth.challenge import scope_names
from moonpool.server.http.authentication.signing_keys import ALGORITHMS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.core.json import JsonObject, JsonValue

TOKEN_CHARS_MAX: Final = 16 * 1024
LEEWAY_S: Final = 30.0
"""How far the clocks of this machine and the issuer's may differ."""
_FORM: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)
_ACCESS_TYPES: Final = ("at+jwt", "application/at+jwt")
_PLAIN_TYPES: Final = (None, "jwt")
_OF_ID_TOKENS: Final = ("nonce", "at_hash", "c_hash", "s_hash")
_CLIENT_CLAIMS: Final = ("client_id", "azp", "cid", "appid")
_CLIENT_CHARS_MAX: Final = 255
_AUDIENCES_MAX: Final = 32
_TIME_MAX: Final = 1e15


class TokenRefusedError(Exception):
    """Why a token does not count; for the log only."""


@dataclass(frozen=True, slots=True)
class UnverifiedToken:
    """A token whose signature is not verified yet."""

    text: str
    algorithm: str
    kid: str | None
    issuer: str
    header: JsonObject
    claims: JsonObject


def read_token(text: str) -> UnverifiedToken | None:
    """The parts of a token; None for what is none."""
    if len(text) > TOKEN_CHARS_MAX or not _FORM.fullmatch(text):
        return None
    header, claims = (_json_object(part) for part in text.split(".")[:2])
    if header is None or claims is None:
        return None
    algorithm, kid, issuer = header.get("alg"), header.get("kid"), claims.get("iss")
    if not isinstance(algorithm, str) or not isinstance(issuer, str) or not isinstance(kid, str | None):
        return None
    return UnverifiedToken(text, algorithm, kid, issuer, header, claims)


def check_header(token: UnverifiedToken) -> None:
    """Raises TokenRefusedError for what no access token has."""
    if token.algorithm not in ALGORITHMS:
        raise TokenRefusedError("its algorithm is not accepted")
    if "crit" in token.header or "b64" in token.header:
        raise TokenRefusedError("it needs an extension")


def check_claims(token: UnverifiedToken, *, issuer: str, now: float) -> None:
    """Raises TokenRefusedError unless this is an access token of `issuer` that is valid now."""
    claims = token.claims
    if not same_issuer(token.issuer, issuer):
        raise TokenRefusedError("it is of another issuer")
    ends, begins, issued = (_time(claims, name) for name in ("exp", "nbf", "iat"))
    if ends is None or ends <= now - LEEWAY_S:
        raise TokenRefusedError("it has expired" if ends is not None else "it has no exp")
    if max(begins or 0, issued or 0) > now + LEEWAY_S:
        raise TokenRefusedError("it is not valid yet; perhaps a clock is wrong")
    if "cnf" in claims:
        raise TokenRefusedError("it is bound to a key of its client (cnf), which is not supported")
    _check_kind(token)


def audiences(claims: JsonObject) -> tuple[str, ...]:
    """Whom the token is for. Raises TokenRefusedError."""
    given = claims.get("aud")
    listed = given if isinstance(given, list) else [given]
    found = tuple(one for one in listed if isinstance(one, str))
    if not found or len(found) != len(listed) or len(found) > _AUDIENCES_MAX:
        raise TokenRefusedError("it does not say which service it is for (aud)")
    return found


def granted_scopes(claims: JsonObject) -> tuple[str, ...]:
    """The scopes of the token: `scope`, or `scp` as some issuers call it."""
    given = claims.get("scope", claims.get("scp"))
    if isinstance(given, list):
        given = " ".join(one for one in given if isinstance(one, str))
    return scope_names(given) if isinstance(given, str) else ()


def client_of(claims: JsonObject) -> str | None:
    """The OAuth client that the token was given to. Raises TokenRefusedError if the claims differ about it."""
    named = {name for claim in _CLIENT_CLAIMS if isinstance(name := claims.get(claim), str)}
    if len(named) > 1:
        raise TokenRefusedError("it names several clients")
    client = named.pop() if named else None
    if client is not None and not is_identifier(client):
        raise TokenRefusedError("its client has a name that cannot be shown")
    return client


def is_identifier(text: JsonValue) -> bool:
    """Whether a text may name a user or a client: visible ASCII, not too long."""
    return (
        isinstance(text, str)
        and 0 < len(text) <= _CLIENT_CHARS_MAX
        and text.isascii()
        and text.isprintable()
        and text == text.strip()
    )


def told(names: Iterable[str]) -> str:
    """Names in a token, for the log."""
    return said(", ".join(names), 200)


def _check_kind(token: UnverifiedToken) -> None:
    kind, claims = token.header.get("typ"), token.claims
    kind = kind.lower() if isinstance(kind, str) else kind
    if kind in _ACCESS_TYPES:
        return
    # Many issuers give access tokens no type of their own; an ID token has no scope, and one of these claims.
    plain = kind in _PLAIN_TYPES and claims.get("typ") in (None, "Bearer") and "token_use" not in claims
    plain = plain or (kind in _PLAIN_TYPES and claims.get("token_use") == "access")
    if not plain or not ({"scope", "scp"} & claims.keys()) or any(name in claims for name in _OF_ID_TOKENS):
        raise TokenRefusedError("it is not an access token")


def _time(claims: JsonObject, name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _TIME_MAX:
        raise TokenRefusedError(f"its {name} is no time")
    return value


def _json_object(part: str) -> JsonObject | None:
    try:
        decoded = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError, binascii.Error):
        return None
    return cast("JsonObject", decoded) if isinstance(decoded, dict) else None
