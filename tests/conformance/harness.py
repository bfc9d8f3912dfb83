"""Serves the profile `direct` over HTTP with the SDK's session manager, until `moonpool serve` does.

python harness.py DATA 2026-07-28|legacy     prints its port
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.routing import Mount

from moonpool.bootstrap import open_default_tenant
from moonpool.configuration.servers import parse_config
from moonpool.pipeline.approval import AutoApprover
from moonpool.sandboxes.fake import FakeBackend
from moonpool.server.mcp.client_requests import Bindings
from moonpool.server.mcp.direct.tools import DirectTools
from moonpool.server.mcp.server import build_server
from moonpool.settings import Settings

UPSTREAM = Path(__file__).with_name("upstream.py")


async def nothing(guest: Any) -> None:
    """No code runs here."""
    await guest.receive()


async def main(data: Path, era: str) -> None:
    entry: Any = {
        "command": sys.executable,
        "args": [str(UPSTREAM), era],
        "moonpool": {
            "allow": ["*"],
            "expose": "direct",
            "elicitation": "relay",
            "sampling": "relay",
            "client_roots": True,
            "requests_per_minute": 600,
        },
    }
    config = parse_config(json.dumps({"mcpServers": {"fixture": entry}}).encode(), source="suite", environ=os.environ)
    settings = Settings.load({}, data_dir=data)
    async with open_default_tenant(
        settings, config=config, approver=AutoApprover(), environ=os.environ, serving=True, backend=FakeBackend(nothing)
    ) as tenant:
        tools = DirectTools(tenant, Bindings())
        tools.prepare()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        security = TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[f"127.0.0.1:{port}", f"localhost:{port}"],
            allowed_origins=[f"http://127.0.0.1:{port}", f"http://localhost:{port}"],
        )
        stateful = StreamableHTTPSessionManager(build_server(tools), security_settings=security)

        @asynccontextmanager
        async def lifespan(_: Any) -> Any:
            async with stateful.run():
                yield

        async def endpoint(scope: Any, receive: Any, send: Any) -> None:
            await stateful.handle_request(scope, receive, send)

        app = Starlette(routes=[Mount("/mcp", app=endpoint)], lifespan=lifespan)

        async def rooted(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["path"] == "/mcp":
                scope = {**scope, "path": "/mcp/"}
            await app(scope, receive, send)

        server = uvicorn.Server(uvicorn.Config(rooted, log_level="warning", lifespan="on"))
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        await server.serve(sockets=[listener])
        await tools.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
