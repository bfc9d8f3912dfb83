"""A collector that decodes what it is sent, and an MCP server over HTTP that notes the headers of its requests."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Generator

sys.path.insert(0, str(Path(__file__).parent.parent / "fixtures" / "servers"))
import traced


@dataclass(frozen=True, kw_only=True)
class Told:
    """One span as it came over the wire."""

    name: str
    trace: str
    id: str
    parent: str
    failed: bool
    attributes: dict[str, Any]


@dataclass
class Collector:
    """What has come in so far; `hold` keeps its answers back."""

    url: str = ""
    spans: list[Told] = field(default_factory=list[Told])
    bodies: list[bytes] = field(default_factory=list[bytes])
    go: threading.Event = field(default_factory=threading.Event)

    def of(self, trace: str) -> dict[str, Told]:
        """The spans of a trace, by name."""
        return {span.name: span for span in self.spans if span.trace == trace}

    def named(self, name: str) -> list[Told]:
        return [span for span in self.spans if span.name == name]

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.spans += [_told(span) for span in scope.spans]
        self.go.wait(60)


def _told(span: Any) -> Told:
    values = {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
    return Told(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        failed=span.status.code == 2,
        attributes=values,
    )


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def reply(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def _served(handler: type[_Quiet]) -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def collecting() -> Generator[Collector]:
    collector = Collector()
    collector.go.set()

    class Handler(_Quiet):
        def do_POST(self) -> None:
            collector.take(self.body())
            self.reply(b"")

    with _served(Handler) as url:
        collector.url = url
        try:
            yield collector
        finally:
            collector.go.set()


@contextmanager
def http_upstream() -> Generator[tuple[str, list[dict[str, str]]]]:
    """The fixture server `traced` over HTTP; the headers of its calls."""
    calls: list[dict[str, str]] = []

    class Handler(_Quiet):
        known: ClassVar[object] = calls

        def do_POST(self) -> None:
            message = json.loads(self.body())
            if "id" not in message:
                self.reply(b"", 202)
                return
            if message["method"] == "tools/call":
                calls.append({name.lower(): value for name, value in self.headers.items()})
            if message["method"] == "server/discover":
                answer = {"error": {"code": -32601, "message": "Method not found"}}
            else:
                answer = {"result": traced.answer(message["method"], message.get("params") or {})}
            self.reply(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode())

        def do_GET(self) -> None:
            self.reply(b"", 405)

        def do_DELETE(self) -> None:
            self.reply(b"", 405)

    with _served(Handler) as url:
        yield f"{url}/mcp", calls
