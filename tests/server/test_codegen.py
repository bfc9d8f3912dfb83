"""The profile `codegen`: its stream byte by byte, `Read` on the caller's thread, what is outside, what is redacted."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import types
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from moonpool.features.storage.model import TreeLostError, TreeName
from moonpool.redaction.redactor import Redactor
from moonpool.server.mcp.codegen import reading
from moonpool.server.mcp.codegen.scrubbing import scrubbed
from moonpool.server.mcp.codegen.tool_table import TOOLS
from moonpool.server.mcp.codegen.workspace import DEFAULT_THREAD, thread_of
from pipeline.secret_samples import FIRES, TOKENS
from server.profile_fakes import CANARY, FakeServices, serving_profiles
from server.services import caller, handshake, notification, request, streaming

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from server.services import OpenService

    Ask = Callable[[Any], Awaitable[Any]]

pytestmark = pytest.mark.anyio
GOLDENS = Path(__file__).parent.parent / "goldens" / "codegen"
ACCEPT = {"accept": "text/event-stream"}
THREAD = TreeName(kind="thread", name="workspace")
README = b"# My project\nIt reads files.\n"


@pytest.fixture
def services() -> FakeServices:
    made = FakeServices()
    made.trees.put(THREAD, "README.md", README)
    return made


@pytest.fixture
async def service(services: FakeServices) -> AsyncGenerator[OpenService]:
    async with serving_profiles(services, profile="codegen") as one:
        yield one


@asynccontextmanager
async def stream(service: OpenService, version: str = "2024-11-05", **headers: str) -> AsyncGenerator[Ask]:
    """Open `/sse` and do the handshake; what is yielded sends a message and returns the next that comes."""
    with anyio.fail_after(60):
        async with streaming(service, "GET", "/sse", headers={**ACCEPT, **headers}) as (_, events):
            address = (await anext(events))["text"]

            async def ask(message: Any) -> Any:
                answer = await service.post(message, path=address, **headers)
                assert (answer.status_code, answer.content) == (202, b"")
                return json.loads((await anext(events))["text"]) if "id" in message else None

            await ask(handshake(version))
            await ask(notification("notifications/initialized"))
            yield ask


def read_call(path: Any, id: Any = 3, **more: Any) -> dict[str, Any]:  # noqa: A002
    return request("tools/call", {"name": "Read", "arguments": {"file_path": path, **more}}, id)


def text_of(answer: Any) -> tuple[bool, str]:
    result = answer["result"]
    (item,) = result["content"]
    assert set(item) == {"type", "text"}
    assert item["type"] == "text"
    return result.get("isError", False), item["text"]


# --- the wire


@pytest.mark.req("K-001", "K-002", "K-003", "K-004", "K-006", "K-007", "K-015", "X-08")
async def test_the_page_s_walk_byte_by_byte(service: OpenService) -> None:
    heard = bytearray()
    expected = (GOLDENS / "walk.sse").read_bytes()
    messages = [
        handshake("2024-11-05"), notification("notifications/initialized"), request("tools/list", {}, 2),
        read_call("README.md"),
    ]  # fmt: skip
    with anyio.fail_after(60):
        async with service.http.stream("GET", "/sse", headers=ACCEPT) as response:
            parts = response.aiter_raw()

            async def hear(frames: int) -> None:
                while heard.count(b"\n\n") < frames:
                    heard.extend(await anext(parts))

            await hear(1)
            address = heard.split(b"data: ")[1].decode().strip()
            for message in messages:
                answer = await service.post(message, path=address)
                assert (answer.status_code, answer.content) == (202, b"")
                if "id" in message:
                    await hear(message["id"] + 1)
    assert re.sub(rb"[0-9a-f-]{36}", b"<uuid>", bytes(heard)) == expected


@pytest.mark.req("K-002", "A-035", "A-036")
@pytest.mark.parametrize(
    ("asked", "given"),
    [(one, one) for one in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")] + [("1999-01-01", "2025-11-25")],
)
async def test_the_handshake_echoes_known_revisions(service: OpenService, asked: str, given: str) -> None:
    async with streaming(service, "GET", "/sse", headers=ACCEPT) as (_, events):
        address = (await anext(events))["text"]
        await service.post(handshake(asked), path=address)
        greeting = json.loads((await anext(events))["text"])["result"]
    assert json.dumps(greeting) == json.dumps(
        {
            "protocolVersion": given,
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "codegen-sandbox", "version": "0.1.0"},
        }
    )


@pytest.mark.req("K-006", "K-007", "K-012")
async def test_it_is_also_at_its_path(services: FakeServices) -> None:
    async with serving_profiles(services) as service:  # the caller may use any profile
        session = await service.session(path="/mcp/codegen")
        tools = await service.post(request("tools/list"), path="/mcp/codegen", **session)
        (tool,) = tools.json()["result"]["tools"]
        assert (tool["name"], tool["inputSchema"]["required"]) == ("Read", ["file_path"])
        assert tool["annotations"] == {
            "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False,
        }  # fmt: skip
        for headers in (session, {}):
            answer = await service.post(read_call("README.md"), path="/mcp/codegen", **headers)
            assert text_of(answer.json()) == (False, "1\t# My project\n2\tIt reads files.\n")


@pytest.mark.req("K-004", "K-007")
async def test_the_official_client_walks_by_sse_and_by_http(service: OpenService) -> None:
    for transport in (sse_client(f"{service.base}/sse"), streamable_http_client(f"{service.base}/mcp")):
        with anyio.fail_after(60):
            async with Client(transport) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == ["Read"]
                result = await client.call_tool("Read", {"file_path": "README.md"})
                missing = await client.call_tool("Read", {"file_path": "none.md"})
                with pytest.raises(MCPError, match="tool 'Write' not found: tool not found"):
                    await client.call_tool("Write", {})
        (item,) = result.content
        assert isinstance(item, types.TextContent)
        assert (item.text, result.is_error) == ("1\t# My project\n2\tIt reads files.\n", False)
        assert missing.is_error


@pytest.mark.req("X-02", "K-008", "C-022")
async def test_what_is_no_call_or_no_tool_is_a_protocol_error(service: OpenService, services: FakeServices) -> None:
    async with stream(service) as ask:
        unknown = await ask(request("tools/call", {"name": "Nope"}, 4))
        assert unknown["error"] == {"code": -32602, "message": "tool 'Nope' not found: tool not found"}
        for params in ({}, {"name": 5}, {"name": "Read", "arguments": []}):
            assert (await ask(request("tools/call", params, 5)))["error"]["code"] == -32602
        assert (await ask(request("resources/list", id=6)))["error"]["code"] == -32601


@pytest.mark.req("X-08", "K-015", "J-015")
async def test_a_tool_that_is_switched_off_is_gone_and_the_client_is_told(
    service: OpenService, services: FakeServices
) -> None:
    async with stream(service) as ask:
        assert len((await ask(request("tools/list", id=2)))["result"]["tools"]) == 1
        services.tools_off = frozenset({"Read"})
        told = await ask(read_call("README.md"))
        assert told == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        assert (await ask(request("tools/list", id=4)))["error"]["message"] == "tool 'Read' not found: tool not found"


# --- Read


@pytest.mark.req("K-007")
@pytest.mark.parametrize(
    ("content", "more", "text"),
    [
        (b"a\nb\nc\n", {}, "1\ta\n2\tb\n3\tc\n"),
        (b"a\nb\nc", {"offset": 2}, "2\tb\n3\tc\n"),
        (b"a\nb\nc\n", {"offset": 0}, "1\ta\n2\tb\n3\tc\n"),
        (b"a\nb\nc\n", {"offset": -5, "limit": 1}, "1\ta\n"),
        (b"a\nb\nc\n", {"offset": 2.0, "limit": 1.0}, "2\tb\n"),
        (b"a\nb\n", {"limit": 0}, "1\ta\n2\tb\n"),
        (b"a\r\n\r\nb", {}, "1\ta\n2\t\n3\tb\n"),
        (b"caf\xe9\n", {}, "1\tcaf\N{REPLACEMENT CHARACTER}\n"),
        (b"", {}, ""),
        (b"x\n" * 2500, {}, "".join(f"{n}\tx\n" for n in range(1, 2001))),
        (b"x\n" * 2500, {"offset": 2400, "limit": 5000}, "".join(f"{n}\tx\n" for n in range(2400, 2501))),
    ],
)
async def test_lines_have_numbers(
    service: OpenService, services: FakeServices, content: bytes, more: dict[str, Any], text: str
) -> None:
    services.trees.put(THREAD, "file", content)
    assert text_of((await service.post(read_call("file", **more))).json()) == (False, text)


@pytest.mark.req("K-007", "X-04")
@pytest.mark.parametrize(
    "path", ["README.md", "./README.md", "src/../README.md", "/workspace/README.md", "/home/baponi//README.md"]
)
async def test_a_file_has_several_names(service: OpenService, path: str) -> None:
    assert text_of((await service.post(read_call(path, limit=1))).json()) == (False, "1\t# My project\n")


@pytest.mark.req("K-008", "X-02")
async def test_what_a_user_can_mend_is_a_result(
    service: OpenService, services: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SCANNED_BYTES_MAX", 3 * 1024**2)
    services.trees.put(THREAD, "folder/a", b"a")
    services.trees.put(THREAD, "made", b"", kind="folder")
    services.trees.put(THREAD, "binary", b"ab\0c")
    services.trees.put(THREAD, "long", b"a\n" + b"x" * (1024**2 + 1))
    services.trees.put(THREAD, "huge", b"a\n" * (2 * 1024**2))
    for arguments, words in (
        ({}, 'required argument "file_path"'),
        ({"file_path": 5}, 'required argument "file_path"'),
        ({"file_path": ""}, 'required argument "file_path"'),
        ({"file_path": "README.md", "offset": "x"}, '"offset" must be a number'),
        ({"file_path": "README.md", "limit": True}, '"limit" must be a number'),
        ({"file_path": "none"}, "file not found: none"),
        ({"file_path": "README.md/x"}, "file not found"),
        ({"file_path": "README.md", "offset": 3}, "offset 3 is past the end of README.md, which has 2 lines"),
        ({"file_path": "folder"}, "folder is a directory"),
        ({"file_path": "made"}, "made is a directory"),
        ({"file_path": "."}, ". is a directory"),
        ({"file_path": "/workspace"}, "/workspace is a directory"),
        ({"file_path": "binary"}, "binary is a binary file"),
        ({"file_path": "long"}, "token too long"),
        ({"file_path": "huge", "offset": 2 * 1024**2}, "is read to 3,145,728 bytes"),
        ({"file_path": "a\0b"}, "cannot be used"),
    ):
        call = request("tools/call", {"name": "Read", "arguments": arguments})
        is_error, text = text_of((await service.post(call)).json())
        assert (is_error, words in text) == (True, True), (arguments, text)


@pytest.mark.req("K-007")
async def test_a_result_is_cut_at_a_line(service: OpenService, services: FakeServices) -> None:
    services.trees.put(THREAD, "wide", (b"x" * 1000 + b"\n") * 1500)
    text = text_of((await service.post(read_call("wide"))).json())[1]
    *lines, last = text.splitlines()
    assert len(text.encode()) <= reading.TEXT_BYTES_MAX + 100
    assert last == f"... (output truncated; go on with offset={len(lines) + 1})"


@pytest.mark.req("K-011", "K-008", "F-022")
async def test_nothing_outside_is_read(service: OpenService, services: FakeServices) -> None:
    services.trees.put(THREAD, "link", b"", kind="link", target="/etc/passwd")
    services.trees.put(THREAD, "inner", b"", kind="link", target="README.md")
    services.trees.put(TreeName(kind="thread", name="other"), "a", b"of another thread")
    outside = [
        "../x", "a/../../etc/passwd", "/etc/passwd", "/workspace/../etc/passwd", "/workspacex/a", "/home/baponi/../x",
        "/proc/self/root/etc/passwd", "/proc/self/cwd/README.md", "//etc/passwd", "../other/a", "/dev/null", "/",
    ]  # fmt: skip
    for path in outside:
        assert text_of((await service.post(read_call(path))).json()) == (True, "path is outside workspace root")
    for path in ("link", "inner", "link/x", "~/.ssh/id_rsa", "file:///etc/passwd", "..\\..\\etc\\passwd"):
        is_error, text = text_of((await service.post(read_call(path))).json())
        assert is_error
        assert ("symbolic link" in text) == (path in {"link", "inner"})


@pytest.mark.req("K-007", "J-035")
async def test_each_caller_reads_its_own_thread(services: FakeServices) -> None:
    callers = {one: caller(one, profile="codegen") for one in ("k1", "named")}
    callers["user"] = caller("user", principal="user:https://id#bob", profile="codegen")
    services.workspaces = {"key:named": "shared-name"}
    for tree, owner in (("k1", ""), ("shared-name", ""), ("workspace", "user:https://id#bob")):
        services.trees.put(TreeName(kind="thread", name=tree, owner=owner), "a", f"of {tree}".encode())
    async with serving_profiles(services, callers) as service:
        for name, tree in (("k1", "k1"), ("named", "shared-name"), ("user", "workspace")):
            answer = await service.post(read_call("a"), authorization=f"Bearer {name}")
            assert text_of(answer.json()) == (False, f"1\tof {tree}\n")


def test_names_of_workspaces() -> None:
    assert thread_of("key:abc_1", None) == "abc_1"
    assert thread_of("key:--a/b", None) == "a-b"
    assert thread_of("key:", None) == thread_of("local:me", None) == DEFAULT_THREAD
    assert thread_of("key:abc", "mine") == "mine"


@pytest.mark.req("K-008")
async def test_a_thread_that_was_never_used_is_empty(services: FakeServices) -> None:
    async with serving_profiles(FakeServices(), profile="codegen") as service:
        assert text_of((await service.post(read_call("a"))).json()) == (True, "file not found: a")


@pytest.mark.req("K-009")
async def test_a_fault_is_an_error_of_the_protocol(
    service: OpenService, services: FakeServices, caplog: pytest.LogCaptureFixture
) -> None:
    services.trees.fault = TreeLostError("the thread was taken away")
    async with stream(service) as ask:
        assert (await ask(read_call("a")))["error"] == {"code": -32603, "message": "the thread was taken away"}
        services.trees.fault = RuntimeError("a bug in /srv/secret")  # type: ignore[assignment]
        bug = (await ask(read_call("a", id=4)))["error"]
    assert (bug["code"], "secret" in bug["message"], "secret" in caplog.text) == (-32603, False, True)


# --- redaction


def _secrets() -> dict[str, tuple[str, str]]:
    """By kind, a text and the secret in it."""
    shapes = {kind: (f"x {secret} y", secret) for kind, secret in TOKENS.items()}
    for text, kind in FIRES[:8]:
        secret = text[text.index("«") + 1 : text.index("»")]
        shapes[f"{kind} in {text[:12]}"] = (text.replace("«", "").replace("»", ""), secret)
    return {**shapes, "known": (f"x {CANARY} y", CANARY)}


@pytest.mark.req("K-013", "K-012")
async def test_secrets_of_all_kinds_are_redacted_in_every_tool(service: OpenService, services: FakeServices) -> None:
    secrets = _secrets()
    assert len(TOKENS) >= 20
    for number, (text, _) in enumerate(secrets.values()):
        services.trees.put(THREAD, f"file-{number}", f"before\n{text}\nafter\n".encode())
    async with stream(service) as ask:
        for tool in TOOLS:
            for number, (kind, (text, secret)) in enumerate(secrets.items()):
                if "\n" not in secret:
                    lines = text_of(await ask(read_call(f"file-{number}")))[1]
                    assert f"{secret}\n" not in lines.replace(f"{text}\n", "LEAK"), kind
                    assert "REDACTED:" in lines, (tool, kind)
                else:
                    lines = text_of(await ask(read_call(f"file-{number}")))[1]
                    assert "REDACTED:private_key" in lines
                    assert all(part not in lines for part in secret.splitlines() if len(part) > 20)


@pytest.mark.req("K-013")
async def test_errors_are_redacted_too(service: OpenService) -> None:
    for token in [one for one in TOKENS.values() if "\n" not in one and len(one) < 90]:
        missing = (await service.post(read_call(f"{token} x"))).json()
        unknown = (await service.post(request("tools/call", {"name": token}))).json()
        assert token not in json.dumps([missing, unknown])
        assert "REDACTED:" in json.dumps(missing)
        assert "REDACTED:" in json.dumps(unknown)


@pytest.mark.req("K-014", "K-013")
async def test_text_of_resources_is_redacted_and_pictures_are_not() -> None:
    picture = {"type": "image", "data": CANARY, "mimeType": "image/png"}
    blob = {"type": "resource", "resource": {"uri": "x:", "blob": CANARY}}
    embedded = {"type": "resource", "resource": {"uri": "x:", "text": f"a {CANARY}"}}

    class Call:
        method = "tools/call"

    async def work(_: Any) -> Any:
        return {"content": [picture, blob, embedded, {"type": "text", "text": CANARY * 20_000}], "isError": False}

    scrub: Any = scrubbed(Redactor.of({"CANARY": CANARY}))
    told = await scrub(Call(), work)
    assert told["content"][:2] == [picture, blob]
    assert told["content"][2]["resource"]["text"] == "a [REDACTED:CANARY]"
    assert CANARY not in told["content"][3]["text"]
