"""Servers that are added to an open tenant: like configured ones, and gone with it, whatever moment it closes at."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from apps import fresh_data
from moonpool.bootstrap import open_engine, open_tenant
from moonpool.bootstrap.added_servers import AddedServers
from moonpool.configuration.servers import parse_config
from moonpool.core.errors import InputError
from moonpool.engine import tool_registry
from moonpool.engine.code_request import CodeRequest
from moonpool.pipeline.approval import AutoApprover
from moonpool.redaction.redactor import Redactor
from moonpool.sandboxes.fake import FakeBackend
from moonpool.settings import Settings
from tenants import PathsServer, calling_guest, open_engine_of_fakes, token_of
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.bootstrap import Engine, Tenant
    from moonpool.configuration.servers import McpConfig

pytestmark = pytest.mark.anyio


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return fresh_data(tmp_path / "data")


def _config(server: PathsServer, name: str) -> McpConfig:
    """The server `paths` with the tool `only_NAME`."""
    entry = {"url": f"{server.base}/{name}/mcp", "headers": {"Authorization": f"Bearer {token_of(name)}"}}
    return parse_config(json.dumps({"mcpServers": {"paths": entry}}).encode(), source="test", environ={})


async def _tenant(stack: AsyncExitStack, engine: Engine) -> Tenant:
    """One without servers."""
    tenant = await stack.enter_async_context(open_tenant(engine, "t", config=None, approver=AutoApprover()))
    await tenant.tool_registry.snapshot()
    return tenant


async def _shown(tenant: Tenant) -> list[str]:
    snapshot = await tenant.tool_registry.snapshot()
    return [tool.name for server in snapshot.manifest.servers for tool in server.tools]


async def _answer(tenant: Tenant, tool: str) -> str:
    envelope = await tenant.runtime.run(CodeRequest(code=json.dumps([tool]).encode()), tenant.caller_grant)
    return json.dumps(envelope.data)


async def test_an_added_server_that_cannot_be_shown_leaves_all_as_it_was(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    async with PathsServer().serving() as server, AsyncExitStack() as stack, asyncio.timeout(60):
        tenant = await _tenant(stack, await stack.enter_async_context(open_engine_of_fakes(data)))
        for name, before in (("a", []), ("b", ["only_a"])):
            with monkeypatch.context() as patch:
                patch.setattr(tool_registry, "write_tree", full)
                with pytest.raises(OSError, match="no space"):
                    await tenant.added_servers.add(_config(server, name))
            await tenant.tool_registry.refresh()  # asks those that are there
            assert await _shown(tenant) == before
            assert ("paths" in tenant.tool_registry.server_ids) == bool(before)
            if before:
                assert "a was called" in await _answer(tenant, "only_a")
            await tenant.added_servers.add(_config(server, name))
            assert await _shown(tenant) == [f"only_{name}"]
            assert f"{name} was called" in await _answer(tenant, f"only_{name}")
            assert token_of(name) not in await _answer(tenant, f"only_{name}")


async def test_calls_of_an_added_server_teach_types(data: Path) -> None:
    async with PathsServer().serving() as server, AsyncExitStack() as stack, asyncio.timeout(60):
        tenant = await _tenant(stack, await stack.enter_async_context(open_engine_of_fakes(data)))
        (listing,) = (await tenant.added_servers.add(_config(server, "a"))).manifest.servers
        await _answer(tenant, "only_a")
        await tenant.learned_types.settled()
        learned = await tenant.learned_types.of(tenant.caller_grant.principal, listing.tools[0])
        assert learned is not None
        assert learned.results == 1


async def test_an_added_server_is_asked_again_like_a_configured_one(data: Path) -> None:
    settings = Settings.load({}, data_dir=data, refresh_s=0.05)
    async with PathsServer().serving() as server, AsyncExitStack() as stack, asyncio.timeout(60):
        serving = open_engine(settings, environ={}, serving=True, backend=FakeBackend(calling_guest))
        tenant = await _tenant(stack, await stack.enter_async_context(serving))
        await tenant.added_servers.add(_config(server, "a"))
        await until(lambda: server.asked.count("tools/list") > 2)


async def test_a_tenant_that_closes_ends_a_server_that_is_being_added(data: Path) -> None:
    async with PathsServer(silent="tools/list").serving() as server, AsyncExitStack() as stack, asyncio.timeout(60):
        tenant = await _tenant(stack, await stack.enter_async_context(open_engine_of_fakes(data)))
        adding = asyncio.create_task(tenant.added_servers.add(_config(server, "a")))
        await until(lambda: "tools/list" in server.asked)
        await stack.aclose()
        assert adding.done()  # it writes nothing to what is closed
        assert "shut down" in str(adding.exception())


async def test_one_that_lists_its_tools_as_it_is_closed_is_not_added() -> None:
    asked, closed, open_now = asyncio.Event(), asyncio.Event(), set[str]()

    async def list_tools() -> str:
        asked.set()
        await closed.wait()
        return "its tools"

    @asynccontextmanager
    async def opened(config: McpConfig) -> AsyncGenerator[Any]:
        open_now.update(config.ids)
        try:
            yield SimpleNamespace(get=lambda _: SimpleNamespace(list_tools=list_tools))
        finally:
            open_now.difference_update(config.ids)
            closed.set()

    nothing: Any = SimpleNamespace(all_ids=())
    tools: Any = SimpleNamespace(registry=nothing, open_upstreams=opened, learn=lambda *_: None)
    servers = AddedServers(tools, {}, Redactor.of({}), nothing)
    config = parse_config(b'{"mcpServers": {"one": {"command": "/bin/true"}}}', source="test", environ={})
    async with asyncio.timeout(30):
        adding = asyncio.create_task(servers.add(config))
        await asked.wait()
        await servers.close()
        assert open_now == set()
        with pytest.raises(InputError, match="Moonpool is closing"):
            await adding
        with pytest.raises(InputError, match="Moonpool is closing"):
            await servers.add(config)
