"""The seeds' sessions against `moonpool serve` itself: curl byte by byte, restarts in between, the official client."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx
import pytest
from anyio.to_thread import run_sync
from mcp import types
from mcp.client import Client
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client

from from_baponi.service import make_key, serving_baponi
from server.baponi_session import curl, walk
from server.services import handshake, notification, request

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from from_baponi.service import BaponiService

pytestmark = [
    pytest.mark.anyio, pytest.mark.slow, pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here"),
]  # fmt: skip
NOTES: Final = "with open('README.md', 'w') as f: f.write('# My project\\nmore\\n')"
READ: Final[Any] = {"name": "Read", "arguments": {"file_path": "README.md"}}
NUMBERED: Final = "1\t# My project\n2\tmore\n"


@contextmanager
def serving_codegen(folder: Path) -> Generator[BaponiService]:
    """One whose thread `workspace` has a README.md, with a key for it."""
    key = make_key(folder, "--profile", "codegen", "--thread", "workspace")
    with serving_baponi(folder, key=make_key(folder, "--profile", "baponi")) as service:
        ran = execute(service, NOTES, key=service.key, thread_id="workspace")
        assert ran["success"], ran
        service.key = key
        yield service


def execute(service: BaponiService, code: str, *, key: str = "", **body: Any) -> Any:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    url = f"{service.url}/v1/sandbox/execute"
    return httpx.post(url, json={"code": code, **body}, headers=headers, timeout=60).raise_for_status().json()


@pytest.mark.req("J-045", "J-046", "J-022", "J-041", "J-003", "J-004")
@pytest.mark.parametrize("kill", [False, True], ids=["SIGTERM", "kill -9"])
async def test_the_page_s_session_by_curl_with_a_restart_after_its_third_step(
    service: BaponiService, kill: bool
) -> None:
    before = service.serving.process.pid
    await walk(service.url, service.key, lambda: run_sync(lambda: service.restart(kill=kill)))
    assert service.serving.process.pid != before


@pytest.mark.req("K-001", "K-002", "K-003", "K-004", "K-007")
async def test_the_stream_of_codegen_by_curl(tmp_path: Path) -> None:
    with anyio.fail_after(200), serving_codegen(tmp_path) as service:
        greeting, read = await streamed(service, bearer(service.key))
    assert greeting == (
        'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":'
        '{"tools":{"listChanged":true}},"serverInfo":{"name":"codegen-sandbox","version":"0.1.0"}}}'
    )
    assert read == (
        'event: message\ndata: {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text",'
        '"text":"1\\t# My project\\n2\\tmore\\n"}]}}'
    )


def bearer(key: str) -> tuple[str, ...]:
    return ("-H", f"Authorization: Bearer {key}") if key else ()


async def streamed(service: BaponiService, credential: tuple[str, ...]) -> tuple[str, str]:
    """The frames that answer the handshake and `Read`."""
    heard = bytearray()
    command = ["curl", "-s", "-N", *credential, "-H", "Accept: text/event-stream", f"{service.url}/sse"]
    async with await anyio.open_process(command, stderr=None) as stream:

        async def frame(number: int) -> str:
            while heard.count(b"\n\n") < number:
                heard.extend(await stream.stdout.receive())  # type: ignore[union-attr]
            return heard.split(b"\n\n")[number - 1].decode()

        async def post(message: Any) -> bytes:
            content = (*credential, "-H", "Content-Type: application/json", "-d", json.dumps(message))
            return await curl("-w", "%{http_code}", *content, f"{service.url}{address}")

        address = (await frame(1)).removeprefix("event: endpoint\ndata: ")
        assert await post(handshake("2024-11-05")) == b"202"
        greeting = await frame(2)
        assert await post(notification("notifications/initialized")) == b"202"
        assert await post(request("tools/call", READ, 3)) == b"202"
        read = await frame(3)
        stream.terminate()
    return greeting, read


@pytest.mark.req("K-001", "K-007")
async def test_the_official_client_reads_over_the_stream(tmp_path: Path) -> None:
    with anyio.fail_after(200), serving_codegen(tmp_path) as service:
        headers = {"Authorization": f"Bearer {service.key}"}
        async with sse_client(f"{service.url}/sse", headers=headers) as streams, ClientSession(*streams) as session:
            greeted = await session.initialize()
            names = {tool.name for tool in (await session.list_tools()).tools}
            read = await session.call_tool(READ["name"], READ["arguments"])
        other = make_key(tmp_path, "--profile", "baponi")
        refused = await curl("-w", "%{http_code}", "-o", "/dev/null", *bearer(other), f"{service.url}/sse")
    assert greeted.server_info.name == "codegen-sandbox"
    assert "Read" in names
    assert text_of(read) == NUMBERED
    assert refused == b"404"


def text_of(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


@pytest.mark.req("X-01", "J-041")
async def test_baponi_without_a_key_has_threads_and_files(tmp_path: Path) -> None:
    with (
        anyio.fail_after(200),
        serving_baponi(tmp_path, "--no-auth", "--profile", "baponi", key="none") as service,
    ):
        await walk(service.url, "none", lambda: run_sync(service.restart))
        again = execute(service, "print(open('report.csv').readline(), end='')", thread_id="demo-thread-1")
        async with Client(f"{service.url}/mcp") as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            asked = {"source": "thread", "id": "demo-thread-1", "path": "report.csv"}
            file = await client.call_tool("files_download", asked)
    assert names == ["sandbox_execute", "files_download"]
    assert again["stdout"] == "metric,value\n"
    assert text_of(file).startswith("metric,value")


@pytest.mark.req("X-01", "K-001")
async def test_codegen_without_a_key_is_at_sse_without_a_path(tmp_path: Path) -> None:
    with (
        anyio.fail_after(200),
        serving_baponi(tmp_path, "--no-auth", "--profile", "baponi", key="none") as service,
    ):
        assert execute(service, NOTES, thread_id="workspace")["success"]
        service.options = ("--no-auth", "--profile", "codegen")
        await run_sync(service.restart)
        greeting, read = await streamed(service, ())
        async with sse_client(f"{service.url}/sse") as streams, ClientSession(*streams) as session:
            await session.initialize()
            by_client = await session.call_tool(READ["name"], READ["arguments"])
    assert re.search(r'"name":"codegen-sandbox"', greeting)
    assert json.loads(read.partition("data: ")[2])["result"]["content"][0]["text"] == text_of(by_client) == NUMBERED
