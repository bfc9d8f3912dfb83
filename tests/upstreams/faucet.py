"""A hostile HTTP server, written by hand: answers a handshake, then pours out what its path says, and counts it."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from upstreams.peers import SECRET

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

POURED_BYTES_MAX = 256 * 1024 * 1024
"""After so much it stops by itself: a client without a limit must not take the machine with it."""
WATER = b" " * 65_536
SIZE = 600_000
ABOUT = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "resources": {"listChanged": True}},
    "serverInfo": {"name": "faucet", "version": "1"},
}
RESULTS = {"initialize": ABOUT, "tools/list": {"tools": []}}
NEWS = b'{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}'


@dataclass(kw_only=True)
class Request:
    method: str
    path: str
    message: dict[str, Any] = field(default_factory=dict)

    @property
    def asks(self) -> str:
        """The method of the JSON-RPC request, if it is one."""
        return self.message.get("method", "") if "id" in self.message else ""

    def answer(self, result: Any) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).encode()


@dataclass(kw_only=True)
class Pours:
    status: str = "200 OK"
    content_type: str = "text/event-stream"
    headers: tuple[str, ...] = ()
    first: bytes = b""
    water: bytes = WATER


EVENTS = b"data: %b\n\n" % NEWS
QUESTIONS = b"".join(b'data: {"jsonrpc":"2.0","id":"q%d","method":"ping"}\n\n' % number for number in range(1000))
ZIPPED = ("content-encoding: gzip",)
POURS = {
    "json": Pours(content_type="Application/Json"),
    "refused-json": Pours(status="400 Bad Request", content_type="Application/Json"),
    "page": Pours(content_type="text/html"),
    "redirect": Pours(status="307 Temporary Redirect", content_type="text/html", headers=("location: /fine",)),
    "delete": Pours(content_type="application/json"),
    "zipped-tail": Pours(content_type="application/json", headers=ZIPPED, first=gzip.compress(b" ")),
    "zipped-twice": Pours(content_type="application/json", headers=("content-encoding: gzip, gzip",)),
    "event": Pours(first=b"data: "),
    "get": Pours(water=EVENTS),
    "asks": Pours(first=QUESTIONS, water=EVENTS),
    "sse-post": Pours(status="202 Accepted", content_type="text/plain"),
}
POURING = {"delete": "DELETE", "get": "GET", "asks": "GET"}
"""By the HTTP method; all others pour at a tool call."""


class Faucet:
    """`/KIND` pours at the first `tools/call` or where its kind says; see `pour`."""

    def __init__(self) -> None:
        self.port = 0
        self.poured: Counter[str] = Counter()
        self.seen: list[tuple[str, str, str]] = []  # HTTP method, path, JSON-RPC method
        self.turned = False
        self.size = SIZE
        self.serving: set[asyncio.Task[Any]] = set()

    def url(self, kind: str) -> str:
        return f"http://127.0.0.1:{self.port}/{kind}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        task.add_done_callback(self.serving.discard)
        try:
            while (request := await _read(reader)) is not None:
                self.seen.append((request.method, request.path, request.message.get("method", "")))
                await self._respond(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # 3.11 makes noise about one that was cancelled
        finally:
            writer.close()

    async def _respond(self, request: Request, writer: asyncio.StreamWriter) -> None:
        kind = request.path.strip("/").partition("/")[0]
        if kind.startswith("sse-"):
            await self._legacy(kind, request, writer)
        elif request.asks in RESULTS and not (kind == "turncoat" and self.turned):
            await reply(writer, 200, "application/json", request.answer(RESULTS[request.asks]), "mcp-session-id: s")
        elif request.asks == "tools/call" or POURING.get(kind) == request.method:
            await self.pour(kind, request, writer)
        elif kind == "turncoat" and self.turned:
            await self._turncoat(request, writer)
        elif kind == "asks" and "result" in request.message:
            await asyncio.sleep(600)  # it takes no answer
        else:
            await reply(writer, 202 if request.method == "POST" else 405, "", b"")

    async def pour(self, kind: str, request: Request, writer: asyncio.StreamWriter) -> None:
        if kind in POURS and request.method == POURING.get(kind, "POST"):
            await self._pour(kind, writer, POURS[kind])
        elif kind == "zipped":
            zipped = gzip.compress(bytes(POURED_BYTES_MAX), 1)
            await reply(writer, 200, "application/json; x", zipped, "content-encoding: gzip")
        elif kind == "named":
            named = b"event: \x1b[2J%b\ndata: x\n\ndata: %b\n\n" % (SECRET.encode(), request.answer({"content": []}))
            await reply(writer, 200, "text/event-stream", named)
        elif kind == "typed":
            await reply(writer, 200, f"text/{SECRET}", b"")
        elif kind == "unfit":
            await reply(writer, 200, "application/json", b'{"jsonrpc": 5, "token": "%b"}' % SECRET.encode())
        elif kind == "elsewhere":
            await reply(writer, 302, "text/plain", b"", f"location: http://127.0.0.1:9/{SECRET}")
        elif kind in {"events", "lines", "objects"}:
            await reply(writer, 200, *content(kind, request, self.size))
        elif kind == "turncoat":
            self.turned = True
            raise ConnectionResetError
        else:
            await reply(writer, 200, "application/json", request.answer({"content": []}))

    async def _legacy(self, kind: str, request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "GET":
            self._events = writer
            await _head(writer, "200 OK", "text/event-stream")
            await _chunk(writer, b"event: endpoint\ndata: /%b/post\n\n" % kind.encode())
            if kind == "sse-get":
                await self._flow(kind, writer, EVENTS)
            await writer.wait_closed()
        else:
            if request.asks:
                data = request.answer(RESULTS.get(request.asks, {"content": []}))
                data = (
                    content("objects", request, self.size)[1]
                    if (kind, request.asks) == ("sse-objects", "tools/call")
                    else data
                )
                await _chunk(self._events, b"data: %b\n\n" % data)
            if kind == "sse-post" and request.asks == "tools/call":
                await self._pour(kind, writer, POURS[kind])
            await reply(writer, 202, "", b"")

    async def _turncoat(self, request: Request, writer: asyncio.StreamWriter) -> None:
        await reply(writer, 404, "", b"") if request.method == "POST" else await reply(
            writer, 200, "text/event-stream", b"event: endpoint\ndata: /turncoat\n\n"
        )

    async def _pour(self, kind: str, writer: asyncio.StreamWriter, pours: Pours) -> None:
        await _head(writer, pours.status, pours.content_type, *pours.headers)
        if pours.first:
            await _chunk(writer, pours.first)
        await self._flow(kind, writer, pours.water)

    async def _flow(self, kind: str, writer: asyncio.StreamWriter, water: bytes) -> None:
        while self.poured[kind] < POURED_BYTES_MAX:
            await _chunk(writer, water)
            self.poured[kind] += len(water)
        raise ConnectionResetError


def content(kind: str, request: Request, size: int) -> tuple[str, bytes]:
    """One message of so many things: the type of the body, and the body."""
    objects = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"v":[' % request.message["id"]
    objects += b"{}," * size + b"0]}}}"
    if kind == "objects":
        return "application/json", objects
    if kind == "events":
        return "text/event-stream", b'id: "\ndata: ' + objects + b"\n\n"
    return "text/event-stream", b"data:ab\n" * (size // 2) + b"\n"


async def reply(writer: asyncio.StreamWriter, status: int, kind: str, body: bytes, *headers: str) -> None:
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", f"content-length: {len(body)}", *headers, "", ""]
    writer.write("\r\n".join(lines).encode() + body)
    await writer.drain()


async def _head(writer: asyncio.StreamWriter, status: str, kind: str, *headers: str) -> None:
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", "transfer-encoding: chunked", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    await writer.drain()


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))
    await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    method, path, _ = head.split(" ", 2)
    length = next((int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0)
    body = await reader.readexactly(length)
    return Request(method=method, path=path, message=json.loads(body) if body else {})


@asynccontextmanager
async def open_faucet() -> AsyncGenerator[Faucet]:
    faucet = Faucet()
    server = await asyncio.start_server(faucet.serve, "127.0.0.1", 0)
    faucet.port = server.sockets[0].getsockname()[1]
    try:
        yield faucet
    finally:
        server.close()
        for task in faucet.serving:
            task.cancel()
        await asyncio.gather(*faucet.serving, return_exceptions=True)
