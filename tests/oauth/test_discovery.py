"""Where a login goes, when what the server publishes cannot be read."""

from __future__ import annotations

from contextlib import AsyncExitStack

import httpx2
import pytest

from moonpool.oauth.challenge import Challenge
from moonpool.oauth.discovery import discover
from moonpool.oauth.errors import OAuthError
from moonpool.oauth.wire import LoginHttp

pytestmark = pytest.mark.anyio

SERVER = "https://tools.example/mcp"


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_fault_does_not_lead_to_the_older_way(status: int) -> None:
    """Whoever can make a server stumble must not choose where its users log in."""
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        return httpx2.Response(status)

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx2.AsyncClient(transport=httpx2.MockTransport(answer)))
        with pytest.raises(OAuthError, match=f"cannot be read: HTTP {status}"):
            await discover(LoginHttp(client, SERVER), SERVER, Challenge())
    assert [path for path in asked if "oauth-protected-resource" not in path] == []
