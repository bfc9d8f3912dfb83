"""Requests of a login: small, short, without redirects, answered with JSON or nothing.

SECURITY: this client carries neither the configured headers of an MCP server nor a token in a header, follows no
redirect (a secret would travel along) and takes at most `BODY_BYTES_MAX` of any answer.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import httpx2

from moonpool.broker.oauth.errors import OAuthError
from moonpool.broker.upstreams.base import said

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from moonpool.core.json import JsonObject

BODY_BYTES_MAX: Final = 1024 * 1024
REQUEST_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status and the JSON object that came with it, if one did."""

    status: int
    body: JsonObject | None
    challenges: tuple[str, ...] = ()


class LoginHttp:
    """Sends the requests of a login."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def get(self, url: str) -> Answer:
        return await self._send(self._client.build_request("GET", url, headers={"accept": "application/json"}))

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        sent = {"accept": "application/json", **headers}
        return await self._send(self._client.build_request("POST", url, data=dict(form), headers=sent))

    async def post_json(self, url: str, body: JsonObject, headers: Mapping[str, str] | None = None) -> Answer:
        sent = {"accept": "application/json", **(headers or {})}
        return await self._send(self._client.build_request("POST", url, json=body, headers=sent))

    async def _send(self, request: httpx2.Request) -> Answer:
        shown = said(f"{request.url.scheme}://{request.url.netloc.decode('ascii', 'replace')}{request.url.path}", 200)
        try:
            async with asyncio.timeout(REQUEST_S):
                response = await self._client.send(request, stream=True)
                try:
                    body = await _body(response, shown)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise OAuthError(f"{shown} did not answer within {REQUEST_S:g} s") from None
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as exc:
            raise OAuthError(f"{shown} cannot be reached ({type(exc).__name__})") from None
        challenges = tuple(response.headers.get_list("www-authenticate"))
        return Answer(status=response.status_code, body=_json_object(body), challenges=challenges)


@asynccontextmanager
async def open_login_http() -> AsyncGenerator[LoginHttp]:
    async with httpx2.AsyncClient(headers={"user-agent": "moonpool"}, timeout=REQUEST_S) as client:
        yield LoginHttp(client)


async def _body(response: httpx2.Response, shown: str) -> bytes:
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return b""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise OAuthError(f"{shown} answers with more than {BODY_BYTES_MAX // 1024} KiB")
    return bytes(body)


def _json_object(body: bytes) -> JsonObject | None:
    try:
        decoded = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return cast("JsonObject", decoded) if isinstance(decoded, dict) else None
