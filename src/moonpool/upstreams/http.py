"""Streamable HTTP: the SDK's transport over an HTTP client that contains failures and remembers statuses.

The SDK maps every refusal to the same JSON-RPC error, and a broken TCP connection under one request ends its whole
transport with all others. `ContainedClient` answers for a broken connection itself, so that one request fails and the
rest go on, and writes what happened into the `Exchange` of the caller: the SDK sends each message in its sender's
context, which is how the two find each other.

SECURITY: no body reaches the SDK but one that is counted: events of a stream that was asked for, JSON that answers a
POST, and nothing of any other, whatever its status, method and `Content-Type` (see `net.bounded_bodies`).
SECURITY: configured headers go to the configured origin only; the SDK follows no redirect that leaves it.
SECURITY: tokens of a login are put in here, request by request (E-036), for that origin only, and a configured
`Authorization` header wins. Nobody waits for another request's answer because of it.
"""

from __future__ import annotations

import itertools
import re
import time
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2

from moonpool.configuration.expansion import conceal
from moonpool.core.phrases import said
from moonpool.net.bounded_bodies import BodyRefusedError, EventStream, read_body
from moonpool.net.message_limits import RESULT_BYTES_MAX, exceeded_json
from moonpool.net.throttle import pieces, unasked
from moonpool.net.trust import system_trust
from moonpool.oauth.addresses import origin
from moonpool.oauth.challenge import bearer_challenge
from moonpool.oauth.credentials import RENEWAL_COUNT_MAX
from moonpool.oauth.errors import LoginNeededError, OAuthError
from moonpool.upstreams.base import (
    UpstreamAuthError,
    UpstreamError,
    UpstreamLoginFailedError,
    UpstreamLoginNeededError,
    UpstreamProtocolError,
    UpstreamRateLimitedError,
    UpstreamServerFaultError,
    UpstreamUnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.configuration.servers import ServerConfig
    from moonpool.oauth.credentials import Credentials
    from moonpool.upstreams.notification_stream import NotificationStream

CONNECT_S: Final = 10.0
IGNORED_BYTES_MAX: Final = 64 * 1024
IGNORED_S: Final = 0.5
"""How much of a body that nobody reads is taken off the connection before it is closed instead."""
COOKIE_COUNT_MAX: Final = 64
_EVENTS_OF_AN_ANSWER: Final = 2
"""Of a stream that answers a request: one that it can be taken up from, and the answer."""
SESSION_ID_CHARS_MAX: Final = 1024
_SESSION_ID: Final = re.compile(rf"[\x21-\x7e]{{1,{SESSION_ID_CHARS_MAX}}}")
"""SECURITY: a server's id goes back to it in a header of every request (B-062)."""
_NO_SUCH_TRANSPORT: Final = frozenset({400, 404, 405})


@dataclass(slots=True)
class Exchange:
    """What HTTP said to one request of ours."""

    status: int = 0
    retry_after: str = ""
    broken: str = ""  # the connection failed: why
    too_large: str = ""  # the answer exceeds this bound
    succeeded: bool = False  # at least once
    over: bool = False  # nobody waits for an answer any more
    odd_session: bool = False  # it named our session with what no id may hold
    login: OAuthError | None = None  # no credential could be had

    @property
    def no_such_transport(self) -> bool:
        """The spec's sign that a URL speaks the other HTTP transport; one that has spoken this one gives none."""
        return self.status in _NO_SUCH_TRANSPORT and not self.succeeded

    def note(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.succeeded = self.succeeded or response.is_success
        self.retry_after = response.headers.get("retry-after", "")[:64]

    def fault(self, config: ServerConfig) -> UpstreamError | None:
        """The typed error of this exchange, if HTTP itself was the problem."""
        server_id, address, wait_s = config.server_id, config.address, pause_s(self.retry_after)
        if isinstance(self.login, LoginNeededError):
            return UpstreamLoginNeededError(server_id, str(self.login), for_guest=str(self.login))
        if self.login is not None:
            return UpstreamLoginFailedError(server_id, f"could not be logged in to: {self.login}")
        if self.odd_session:
            problem = f"gave a session id other than 1 to {SESSION_ID_CHARS_MAX} visible ASCII characters"
            return UpstreamProtocolError(server_id, problem, for_guest=problem)
        if self.broken:
            problem = f"cannot be reached at {address}: {conceal(self.broken, config.secrets)}; is it running?"
            return UpstreamUnreachableError(server_id, problem)
        if self.status in {401, 403}:
            problem = f'refused our credential (HTTP {self.status}); check the "headers" of its configuration'
            return UpstreamAuthError(server_id, problem)
        if self.status == 429:
            wait = " later" if wait_s is None else f" after {wait_s:.0f} s"
            problem = f"asks for fewer requests (HTTP 429); try again{wait}"
            return UpstreamRateLimitedError(server_id, problem, for_guest=problem, retry_after_s=wait_s)
        if self.status >= 500:
            wait = " later" if wait_s is None else f" after {wait_s:.0f} s"
            problem = f"failed with HTTP {self.status}; try again{wait}"
            return UpstreamServerFaultError(server_id, problem, for_guest=problem, retry_after_s=wait_s)
        return None


def pause_s(retry_after: str) -> float | None:
    """The seconds a `Retry-After` header asks for, as a number or a date; None when it says nothing usable."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


EXCHANGE: ContextVar[Exchange | None] = ContextVar("moonpool_upstream_exchange", default=None)


class ContainedClient(httpx2.AsyncClient):
    """An HTTP client whose `send` never raises for a broken connection and never hands out an uncounted body.

    Without `notification_stream` whoever reads the event stream decodes and counts its messages.
    """

    def __init__(
        self, *, credentials: Credentials | None = None, stream: NotificationStream | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._credentials, self._stream = credentials, stream
        self._pieces = pieces()
        self._unasked = None if stream is None else unasked()

    async def send(self, request: httpx2.Request, *, stream: bool = False, **kwargs: Any) -> httpx2.Response:
        response = await self._send_contained(request, stream=stream, **kwargs)
        if self._stream is not None:
            self._stream.note(request, response)
        if len(self.cookies.jar) > COOKIE_COUNT_MAX:
            self.cookies.clear()
        return response

    async def _send_contained(self, request: httpx2.Request, *, stream: bool, **kwargs: Any) -> httpx2.Response:
        exchange = EXCHANGE.get() or Exchange()
        if exchange.over and "last-event-id" in request.headers:
            return httpx2.Response(503, request=request)  # a stream may be taken up for ever
        try:
            response = await self._send_with_credential(request, **kwargs)
            exchange.note(response)
            if (session := response.headers.get("mcp-session-id")) and not _SESSION_ID.fullmatch(session):
                exchange.odd_session = True
                await response.aclose()
                return httpx2.Response(502, request=request)
            return await self._bounded(response, exchange, stream=stream)
        except OAuthError as exc:
            exchange.login = exc
            return httpx2.Response(401, request=request)
        except (httpx2.TransportError, httpx2.DecodingError, OSError) as exc:
            exchange.broken = said(f"{type(exc).__name__}: {exc}", 300)
            return httpx2.Response(503, request=request)

    async def _bounded(self, response: httpx2.Response, exchange: Exchange, *, stream: bool) -> httpx2.Response:
        """The same response over a counted body; 502 and an `Exchange` that says why where JSON exceeds a bound."""
        kind, posted = response.headers.get("content-type", "").lower(), response.request.method == "POST"
        if stream and response.is_success and kind.startswith("text/event-stream"):
            events = EventStream(
                response,
                refuse=partial(setattr, exchange, "too_large"),
                wanted=lambda: not exchange.over,
                throttle=self._pieces,
                unasked=self._unasked,
                free=_EVENTS_OF_AN_ANSWER if posted else 0,
            )
            return _made_anew(response, stream=events)
        if stream and posted and kind.startswith("application/json"):
            try:
                body = await read_body(response, RESULT_BYTES_MAX, self._pieces)
                exchange.too_large = exceeded_json(body) or ""
            except BodyRefusedError as exc:
                body, exchange.too_large = b"", str(exc)
            if exchange.too_large:
                return httpx2.Response(502, request=response.request)
            return _made_anew(response, content=body)
        with anyio.move_on_after(IGNORED_S):  # a short one is taken off, so that the connection can be used again
            with suppress(httpx2.HTTPError):
                await read_body(response, IGNORED_BYTES_MAX, self._pieces)
        return _made_anew(response, content=b"")

    async def _send_with_credential(self, request: httpx2.Request, **kwargs: Any) -> httpx2.Response:
        """Send; when the token is refused and another can be had, send once more with that. Raises OAuthError."""
        credentials = self._credentials
        if credentials is None or origin(str(request.url)) != origin(credentials.server_url):
            return await super().send(request, stream=True, **kwargs)
        for attempt in itertools.count():
            used = await credentials.header()
            if used is not None:
                request.headers["authorization"] = used
            response = await super().send(request, stream=True, **kwargs)
            if response.status_code not in {401, 403} or attempt == RENEWAL_COUNT_MAX:
                return response
            if not await _renewed(credentials, response, used, attempt):
                return response
        raise AssertionError("unreachable")


async def _renewed(credentials: Credentials, response: httpx2.Response, used: str | None, attempt: int) -> bool:
    """Whether to send again; then, and after an error, `response` is closed unread."""
    challenge = bearer_challenge(response.headers.get_list("www-authenticate"))
    if response.status_code == 403 and not challenge.wants_more_scope:
        return False
    again = True
    try:
        again = await credentials.renew(challenge, used=used, attempt=attempt)
    finally:
        if again:
            await response.aclose()
    return again


def _made_anew(response: httpx2.Response, **body: Any) -> httpx2.Response:
    """`response` with another body, which is not encoded."""
    coded = {"content-encoding", "content-length", "transfer-encoding"}
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in coded]
    made = httpx2.Response(response.status_code, headers=headers, request=response.request, **body)
    made.next_request, made.encoding = response.next_request, "utf-8"  # events are; a server's charset is any codec
    return made


def contained_client(
    config: ServerConfig, credentials: Credentials | None, stream: NotificationStream | None = None
) -> ContainedClient:
    """No read timeout: every request has its caller's own time limit, and listen streams are silent for hours."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=config.concurrency_max + 4)
    return ContainedClient(
        credentials=credentials if config.may_log_in else None,
        stream=stream,
        headers={"user-agent": "moonpool", **config.headers},
        verify=system_trust(),
        timeout=httpx2.Timeout(CONNECT_S, read=None),
        limits=limits,
        transport=_public_transport(limits) if config.public_only else None,
    )


def _public_transport(limits: httpx2.Limits) -> httpx2.AsyncBaseTransport:
    from moonpool.network.public_http import PublicTransport  # noqa: PLC0415  for organisations' servers only

    return PublicTransport(limits=limits)


@asynccontextmanager
async def open_streamable_http(
    config: ServerConfig, credentials: Credentials | None = None, stream: NotificationStream | None = None
) -> AsyncGenerator[tuple[Any, Any]]:
    """The stream pair of one Streamable HTTP connection; nothing is sent before the first message."""
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415  a second; only for HTTP upstreams

    async with (
        contained_client(config, credentials, stream) as client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=RESULT_BYTES_MAX) as streams,
    ):
        yield streams
