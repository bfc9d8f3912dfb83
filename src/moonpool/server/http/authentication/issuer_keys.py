"""The signing keys of one issuer: found by its metadata, kept, and fetched again when they may have changed.

Keys are fetched at the first token, again when a token names a key that is not known (at most every `REFETCH_S`), and
in the background when they are older than `FRESH_S`, so that a key the issuer withdrew is soon not accepted any more.
Where the issuer cannot be reached, keys go on until `KEPT_S`; without keys nobody is let in.

INVARIANT: one fetch of an issuer at a time, which requests wait for; it goes on when a request is cancelled.
SECURITY: whoever sends tokens with invented key ids cannot make us ask the issuer more often than that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.core.phrases import said
from moonpool.oauth.addresses import check_address
from moonpool.oauth.discovery import issuer_metadata
from moonpool.oauth.errors import OAuthError
from moonpool.server.http.authentication.signing_keys import SigningKey, fitting, read_keys

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

REFETCH_S: Final = 10.0
FRESH_S: Final = 300.0
KEPT_S: Final = 24 * 3600.0
FETCH_S: Final = 10.0
"""Time limit for finding and reading the keys."""
_log = logging.getLogger(__name__)


class IssuerUnavailableError(MoonpoolError):
    """The keys of an OAuth issuer cannot be fetched, so its tokens cannot be verified. Nobody was let in."""

    code = "issuer_unavailable"
    fault = Fault.HOST
    retryable = True


async def fetch_keys(issuer: str) -> tuple[SigningKey, ...]:
    """The keys that the issuer publishes. Raises OAuthError."""
    from moonpool.oauth.wire import open_login_http  # noqa: PLC0415  imports an HTTP client; at the first token

    shown = said(issuer, 200)
    try:
        async with asyncio.timeout(FETCH_S), open_login_http(issuer) as http:
            metadata = await issuer_metadata(http, issuer, server_url=issuer)
            if metadata is None or not metadata.jwks_uri:
                raise OAuthError(f"the issuer {shown} publishes no {'metadata' if metadata is None else 'jwks_uri'}")
            answer = await http.get(check_address(metadata.jwks_uri, "jwks_uri", server_url=issuer))
    except TimeoutError:
        raise OAuthError(f"the issuer {shown} did not give its keys within {FETCH_S:g} s") from None
    if answer.status != 200 or answer.body is None:
        raise OAuthError(f"the keys of the issuer {shown} cannot be read: HTTP {answer.status}")
    keys = read_keys(answer.body)
    if not keys:
        raise OAuthError(f"the issuer {shown} publishes no key that can be used")
    return keys


class IssuerKeys:
    """The keys of one issuer. Used on one event loop."""

    def __init__(
        self,
        issuer: str,
        *,
        fetch: Callable[[str], Awaitable[tuple[SigningKey, ...]]] = fetch_keys,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer, self._fetch, self._clock = issuer, fetch, clock
        self._keys: tuple[SigningKey, ...] = ()
        self._fetched_at = self._tried_at = float("-inf")
        self._failed = False
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> tuple[SigningKey, ...]:
        """The keys that a token with this header may be signed by. Raises IssuerUnavailableError."""
        age_s = self._clock() - self._fetched_at
        if not self._keys or age_s >= KEPT_S:
            self._keys = ()
            await self._refreshed()
        elif age_s >= FRESH_S:
            self._start()
        found = fitting(self._keys, kid, algorithm)
        if not found and self._keys:
            await self._refreshed()
            found = fitting(self._keys, kid, algorithm)
        if not found and (self._failed or not self._keys):
            raise IssuerUnavailableError("the issuer of this token cannot be reached now; try again later")
        return found

    async def close(self) -> None:
        """End a running fetch."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    async def _refreshed(self) -> None:
        """Wait for new keys, if it is time for them."""
        if (fetching := self._start()) is not None:
            await asyncio.shield(fetching)

    def _start(self) -> asyncio.Task[None] | None:
        """The running fetch, or a new one unless the last one began a moment ago."""
        if self._fetching is None and self._clock() - self._tried_at >= REFETCH_S:
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._refresh())
        return self._fetching

    async def _refresh(self) -> None:
        try:
            self._keys = await self._fetch(self._issuer)
            self._fetched_at, self._failed = self._clock(), False
        except OAuthError as error:
            self._failed = True
            _log.warning("tokens cannot be verified by new keys: %s", error)
        finally:
            self._fetching = None
