"""HTTP requests of a login: small, short, without redirects, answered with JSON or nothing.

SECURITY: this client carries neither the configured headers of an MCP server nor a token in a header, follows no
redirect (it would carry a secret along) and reads at most `BODY_BYTES_MAX` of any answer; JSON is limited before it is
decoded. SECURITY: `addresses` checked the address as written; the peer that a name resolves to is checked after
connecting, before anything is sent. So DNS rebinding does not help.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import httpx2

from moonpool.core.phrases import said
from moonpool.net.bounded_bodies import BodyRefusedError, read_body
from moonpool.net.trust import system_trust
from moonpool.oauth.addresses import nearness
from moonpool.oauth.errors import OAuthError
from moonpool_wire.jsonbounds import exceeded_bound

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from moonpool.core.json import JsonObject

    _Trace = Callable[[str, dict[str, Any]], Awaitable[None]]

BODY_BYTES_MAX: Final = 1024 * 1024
REVISION: Final = "2025-11-25"
"""Metadata may differ by revision; the latest that has this header on discovery (B-075)."""
REQUEST_S: Final = 15.0
_CONTAINERS_MAX: Final = 10_000
_VALUES_MAX: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status and its JSON object, if any."""

    status: int
    body: JsonObject | None
    challenges: tuple[str, ...] = ()


class LoginHttp:
    """Sends the requests of a login."""

    def __init__(self, client: httpx2.AsyncClient, server_url: str) -> None:
        self._client, self._near = client, nearness(urlsplit(server_url).hostname or "")

    async def get(self, url: str) -> Answer:
        """A document of metadata."""
        sent = {"accept": "application/json", "mcp-protocol-version": REVISION}
        return await self._send(self._client.build_request("GET", url, headers=sent))

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        sent = {"accept": "application/json", **headers}
        return await self._send(self._client.build_request("POST", url, data=dict(form), headers=sent))

    async def post_json(self, url: str, body: JsonObject, headers: Mapping[str, str] | None = None) -> Answer:
        sent = {"accept": "application/json", **(headers or {})}
        return await self._send(self._client.build_request("POST", url, json=body, headers=sent))

    async def _send(self, request: httpx2.Request) -> Answer:
        shown = said(f"{request.url.scheme}://{request.url.netloc.decode('ascii', 'replace')}{request.url.path}", 200)
        request.extensions = {**request.extensions, "trace": self._looking_at_peers(request, shown)}
        try:
            async with asyncio.timeout(REQUEST_S):
                response = await self._client.send(request, stream=True)
                body = await _body(response, shown)
        except TimeoutError:
            raise OAuthError(f"{shown} did not answer within {REQUEST_S:g} s") from None
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as exc:
            raise OAuthError(f"{shown} cannot be reached ({type(exc).__name__})") from None
        challenges = tuple(response.headers.get_list("www-authenticate"))
        return Answer(status=response.status_code, body=_json_object(body), challenges=challenges)

    def _looking_at_peers(self, request: httpx2.Request, shown: str) -> _Trace:
        """A trace that raises OAuthError inside `send` if a remote server made us connect to this machine or a
        link-local address.

        An operator's proxy may be anywhere; it connects itself.
        """
        host, direct = request.url.raw_host.decode("ascii"), False

        async def look(event: str, about: dict[str, Any]) -> None:
            nonlocal direct
            if event == "connection.connect_tcp.started":
                direct = about["host"] == host
            elif event == "connection.connect_tcp.complete" and direct:
                stream = about["return_value"]
                peer = str(stream.get_extra_info("server_addr")[0])
                if (near := nearness(peer)) and near != self._near:
                    await stream.aclose()
                    raise OAuthError(f"{shown} leads to the {near} address {peer}; a server elsewhere may not name it")

        return look


@asynccontextmanager
async def open_login_http(server_url: str) -> AsyncGenerator[LoginHttp]:
    """An HTTP client for a login to `server_url`."""
    async with httpx2.AsyncClient(
        headers={"user-agent": "moonpool"}, timeout=REQUEST_S, verify=system_trust()
    ) as client:
        yield LoginHttp(client, server_url)


async def _body(response: httpx2.Response, shown: str) -> bytes:
    """The body; not of event streams, which may never end."""
    if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        await response.aclose()
        return b""
    try:
        body = await read_body(response, BODY_BYTES_MAX)
    except BodyRefusedError as exc:
        raise OAuthError(f"{shown} answers with {exc}") from None
    if (bound := exceeded_bound(body, containers_max=_CONTAINERS_MAX, values_max=_VALUES_MAX)) is not None:
        raise OAuthError(f"{shown} answers with {bound}")
    return body


def _json_object(body: bytes) -> JsonObject | None:
    try:
        decoded = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return cast("JsonObject", decoded) if isinstance(decoded, dict) else None
