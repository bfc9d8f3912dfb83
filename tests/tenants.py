"""Many tenants on one engine: a server that shows each path its own tool, and a guest that only makes calls."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from moonpool.bootstrap import open_engine, open_tenant
from moonpool.configuration.servers import parse_config
from moonpool.pipeline.approval import AutoApprover
from moonpool.sandboxes.fake import FakeBackend, Interrupted
from moonpool.sandboxes.messages import Done, Execute, ToolCall, ToolResult
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from starlette.requests import Request

    from moonpool.bootstrap import Engine, Tenant
    from moonpool.core.audit import JournalPlace
    from moonpool.pipeline.approval import Approver
    from moonpool.sandboxes.fake import FakeGuest


def token_of(name: str) -> str:
    """The credential of a tenant for its path of the server."""
    return f"credential-of-{name}-9f2c71"


class PathsServer:
    """An MCP server over HTTP whose path decides which credential it wants and which tool it has."""

    def __init__(self, *, read_only: bool = False, silent: str = "") -> None:
        """One method may be `silent`: it is not answered until the server ends."""
        self.base, self._silent, self._ends = "", silent, asyncio.Event()
        self.asked: list[str] = []  # methods
        self.annotations = {"readOnlyHint": read_only}
        self.calls: list[tuple[str, str]] = []  # path's name, tool

    async def _answer(self, request: Request) -> Response:
        name = request.path_params["name"]
        if request.headers.get("authorization") != f"Bearer {token_of(name)}":
            return Response(status_code=401)
        if request.method != "POST":
            return Response(status_code=405 if request.method == "GET" else 200)
        message = await request.json()
        if "id" not in message:
            return Response(status_code=202)
        self.asked.append(message["method"])
        if message["method"] == self._silent:
            await self._ends.wait()
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "paths", "version": "1"},
            },
            "tools/list": {
                "tools": [{"name": f"only_{name}", "inputSchema": {"type": "object"}, "annotations": self.annotations}]
            },
            "ping": {},
        }
        if message["method"] == "tools/call":
            self.calls.append((name, message["params"]["name"]))
            text = f"{name} was called with {token_of(name)}"
            results["tools/call"] = {"content": [{"type": "text", "text": text}]}
        if message["method"] not in results:
            error = {"code": -32601, "message": "unknown"}
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error})
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]})

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[PathsServer]:
        routes = [Route("/{name}/mcp", self._answer, methods=["GET", "POST", "DELETE"])]
        listener = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error", lifespan="off"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield self
        finally:
            self._ends.set()
            server.should_exit = True
            await serving


async def calling_guest(guest: FakeGuest) -> None:
    """Runs "code" that is a JSON list of tool names of server `paths`: calls each, and gives the replies."""
    while True:
        try:
            message, body = await guest.receive()
        except Interrupted:
            continue
        if not isinstance(message, Execute):
            continue
        replies: list[object] = []
        for number, tool in enumerate(json.loads(body), start=1):
            guest.send(ToolCall(id=number, server="paths", tool=tool), b"{}")
            while not isinstance((answer := await guest.receive())[0], ToolResult):
                pass
            replies.append(json.loads(answer[1]))
        guest.send(Done(run=message.run, status="ok", has_result=True), json.dumps(replies).encode())


@asynccontextmanager
async def open_engine_of_fakes(data: Path, **settings: Any) -> AsyncGenerator[Engine]:
    """An engine whose guests are `calling_guest`."""
    chosen = Settings.load({}, data_dir=data, **settings)
    async with open_engine(chosen, environ={}, backend=FakeBackend(calling_guest)) as engine:
        yield engine


async def enter_tenant(
    stack: AsyncExitStack, engine: Engine, server: PathsServer, name: str, *, approver: Approver | None = None,
    journal_place: JournalPlace | None = None, **block: Any,
) -> Tenant:  # fmt: skip
    """Open tenant `name` with its path of the server; `block` is the server's `moonpool` block."""
    entry = {
        "url": f"{server.base}/{name}/mcp",
        "headers": {"Authorization": f"Bearer {token_of(name)}"},
        "moonpool": block or {"allow": ["*"]},
    }
    config = parse_config(json.dumps({"mcpServers": {"paths": entry}}).encode(), source=name, environ={})
    return await stack.enter_async_context(
        open_tenant(engine, name, config=config, approver=approver or AutoApprover(), journal_place=journal_place)
    )
