"""Access tokens of the configured OAuth issuers become callers: this service as a resource server of OAuth 2.1.

A token is read, its issuer found among the configured ones, its signature verified by that issuer's keys, then its
claims: issuer, times, kind, audience, and what the configuration reads from them. Nothing is asked of the issuer about
a single token, so one that was revoked there ends with its `exp`.

SECURITY: the sender learns only that a token does not count. Why is in the log, only of tokens with a good signature,
and without the token; so nobody else fills the log.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from moonpool.core.phrases import said
from moonpool.oauth.addresses import same_issuer
from moonpool.server.http.authentication.access_tokens import (
    TokenRefusedError,
    check_claims,
    check_header,
    read_token,
)
from moonpool.server.http.authentication.claims import caller_of
from moonpool.server.http.authentication.issuer_keys import IssuerKeys, fetch_keys
from moonpool.server.http.authentication.signing_keys import is_signed
from moonpool.server.http.callers import AuthenticationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from moonpool.server.http.authentication.issuer_file import IssuerEntry
    from moonpool.server.http.authentication.resource import Resource
    from moonpool.server.http.authentication.signing_keys import SigningKey
    from moonpool.server.http.callers import HttpCaller

_log = logging.getLogger(__name__)


class TokenAuthenticator:
    """The `Authenticator` of OAuth access tokens."""

    def __init__(
        self,
        issuers: Iterable[IssuerEntry],
        resource: Resource,
        *,
        is_open: Callable[[str], Awaitable[bool]],
        fetch: Callable[[str], Awaitable[tuple[SigningKey, ...]]] = fetch_keys,
        clock: Callable[[], float] = time.time,
        keys_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`is_open`: whether there is an organisation of this id that is not disabled."""
        self._resource, self._is_open, self._clock = resource, is_open, clock
        self._issuers = tuple((entry, IssuerKeys(entry.url, fetch=fetch, clock=keys_clock)) for entry in issuers)

    async def authenticate(self, credential: str, /) -> HttpCaller | None:
        """See `Authenticator`. Raises AuthenticationError, IssuerUnavailableError."""
        token = read_token(credential)
        if token is None:
            return None
        issuer = next((one for one in self._issuers if same_issuer(one[0].url, token.issuer)), None)
        if issuer is None:
            return None
        entry, keys = issuer
        try:
            check_header(token)
        except TokenRefusedError:
            raise AuthenticationError from None
        if not is_signed(token.text, await keys.find(token.kid, token.algorithm), token.algorithm):
            raise AuthenticationError
        try:
            check_claims(token, issuer=entry.url, now=self._clock())
            caller = caller_of(token.claims, entry, self._resource)
            if not await self._is_open(caller.organisation):
                raise TokenRefusedError(
                    f"there is no organisation {said(caller.organisation, 80)!r}, or it is disabled"
                )
        except TokenRefusedError as why:
            _log.info("a token of %s was refused: %s", entry.name, why)
            raise AuthenticationError from None
        return caller

    async def close(self) -> None:
        """End what runs in the background."""
        for _, keys in self._issuers:
            await keys.close()
