"""Walks of both pages with the real `curl`, and with the official client of the SDK."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest
from mcp import types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from docs.pages import read, snippets
from moonpool.bootstrap.service import everybody
from moonpool.features.storage.model import TreeName
from moonpool.ipybox.mcp_server.hosted import served_profiles
from server.baponi_session import FOLDER, curl, walk
from server.profile_fakes import FakeServices, Ran, printed, serving_profiles
from server.services import JSON_TYPE, caller, handshake, notification, request

if TYPE_CHECKING:
    from moonpool.server.http.callers import HttpCaller

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")]
PAGES = ("docs/how-to/baponi-clients.md", "docs/how-to/codegen-clients.md")
REPORT = b"metric,value\r\nlatency_p50,12ms\r\nlatency_p99,45ms\r\n"


@pytest.mark.req("J-045", "J-046", "J-022", "J-041", "J-003", "J-004")
async def test_the_page_s_session_by_curl_with_a_restart_after_its_third_step() -> None:
    services = FakeServices()
    code = json.loads((FOLDER / "3.json").read_text(encoding="utf-8"))["params"]["arguments"]["code"]
    ran = printed("Report written.\n").result
    services.runs.table = {code: Ran(result=ran, files={"report.csv": REPORT})}
    callers: dict[str, HttpCaller] = {"YOUR_API_KEY": caller("page", profile="baponi")}
    async with AsyncExitStack() as running:

        async def start() -> str:
            await running.aclose()
            return (await running.enter_async_context(serving_profiles(services, callers))).base

        await walk(await start(), "YOUR_API_KEY", start)


@pytest.mark.req("J-045", "J-029", "K-010", "G-002")
async def test_the_pages_on_these_clients_say_what_works() -> None:
    entries = {one.page: json.loads(one.text) for one in snippets("baponi-client", "codegen-client")}
    baponi, codegen = (read(page) for page in PAGES)
    assert "result with `isError`" in baponi
    assert "JSON-RPC error" in baponi
    assert "Look at `isError` of every result" in codegen
    (entry,) = entries[PAGES[0]]["mcpServers"].values()
    key = entry["headers"]["Authorization"].removeprefix("Bearer ")
    async with serving_profiles(FakeServices(), {key: caller("page", profile="baponi")}) as service:
        bodies = re.findall(r"-d '(\{.*?\})'", baponi, re.DOTALL)
        told = [
            await service.http.post("/mcp", content=body, headers={**JSON_TYPE, **entry["headers"]}) for body in bodies
        ]
    assert [one.json()["id"] for one in told if "result" in one.json()] == [1, 1, 2, 3, 4]
    assert entries[PAGES[1]]["mcpServers"]["codegen-sandbox"]["url"].endswith("/sse")


@pytest.mark.req("J-038", "J-004")
async def test_official_clients_use_baponi_in_every_mode() -> None:
    services = FakeServices()
    services.trees.put(TreeName(kind="thread", name="demo"), "a.txt", b"text")
    async with serving_profiles(services, profile="baponi") as service:
        for mode in ("auto", "legacy"):
            client = Client(streamable_http_client(f"{service.base}/mcp"), mode=mode)
            with anyio.fail_after(60):
                async with client:
                    assert [tool.name for tool in (await client.list_tools()).tools] == [
                        "sandbox_execute", "files_download",
                    ]  # fmt: skip
                    ran = await client.call_tool("sandbox_execute", {"code": "hello"})
                    file = await client.call_tool("files_download", {"source": "thread", "id": "demo", "path": "a.txt"})
            (shown,), (text,) = ran.content, file.content
            assert isinstance(shown, types.TextContent)
            assert shown.text == "## Execution Result\n\n**stdout:**\n```\nhello\n```\n\n**Exit code:** 0"
            assert isinstance(text, types.TextContent)
            assert text.text == "text"


@pytest.mark.req("K-001", "K-002", "K-003", "K-004", "K-007")
async def test_the_stream_of_codegen_by_curl() -> None:
    services = FakeServices()
    services.trees.put(TreeName(kind="thread", name="workspace"), "README.md", b"# My project\nmore\n")
    heard = bytearray()
    async with serving_profiles(services, profile="codegen") as service:
        command = ["curl", "-s", "-N", "-H", "Accept: text/event-stream", f"{service.base}/sse"]
        with anyio.fail_after(120):
            async with await anyio.open_process(command, stderr=None) as stream:
                assert stream.stdout is not None

                async def frame(number: int) -> str:
                    while heard.count(b"\n\n") < number:
                        heard.extend(await stream.stdout.receive())  # type: ignore[union-attr]
                    return heard.split(b"\n\n")[number - 1].decode()

                async def post(message: Any) -> bytes:
                    content = ("-H", "Content-Type: application/json", "-d", json.dumps(message))
                    return await curl("-w", "%{http_code}", *content, f"{service.base}{address}")

                address = (await frame(1)).removeprefix("event: endpoint\ndata: ")
                assert await post(handshake("2024-11-05")) == b"202"
                greeting = await frame(2)
                assert await post(notification("notifications/initialized")) == b"202"
                call = {"name": "Read", "arguments": {"file_path": "README.md"}}
                assert await post(request("tools/call", call, 3)) == b"202"
                read = await frame(3)
                stream.terminate()
    assert greeting == (
        'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":'
        '{"tools":{"listChanged":true}},"serverInfo":{"name":"codegen-sandbox","version":"0.1.0"}}}'
    )
    assert read == (
        'event: message\ndata: {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text",'
        '"text":"1\\t# My project\\n2\\tmore\\n"}]}}'
    )


@pytest.mark.req("X-01")
@pytest.mark.parametrize("profile", ["baponi", "codegen"])
async def test_one_profile_for_everybody(profile: str) -> None:
    who = await everybody(profile, served_profiles()).caller({"headers": []})
    assert who.profile == profile
    async with serving_profiles({}, profile=profile) as service:  # a process without what they need
        answer = await service.post(request("tools/list"))
        refused: Any = answer.json()
        assert isinstance(answer, httpx2.Response)
        assert (answer.status_code, refused["error"]) == (400, "profile_unavailable")
