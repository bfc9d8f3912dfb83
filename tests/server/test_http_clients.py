"""The SDKs' own clients over HTTP: every mode, and the transport of 2024-11-05."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from server.http_transcripts import FOLDER, callers, play
from server.http_transcripts import NAMES as NAMES_OF_TRANSCRIPTS
from server.services import serving

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from server.services import OpenService

pytestmark = pytest.mark.anyio
NAMES = ["search_tools", "get_tool_definition", "execute_code", "wait"]


@pytest.fixture(scope="module")
async def service() -> AsyncGenerator[OpenService]:
    async with serving() as one:
        yield one


@pytest.mark.req("B-030", "B-038", "C-022", "A-088")
@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28",) * 2])
async def test_the_sdk_lists_tools_and_runs_code(service: OpenService, mode: str, version: str) -> None:
    from mcp import Client

    with anyio.fail_after(60):
        async with Client(f"{service.base}/mcp", mode=mode) as client:
            assert client.protocol_version == version
            await _works(client)


@pytest.mark.req("B-016", "B-017", "B-018", "B-019", "B-081")
@pytest.mark.parametrize("mode", ["legacy"])
async def test_the_sdk_speaks_http_with_sse(service: OpenService, mode: str) -> None:
    from mcp import Client
    from mcp.client.sse import sse_client

    with anyio.fail_after(60):
        async with Client(sse_client(f"{service.base}/sse"), mode=mode) as client:
            await _works(client)


async def _works(client: Any) -> None:
    from mcp import MCPError

    heard: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
    result = await client.call_tool("execute_code", {"code": "result = 6 * 7"})
    assert result.structured_content == {"ok": True, "data": 42}
    failed = await client.call_tool("execute_code", {"code": "1/0"})
    assert failed.is_error
    await client.call_tool("execute_code", {"code": "print('x')"}, progress_callback=hear)
    assert heard == ["x\n"]
    with pytest.raises(MCPError) as unknown:
        await client.call_tool("nope", {})
    assert unknown.value.error.code == -32602


@pytest.mark.req("A-020", "A-024", "A-035", "A-041", "A-092", "B-036", "B-072", "K-002", "X-17", "X-20")
async def test_the_transcripts_over_http_are_as_recorded() -> None:
    spoken: dict[str, list[str]] = {}
    with anyio.fail_after(120):
        async with serving(callers()) as service:
            for name in NAMES_OF_TRANSCRIPTS:
                spoken[name] = await play(name, service)

    for name, lines in spoken.items():
        assert lines == (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines(), name
