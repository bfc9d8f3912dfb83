"""A client of the profile `direct` in the test's own process that sees the wire, and the tenant behind it."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage, jsonrpc_message_adapter

from apps import fresh_data
from moonpool.bootstrap import open_default_tenant
from moonpool.configuration.servers import parse_config
from moonpool.pipeline.approval import AutoApprover
from moonpool.sandboxes.fake import FakeBackend
from moonpool.server.mcp.client_requests import Bindings
from moonpool.server.mcp.direct.tools import DirectTools
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from moonpool.bootstrap import Tenant
    from moonpool.pipeline.approval import Approver

META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
WITHIN_S = 40


async def _nothing(guest: Any) -> None:
    await guest.receive()


@asynccontextmanager
async def open_tenant_of(
    folder: Path, servers: dict[str, Any], *, approver: Approver | None = None, **settings: Any
) -> AsyncGenerator[Tenant]:
    """A tenant over `servers` (name -> configuration entry) that runs no code."""
    text = json.dumps({"mcpServers": servers}).encode()
    config = parse_config(text, source="test", environ=os.environ)
    chosen = Settings.load({}, **{"data_dir": fresh_data(folder), "manifest_ttl_s": 0.001, **settings})
    async with open_default_tenant(
        chosen, config=config, approver=approver or AutoApprover(), environ=os.environ, backend=FakeBackend(_nothing)
    ) as tenant:
        yield tenant


@asynccontextmanager
async def tools_of(tenant: Tenant, bindings: Bindings | None = None) -> AsyncGenerator[DirectTools]:
    """The profile of the tenant's own user."""
    tools = DirectTools(tenant, bindings or Bindings())
    tools.prepare()
    try:
        yield tools
    finally:
        await tools.close()


class Wire:
    """One connection. `answers` answers requests of the server by method; without it they are refused."""

    def __init__(self, version: str, send: Any, answers: dict[str, Callable[[Any], Any]], able: dict[str, Any]) -> None:
        self.version, self._send, self._answers, self._able = version, send, answers, able
        self.heard: list[Any] = []  # notifications
        self.asked: list[Any] = []  # requests of the server
        self._waiting: dict[int, tuple[anyio.Event, list[Any]]] = {}
        self._number = 0
        self.moved = anyio.Event()
        self.greeting: Any = None  # what the server answered to `initialize`

    async def request(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> Any:
        """The whole response: with `result` or `error`."""
        return await self.answer(await self.begin(method, params, **meta))

    async def begin(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> int:
        self._number += 1
        self._waiting[self._number] = anyio.Event(), []
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": dict(params or {})}
        own: dict[str, Any] = {}
        if self.version == MODERN:
            own = {
                f"{META}protocolVersion": MODERN,
                f"{META}clientCapabilities": self._able,
                f"{META}clientInfo": {"name": "wire", "version": "1"},
            }
        if own or meta:
            message["params"]["_meta"] = {**own, **meta}
        await self._put(message)
        return self._number

    async def answer(self, number: int) -> Any:
        event, held = self._waiting[number]
        with anyio.fail_after(WITHIN_S):
            await event.wait()
        return held[0]

    async def result(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> Any:
        response = await self.request(method, params, **meta)
        assert "result" in response, response
        return response["result"]

    async def error(self, method: str, params: dict[str, Any] | None = None) -> Any:
        response = await self.request(method, params)
        assert "error" in response, response
        return response["error"]

    async def call(self, name: str, /, **arguments: Any) -> Any:
        return await self.result("tools/call", {"name": name, "arguments": arguments})

    async def names(self) -> list[str]:
        return [tool["name"] for tool in (await self.result("tools/list"))["tools"]]

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        await self._put({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def until(self, found: Callable[[], Any]) -> Any:
        """What `found` finds as soon as it finds something among what was heard or asked."""
        with anyio.fail_after(WITHIN_S):
            while not (what := found()):
                await self.moved.wait()
        return what

    def told(self, method: str) -> list[Any]:
        return [one.get("params", {}) for one in self.heard if one["method"] == method]

    async def _put(self, message: Any) -> None:
        await self._send.send(SessionMessage(jsonrpc_message_adapter.validate_python(message)))

    async def take(self, message: JSONRPCMessage) -> None:
        given = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        if "method" not in given:
            event, held = self._waiting[given["id"]]
            held.append(given)
            event.set()
        elif "id" not in given:
            self.heard.append(given)
        else:
            self.asked.append(given)
            await self._respond(given)
        moved, self.moved = self.moved, anyio.Event()
        moved.set()

    async def _respond(self, given: Any) -> None:
        answer = self._answers.get(given["method"])
        refusal = {"error": {"code": -32601, "message": "no"}}
        said = refusal if answer is None else {"result": answer(given.get("params"))}
        await self._put({"jsonrpc": "2.0", "id": given["id"], **said})


@asynccontextmanager
async def wire(
    tools: DirectTools,
    version: str = LEGACY,
    able: dict[str, Any] | None = None,
    **answers: Callable[[Any], Any],
) -> AsyncGenerator[Wire]:
    """A connection of a client that declares `able`; keywords are methods with `_` for `/`."""
    server = tools.make_server()
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](100)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](100)
    one = Wire(version, to_server, {name.replace("_", "/"): answer for name, answer in answers.items()}, able or {})

    async def read() -> None:
        async for message in from_server:
            await one.take(message.message)

    with to_server, from_client, to_client, from_server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(server.run, from_client, to_client, server.create_initialization_options())
            if version != MODERN:
                client = {"name": "wire", "version": "1"}
                params = {"protocolVersion": version, "capabilities": able or {}, "clientInfo": client}
                one.greeting = await one.result("initialize", params)
                await one.notify("notifications/initialized")
            yield one
            tasks.cancel_scope.cancel()
