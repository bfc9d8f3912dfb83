"""The service with OAuth issuers in a test's own process, over real HTTP, with real sandboxes."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2

from apps import DATA
from moonpool.bootstrap.admission import open_admission
from moonpool.bootstrap.database import open_service_data
from moonpool.bootstrap.service import open_service
from moonpool.configuration.servers import parse_config
from moonpool.server.http.application import Application
from moonpool.server.http.health import Readiness
from moonpool.server.http.request_limits import Names
from moonpool.server.http.serving import ServiceListener, http_served
from moonpool.settings import Settings
from shared_backend import shared_backend

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.bootstrap.service import Service

ISSUER_FILE = """
[[issuer]]
url = "{url}"
organisation = {{ claim = "org" }}
"""
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


@dataclass(frozen=True)
class Served:
    """A service that runs."""

    origin: str
    service: Service
    state: Path

    @property
    def resource(self) -> str:
        return f"{self.origin}/mcp"

    def client(self, token: str | None = None) -> httpx2.AsyncClient:
        headers = {"accept": "application/json, text/event-stream"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        return httpx2.AsyncClient(base_url=self.origin, headers=headers, timeout=30)


@asynccontextmanager
async def open_service_of(
    issuer_url: str,
    folder: Path,
    *,
    entry: dict[str, Any] | None = None,
    listener: ServiceListener | None = None,
) -> AsyncGenerator[Served]:
    """A service that takes tokens of this issuer, with the server `paths`, if an `entry` is given."""
    issuers = folder / "issuers.toml"
    issuers.write_text(ISSUER_FILE.format(url=issuer_url), encoding="utf-8")
    settings = Settings.load({}, data_dir=DATA, oauth_issuers=issuers, manifest_ttl_s=0.001, pool_low=0)
    text = json.dumps({"mcpServers": {"paths": entry}}).encode()
    config = None if entry is None else parse_config(text, source="test", environ={})
    listener = listener or ServiceListener("127.0.0.1", 0)
    origin = f"http://{listener.netloc}"
    names, readiness, state = Names.of(listener.host, listener.port), Readiness(), folder / "state"
    async with open_service_data(settings, state) as data:
        await data.organisations.ensure("acme")
    async with open_admission(settings, state, names, origin) as admitted, shared_backend(settings, DATA) as backend:
        application = Application(names, admitted.admission, readiness)
        async with (
            http_served(listener, application),
            open_service(
                settings,
                environ=os.environ,
                config=config,
                report=lambda _: None,
                backend=backend,
                state=state,
                admitted=admitted,
            ) as service,
        ):
            application.open(service.routes, admitted.public)
            readiness.phase = "ready"
            yield Served(origin, service, state)
    listener.close()


async def call(client: httpx2.AsyncClient, name: str, **arguments: Any) -> dict[str, Any]:
    """The result of one tool of the service, without a session."""
    message = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    answer = await client.post("/mcp", json=message, headers={"mcp-protocol-version": "2025-06-18"})
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    replies = [json.loads(line) for line in lines] if lines else [answer.json()]
    return next(reply["result"] for reply in replies if reply.get("id") == 3)
