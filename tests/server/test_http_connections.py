"""What peers can do with connections before anybody knows who they are."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import h11
import pytest

from moonpool.server.http import bounded_h11, serving
from moonpool.server.http.serving import ServiceListener, http_served

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from anyio.abc import SocketStream

pytestmark = pytest.mark.anyio
POST = b"POST / HTTP/1.1\r\nhost: x\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


async def _app(scope: Any, receive: Any, send: Any) -> None:
    """Refuses `/refuse` without a look at the body, answers nothing at `/wait`, else says how long the body is."""
    size = 0
    if scope["path"] != "/refuse":
        while (message := await receive())["type"] != "http.disconnect":
            size += len(message["body"])
            if not message["more_body"] and scope["path"] != "/wait":
                break
    said = str(size).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]})
    await send({"type": "http.response.body", "body": said})


@pytest.fixture(scope="module")
async def port() -> AsyncGenerator[int]:
    listener = ServiceListener("127.0.0.1", 0)
    async with http_served(listener, _app):
        yield listener.port


@asynccontextmanager
async def _connected(port: int, sent: bytes) -> AsyncGenerator[SocketStream]:
    with anyio.fail_after(30):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(sent)
            yield stream


async def _answered(port: int, sent: bytes, *, until: bytes) -> bytes:
    """What is said, to `until` or to the end of the connection."""
    async with _connected(port, sent) as stream:
        return await _heard(stream, until=until)


async def _heard(stream: SocketStream, *, until: bytes = b"(closed)") -> bytes:
    said = b""
    try:
        while until not in said:
            said += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        said += b"(closed)"
    return said


async def test_a_body_in_tiny_chunks_is_refused_before_it_keeps_others_waiting(port: int) -> None:
    tiny = b"1\r\nx\r\n" * 2000
    few, large = b"1\r\nx\r\n" * bounded_h11.CHUNKS_FREE, b"1000\r\n%b\r\n" % (b"x" * 4096) * 600

    refused = await _answered(port, CHUNKED + tiny, until=b"(closed)")
    assert refused.startswith(b"HTTP/1.1 400")
    assert b"send 256 bytes or more in each" in refused
    assert b"\r\n\r\n256" in await _answered(port, CHUNKED + few + b"0\r\n\r\n", until=b"\r\n\r\n256")
    assert b"2457600" in await _answered(port, CHUNKED + large + b"0\r\n\r\n", until=b"2457600")


async def test_what_a_proxy_could_read_otherwise_is_refused(port: int) -> None:
    both = POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n"
    head = POST + b"".join(b"x-%d: %b\r\n" % (n, b"x" * 4000) for n in range(12)) + b"\r\n"
    first = POST + b"content-length: 65536\r\n\r\n" + b"x" * 65536

    refused = await _answered(port, both, until=b"(closed)")
    assert refused.count(b"HTTP/1.1") == 1
    assert b"either Content-Length or Transfer-Encoding" in refused
    behind = await _answered(port, first + head, until=b"(closed)")
    assert behind.count(b"HTTP/1.1") == 2
    assert b"HTTP/1.1 400" in behind


async def test_what_is_wrong_behind_an_answer_fills_no_log(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with _connected(port, CHUNKED.replace(b"POST /", b"POST /refuse")) as stream:
            assert b"200 OK" in await _heard(stream, until=b"\r\n\r\n0")
            await stream.send(b"no chunk\r\n")
            assert await _heard(stream) == b"(closed)"
        assert b"400" in await _answered(port, CHUNKED + b"no chunk\r\n", until=b"(closed)")
    assert caplog.records == []


async def test_who_only_connects_keeps_nobody_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CONNECTIONS_MAX", 2)
    get = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"

    async with _connected(port, b"GET") as longest, _connected(port, POST) as newer:
        assert b"200 OK" in await _answered(port, get, until=b"\r\n\r\n0")
        assert await _heard(longest) == b"(closed)"
        await newer.send(b"\r\n")
        assert b"200 OK" in await newer.receive()


async def test_connections_leave_most_descriptors_to_the_rest(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving.resource, "getrlimit", lambda _: (4, 4))
    async with _connected(port, b"GET") as waiting, _connected(port, b"GET"):
        assert await _heard(waiting) == b"(closed)"


async def test_too_many_requests_in_progress_are_told_so(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CONNECTIONS_MAX", 1)
    wait = b"POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n"

    async with _connected(port, wait) as waiting:
        assert b"100 Continue" in await waiting.receive()
        assert b"503 Service Unavailable" in await _answered(port, b"", until=b"(closed)")


@pytest.mark.parametrize(
    ("headers", "first"), [([("content-length", "2")], b""), ([("transfer-encoding", "chunked")], b"HTTP/1.1 200 ")]
)
def test_the_head_of_an_answer_waits_for_a_body_of_known_length_only(
    headers: list[tuple[str, str]], first: bytes
) -> None:
    connection = bounded_h11.BoundedConnection(1024)
    connection.receive_data(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    connection.next_event()

    head = connection.send(h11.Response(status_code=200, headers=headers))
    body = connection.send(h11.Data(data=b"42"))

    assert head.startswith(first)
    assert bool(head) is bool(first)
    assert (head + body).startswith(b"HTTP/1.1 200 ")
    assert b"\r\n\r\n" in head + body
    assert b"42" in body
    assert connection.send(h11.EndOfMessage()) in {b"", b"0\r\n\r\n"}
