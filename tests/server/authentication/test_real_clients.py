"""Clients that find the login by themselves, against oidc-provider: the MCP SDK's, and our own."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from moonpool.configuration.servers import parse_config
from moonpool.oauth.login_command import enter
from moonpool.oauth.stored_logins import Logins, MemoryLoginStore
from moonpool.server.http.serving import ServiceListener
from server.authentication.issuers import REDIRECT, browse, open_oidc_provider
from server.authentication.service import INITIALIZE, open_service_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from server.authentication.service import Served

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncGenerator[Served]:
    listener = ServiceListener("127.0.0.1", 0)  # the issuer must know the resource before the service knows the issuer
    resource = f"http://{listener.netloc}/mcp"
    async with (
        open_oidc_provider(tmp_path, resources=(resource,)) as issuer,
        open_service_of(issuer.url, tmp_path, listener=listener) as opened,
    ):
        yield opened


class Storage:
    """Keeps what the SDK's client has: a client that was registered before."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = OAuthClientInformationFull(
            client_id="app", redirect_uris=[AnyUrl(REDIRECT)], token_endpoint_auth_method="none"
        )

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.req("E-002", "E-014", "H-062")
async def test_the_sdks_client_finds_the_login_and_runs_code(served: Served) -> None:
    back: list[str] = []

    async def visit(address: str) -> None:
        back.append(await browse(address, "alice"))

    async def answer() -> AuthorizationCodeResult:
        given = {name: values[0] for name, values in parse_qs(urlsplit(back[-1]).query).items()}
        return AuthorizationCodeResult(code=given["code"], state=given["state"], iss=given.get("iss"))

    metadata = OAuthClientMetadata(client_name="t", redirect_uris=[AnyUrl(REDIRECT)], token_endpoint_auth_method="none")
    provider = OAuthClientProvider(served.resource, metadata, Storage(), visit, answer)
    with anyio.fail_after(60):
        async with (
            httpx2.AsyncClient(auth=provider, timeout=30) as http,
            Client(streamable_http_client(served.resource, http_client=http)) as client,
        ):
            result = await client.call_tool("execute_code", {"code": "result = 6 * 7"})
    assert result.structured_content is not None
    assert result.structured_content == {"ok": True, "data": 42}


class Person:
    """A user at this machine's browser, with a client that was registered before."""

    redirect_uri = REDIRECT

    @asynccontextmanager
    async def open(self, redirect_uri: str) -> AsyncGenerator[Person]:
        assert redirect_uri == REDIRECT
        yield self

    async def fetch(self, address: str) -> str:
        return await browse(address, "alice")


@pytest.mark.req("H-062", "L-023", "L-024")
async def test_our_own_client_logs_in_to_our_own_service(served: Served) -> None:
    entry = f'{{"url": "{served.resource}", "oauth": {{"client_id": "app", "redirect_uri": "{REDIRECT}"}}}}'
    (server,) = parse_config(f'{{"mcpServers": {{"m": {entry}}}}}'.encode(), source="t", environ={}).servers
    login = await enter(server, Logins(MemoryLoginStore()), Person())
    async with served.client(login.tokens.access_token) as client:
        answer = await client.post("/mcp", json=INITIALIZE)
    assert (login.resource, answer.status_code) == (served.resource, 200)
