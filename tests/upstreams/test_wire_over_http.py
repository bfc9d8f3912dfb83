"""What a server of the revisions with sessions hears from us over HTTP: every request with its headers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.upstreams import UpstreamError
from upstreams.peers import upstream
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.upstreams import Upstream

pytestmark = pytest.mark.anyio
SESSION = "session-4711-of-the-recorder"
BOTH = {"application/json", "text/event-stream"}


@dataclass(kw_only=True)
class Heard:
    """One request."""

    verb: str
    path: str
    headers: dict[str, str]
    body: Any = None

    @property
    def method(self) -> str:
        return self.body.get("method", "") if isinstance(self.body, dict) else ""


@dataclass(kw_only=True)
class Recorder:
    """A server with sessions that notes what it hears. `refusing`: the HTTP status of every POST to `/refusing`, whose
    GET is the event stream of the older transport.
    """

    version: str = "2025-11-25"
    session: str = SESSION
    heard: list[Heard] = field(default_factory=list["Heard"])
    port: int = 0
    refusing: int = 0
    forgotten: bool = False  # it does not know its session any more
    hanging: bool = False  # no call is answered
    streams: list[asyncio.StreamWriter] = field(default_factory=list["asyncio.StreamWriter"])
    serving: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def count(self, *, verb: str = "POST", method: str | None = None) -> int:
        return sum(one.verb == verb and method in {None, one.method} for one in self.heard)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        try:
            while True:
                heard = await read(reader)
                self.heard.append(heard)
                await self.respond(heard, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # 3.11 makes noise about one that was cancelled
        finally:
            writer.close()

    async def respond(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        if heard.path == "/refusing":
            await self.refuse(heard, writer)
        elif heard.verb == "DELETE":
            await send(writer, "405 Method Not Allowed")
        elif heard.verb == "GET":
            await head(writer)
            self.streams.append(writer)
        elif heard.method == "initialize":
            self.forgotten = False
            about = {"protocolVersion": self.version, "capabilities": {"tools": {"listChanged": True}}}
            await send(writer, "200 OK", answer(heard, about), f"mcp-session-id: {self.session}")
        elif self.forgotten:
            await send(writer, "404 Not Found")
        elif "id" not in heard.body or (self.hanging and heard.method == "tools/call"):
            await send(writer, "202 Accepted") if "id" not in heard.body else await head(writer)
        elif heard.method == "tools/call":  # as a stream, all else as one object
            await head(writer)
            data = b"id: 1\nretry: 10\ndata:\n\nevent: message\ndata: %b\n\n" % answer(heard, {"content": []})
            writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))
        else:
            tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
            await send(writer, "200 OK", answer(heard, {"tools": tools}))

    async def refuse(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        """As the older transport alone does, but for the status."""
        if heard.verb == "POST":
            await send(writer, f"{self.refusing} Refused")
            return
        await head(writer)
        self.streams.append(writer)
        await self.tell(b"event: endpoint\ndata: /legacy\n\n")

    async def tell(self, event: bytes) -> None:
        """Send an event on the newest stream."""
        self.streams[-1].write(b"%x\r\n%b\r\n" % (len(event), event))
        await self.streams[-1].drain()


def answer(heard: Heard, result: dict[str, Any]) -> bytes:
    about = {"serverInfo": {"name": "recorder", "version": "1"}} if "protocolVersion" in result else {}
    return json.dumps({"jsonrpc": "2.0", "id": heard.body["id"], "result": {**result, **about}}).encode()


async def read(reader: asyncio.StreamReader) -> Heard:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    verb, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Heard(verb=verb, path=path, headers=headers, body=json.loads(body) if body else None)


async def send(writer: asyncio.StreamWriter, status: str, body: bytes = b"", *headers: str) -> None:
    lines = [f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}", *headers, "", ""]
    writer.write("\r\n".join(lines).encode("latin-1") + body)
    await writer.drain()


async def head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    await writer.drain()


@asynccontextmanager
async def recording(**members: Any) -> AsyncGenerator[Recorder]:
    recorder = Recorder(**members)
    server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0)
    recorder.port = server.sockets[0].getsockname()[1]
    try:
        with anyio.fail_after(40):
            yield recorder
    finally:
        server.close()
        for task in recorder.serving:
            task.cancel()
        await asyncio.gather(*recorder.serving, return_exceptions=True)


@asynccontextmanager
async def connected(recorder: Recorder, path: str = "/mcp", **options: Any) -> AsyncGenerator[Upstream]:
    known = {"known_versions": {"srv": "2025-11-25"}}
    async with upstream({"url": recorder.url(path)}, **known, **options) as srv:
        yield srv


@pytest.mark.req("B-031", "B-032", "B-039", "B-046", "B-047", "B-063", "B-067", "B-068", "B-070", "B-071", "L-007")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_every_request_carries_what_the_transport_asks_for(version: str) -> None:
    changed = anyio.Event()
    async with recording(version=version) as recorder:
        async with connected(recorder, on_listing_changed=lambda _: changed.set()) as srv:
            await srv.list_tools()
            result = await srv.call_tool("echo", {}, timeout_s=20)
            await until(lambda: bool(recorder.streams))
            await recorder.tell(b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')
            await changed.wait()
        heard = recorder.heard

    posts = [one for one in heard if one.verb == "POST"]
    first, *later = posts
    rest = [one for one in heard if one is not first]
    assert result == {"content": []}
    assert [one.method for one in posts] == ["initialize", "notifications/initialized", "tools/list", "tools/call"]
    assert Counter(one.verb for one in rest if one not in later) == {"GET": 1, "DELETE": 1}
    assert all({kind.strip() for kind in one.headers["accept"].split(",")} >= BOTH for one in posts)
    assert all("text/event-stream" in one.headers["accept"] for one in rest if one.verb == "GET")
    assert "mcp-session-id" not in first.headers
    assert {one.headers.get("mcp-session-id") for one in rest} == {SESSION}
    assert {one.headers.get("mcp-protocol-version") for one in rest} == {version}
    assert "mcp-protocol-version" not in first.headers


@pytest.mark.req("B-066")
async def test_a_server_that_forgot_the_session_is_met_anew_and_the_call_made_once() -> None:
    async with recording() as recorder, connected(recorder) as srv:
        await srv.call_tool("echo", {}, timeout_s=20)
        recorder.forgotten = True
        await srv.call_tool("echo", {"again": True}, timeout_s=20)
        again = [one for one in recorder.heard if one.method == "tools/call"][1:]
        handshakes = [one for one in recorder.heard if one.method == "initialize"]

    assert len(handshakes) == 2
    assert all("mcp-session-id" not in one.headers for one in handshakes)
    assert [one.body["params"]["arguments"] for one in again] == [{"again": True}] * 2  # refused unread, then made


@pytest.mark.req("A-057", "B-045")
async def test_a_call_that_is_given_up_is_cancelled_by_a_message_of_its_own() -> None:
    async with recording(hanging=True) as recorder, connected(recorder) as srv:
        await srv.list_tools()
        with anyio.move_on_after(0.2):
            await srv.call_tool("echo", {}, timeout_s=20)
        await until(lambda: recorder.count(method="notifications/cancelled") == 1)
        told = {one.method: one.body for one in recorder.heard if one.body}

    assert told["notifications/cancelled"]["params"]["requestId"] == told["tools/call"]["id"]


@pytest.mark.req("B-018", "B-082", "B-083", "L-021")
@pytest.mark.parametrize(
    ("status", "falls_back"),
    [(400, True), (404, True), (405, True), (401, False), (403, False), (429, False), (500, False), (503, False)],
)
async def test_only_some_refusals_lead_to_the_older_transport(status: int, falls_back: bool) -> None:
    async with recording(refusing=status) as recorder:
        async with upstream({"url": recorder.url("/refusing"), "moonpool": {"connect_timeout_s": 20}}) as srv:
            if falls_back:
                with anyio.move_on_after(20) as scope:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(srv.list_tools)
                        await until(lambda: recorder.heard[-1:] != [] and recorder.heard[-1].path == "/legacy")
                        tasks.cancel_scope.cancel()
                assert not scope.cancelled_caught
            else:
                with pytest.raises(UpstreamError):
                    await srv.list_tools()
        heard = [(one.verb, one.path) for one in recorder.heard]

    assert (("GET", "/refusing") in heard) is falls_back
    if falls_back:
        assert heard.index(("POST", "/refusing")) < heard.index(("GET", "/refusing"))
        assert {one.headers["accept"] for one in recorder.heard if one.verb == "GET"} == {"text/event-stream"}
        assert {*heard[heard.index(("GET", "/refusing")) + 1 :]} == {("POST", "/legacy")}


@pytest.mark.req("L-020")
async def test_no_session_id_is_in_a_log_or_an_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "moonpool")
    async with recording() as recorder, connected(recorder) as srv:
        await srv.call_tool("echo", {}, timeout_s=20)
        recorder.hanging = True
        with pytest.raises(UpstreamError) as caught:
            await srv.call_tool("echo", {}, timeout_s=0.2)

    assert SESSION not in caplog.text + str(caught.value) + repr(caught.value)


@pytest.mark.req("B-062")
@pytest.mark.parametrize("session", ["two words", "tab\there", "\xe9t\xe9", "x" * 5000])
async def test_a_session_id_that_no_header_may_hold_is_refused(session: str) -> None:
    async with recording(session=session) as recorder, connected(recorder) as srv:
        with pytest.raises(UpstreamError, match="session id"):
            await srv.call_tool("echo", {}, timeout_s=20)

    assert recorder.count(method="tools/call") == 0
