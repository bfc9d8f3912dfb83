"""`moonpool mcp` in front of a service: the protocol of stdio on one side, of HTTP on the other."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
import httpx2
import pytest

from apps import fixture_server, fresh_data
from cli.console import moonpool
from commands.process import SCRIPT
from moonpool.cli.mcp_forward import Forwarder, http_client
from server.modern_client import ModernClient
from server.raw_client import RawClient
from server.test_server_requests import ACCEPTED, ELICIT, code_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """How a client starts it: in front of the service of a data folder, which the first one starts."""
    home = tmp_path_factory.mktemp("forward")
    servers = {"s": fixture_server("curious.py", "legacy", allow=["*"], elicitation="relay", expose="both")}
    (home / "moonpool.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    data = fresh_data(Path(f"/var/tmp/moonpool-forward-{uuid.uuid4().hex[:8]}"))
    environ = {"MOONPOOL_DATA_DIR": str(data)}
    moonpool(home, "run", "-c", "1", "--session", "keeper", **environ)  # it stays between the tests
    yield {"cwd": str(home), **environ, "MOONPOOL_SERVICE_URL": "local"}
    moonpool(home, "session", "close", "--all", **environ)
    shutil.rmtree(data, ignore_errors=True)


def forwarding(local: dict[str, Any], *options: str) -> RawClient:
    return RawClient(command=[str(SCRIPT), "mcp", *options], **local)


def test_calls_questions_and_cancellations_pass(local: dict[str, Any]) -> None:
    with forwarding(local) as client:
        assert client.handshake(elicitation={"form": {}})["protocolVersion"] == "2025-11-25"
        asking = client.start(code_of("s", ELICIT))
        question = client.receive()
        while question.get("method") != "elicitation/create":
            question = client.receive()
        endless = client.start("import time\nprint('here', flush=True)\ntime.sleep(600)")
        client.notify("notifications/cancelled", {"requestId": endless})
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": ACCEPTED})
        answered = client.answer(asking)["result"]["structuredContent"]
        assert "Ada" in json.dumps(answered["data"])
        assert client.call("nope")["error"]["code"] == -32601
        client.write(b'{"broken\n')
        assert client.receive()["error"]["code"] == -32700
        assert client.call("ping")["result"] == {}
        assert client.close() == 0
        assert client.rest() == []


def test_a_client_without_sessions_is_served_and_ends_calls_with_their_connections(local: dict[str, Any]) -> None:
    with forwarding(local) as client:
        modern = ModernClient(client)
        assert modern.finish("result = 6 * 7")["data"] == 42
        endless = modern.start("import time\ntime.sleep(600)")
        client.notify("notifications/cancelled", {"requestId": endless})
        assert modern.finish("'é'")["data"] == "é"
        assert client.close() == 0
        assert client.rest() == []


def test_the_profile_is_the_services(local: dict[str, Any]) -> None:
    with forwarding(local, "--profile", "direct") as client:
        client.handshake()
        assert "ask" in {tool["name"] for tool in client.call("tools/list")["result"]["tools"]}


def test_what_cannot_be_forwarded_is_said(tmp_path: Path) -> None:
    def refused(url: str, *options: str) -> str:
        return moonpool(tmp_path, "mcp", *options, MOONPOOL_SERVICE_URL=url, MOONPOOL_SERVICE_KEY="sk-local-x").sentence

    assert "write https://" in refused("http://example.com")
    assert "service_url must be `local`" in refused("example.com")
    assert "only --profile goes with it" in refused("local", "--config", "x.json")
    with RawClient(command=[str(SCRIPT), "mcp"], MOONPOOL_SERVICE_URL="http://127.0.0.1:1") as client:
        assert "cannot be reached" in client.call("ping")["error"]["message"]
        assert client.close() == 0


@pytest.mark.anyio
async def test_a_service_answers_each_request_once_and_no_other() -> None:
    answers = [{"jsonrpc": "2.0", "id": id_, "result": {"n": n}} for n, id_ in enumerate((2, 1, 1))]
    told = [{"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 100_000}}, *answers]
    events = "".join(f"id: 1\r\ndata: {json.dumps(one)}\r\n\r\n" for one in told).encode()

    class Client:
        """Asks once, and leaves when it was answered."""

        def __init__(self) -> None:
            self.lines, self.heard, self.answered = [b'{"jsonrpc":"2.0","id":1,"method":"ping"}'], [], anyio.Event()

        async def receive(self) -> bytes | None:
            if self.lines:
                return self.lines.pop()
            await self.answered.wait()
            return None

        async def send(self, line: bytes) -> None:
            self.heard.append(json.loads(line))
            if "id" in self.heard[-1]:
                self.answered.set()

    async def piecemeal() -> AsyncIterator[bytes]:
        for begin in range(0, len(events), 999):
            yield events[begin : begin + 999]

    def serve(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=piecemeal())

    client: Any = Client()
    with anyio.fail_after(20):
        async with http_client("http://127.0.0.1", "", cast("Any", httpx2.MockTransport(serve))) as http:
            await Forwarder(http, "/mcp", client, None).forward(client)
    assert client.heard == [told[0], answers[1]]
