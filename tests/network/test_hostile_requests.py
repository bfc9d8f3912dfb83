"""What hostile code writes to the proxy: names, ports, framing of requests, and sockets that it never finishes.

Every row goes through one proxy, because what one connection did may not change what the next one gets.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import h11
import pytest

from moonpool.network import proxy as proxy_module
from moonpool.network.connections import NetworkLimits
from network.stand_ins import PUBLIC, SERVER_HELLO, Internet, client_hello, echo, proxied
from waiting import until

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

pytestmark = pytest.mark.anyio

CONNECT = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"
HELLO = client_hello("example.com")

HOSTS = {
    # addresses, in every form that some resolver takes for one
    **dict.fromkeys(
        (
            "93.184.215.14", "127.0.0.1", "[::1]", "::1", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
            "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::1]", "[2001:0:7f00:1::]", "[fd00:ec2::254]",
            "[2606:4700::1111]", "169.254.169.254",
        ),
        (403, "not_allowed"),
    ),
    **dict.fromkeys(
        (
            "127.1", "127.0.1", "0177.0.0.1", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "127.0.0.1.",
            "10.0.0.1..", "0", "0.", "1.2.3.4.5", "999.1.1.1", "[127.0.0.1", "[::1", "::1]", "[v1.x]", "[]",
        ),
        (400, "malformed"),
    ),
    # names near an allowed one
    **dict.fromkeys(
        (
            "evil.example", "example.com.evil.example", "notexample.com", "xexample.org", "example.org", "example.co",
            "localhost", "com", "xn--exmple-cua.com",
        ),
        (403, "not_allowed"),
    ),
    # what is no name
    **dict.fromkeys(
        (
            "", ".", "..", ".example.com", "example..com", "example.com..", "a..example.org", "*", "*.example.org",
            "-a.example.org", "a-.example.org", f"{'a' * 64}.example.org", ".".join(["a" * 60] * 4 + ["example.org"]),
            "user@example.com", "user:pw@example.com", "example.com@evil.example", "evil.example\\.example.org",
            "example.com%00.evil.example", "example.com%2eevil.example", "http://example.com",
            "[fe80::1%lo]", "[fe80::1%25lo]", "[2606:4700::1111%x.example.org]", "example.com,evil.example",
        ),
        (400, "malformed"),
    ),
}  # fmt: skip
PORTS = (
    "",
    "0",
    "-1",
    "+443",
    " 443",
    "443 ",
    "65536",
    "0443443",
    "4a3",
    "443.0",
    "0x1bb",
    "443,80",
    "99999999999999999999",
)


async def test_only_a_name_that_a_rule_covers_is_dialled_whatever_its_form() -> None:
    rows = {f"CONNECT {host}:443": told for host, told in HOSTS.items()}
    rows |= {
        f"GET http://{host}/": told for host, told in HOSTS.items() if host not in {"::1", "http://example.com", ""}
    }
    rows |= {f"CONNECT example.com:{port}": (400, "malformed") for port in PORTS}
    rows |= {f"GET http://example.com:{port}/": (400, "malformed") for port in PORTS}
    rows["CONNECT example.com:22"] = rows["GET http://example.com:443443/"] = (403, "not_allowed")
    rows["GET http://example.com:443443/"] = (400, "malformed")
    async with proxied(internet := Internet(echo), "example.com", "*.example.org") as proxy:
        wrong: dict[str, object] = {}
        for number, (line, told) in enumerate(rows.items(), 1):
            status = await proxy.status(f"{line} HTTP/1.1\r\nHost: example.com\r\n\r\n".encode("latin-1"))
            await until(lambda at=number: len(proxy.ended) == at, pause_s=0.001)
            if (status, proxy.ended[-1].outcome) != told:
                wrong[line] = (status, proxy.ended[-1].outcome)
        assert wrong == {}
        assert internet.dialled == []


async def test_another_spelling_of_an_allowed_name_is_that_name() -> None:
    rows = {
        "EXAMPLE.com:443": ("example.com", 443),
        "example.com.:443": ("example.com", 443),
        "a.B.example.ORG.:443": ("a.b.example.org", 443),
        "example.com:00443": ("example.com", 443),
        "XN--Bcher-kva.example:443": ("xn--bcher-kva.example", 443),
    }
    async with proxied(internet := Internet(echo), "example.com", "*.example.org", "bücher.example") as proxy:
        for number, (target, (host, port)) in enumerate(rows.items(), 1):
            answer = await proxy.ask(
                f"CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode() + client_hello(host), eof=True
            )
            assert answer.startswith(b"HTTP/1.1 200 "), target
            await until(lambda at=number: len(proxy.ended) == at, pause_s=0.001)
            assert (proxy.ended[-1].host, proxy.ended[-1].port, proxy.ended[-1].outcome) == (host, port, "done"), target
        assert internet.dialled == [(PUBLIC, 443)] * len(rows)


POST = b"POST http://example.com/a HTTP/1.1\r\nHost: example.com\r\n"
NEXT = b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
FRAMING: dict[bytes, int | bytes] = {
    # refused, with a status
    POST + b"Content-Length: 3\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + NEXT: 400,
    POST + CHUNKED + b"Content-Length: 3\r\n\r\n0\r\n\r\n" + NEXT: 400,
    POST + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n" + NEXT: 501,
    POST + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n" + NEXT: 501,
    POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + NEXT: 501,
    POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + NEXT: 501,
    POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + NEXT: 400,
    POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + NEXT: 400,
    POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc" + NEXT: 400,
    POST + b"Content-Length: 3, 4\r\n\r\nabc" + NEXT: 400,
    POST + b"Content-Length: +3\r\n\r\nabc" + NEXT: 400,
    POST + b"Content-Length: -3\r\n\r\nabc" + NEXT: 400,
    POST + b"Content-Length: 0x3\r\n\r\nabc" + NEXT: 400,
    POST + b"Content-Length: \r\n\r\nabc" + NEXT: 400,
    POST + b"X: a\rContent-Length: 3\r\n\r\nabc" + NEXT: 400,
    POST + b"X: a\0b\r\n\r\n" + NEXT: 400,
    POST + b"X\r\n\r\n" + NEXT: 400,
    POST + b"Host: evil.example\r\n\r\n" + NEXT: 400,
    b"GET http://example.com/ HTTP/1.1\r\n\r\n" + NEXT: 400,
    b"GET http://example.com/\r\n\r\n" + NEXT: 400,
    b"GET http://example.com/ /b HTTP/1.1\r\nHost: x\r\n\r\n" + NEXT: 400,
    b"G\0T http://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n" + NEXT: 400,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": 400,
    POST + b"".join(b"X-%d: %s\r\n" % (at, b"a" * 90) for at in range(200)) + b"\r\n": 431,
    POST + CHUNKED + b"\r\n" + b"f" * 30 + b"\r\nabc": 400,
    POST + CHUNKED + b"\r\nxyz\r\nabc\r\n0\r\n\r\n": 400,
    # sent on, as one request with this body
    POST + CHUNKED + b"\r\n0\r\n\r\n" + NEXT: b"",
    POST + CHUNKED + b"\r\n3;a=\"b\"\r\nabc\r\n0\r\nHost: evil.example\r\nX: y\r\n\r\n" + NEXT: b"abc",
    POST + b"Content-Length: 3, 3\r\n\r\nabc" + NEXT: b"abc",
    POST + b"Connection: close, content-length, host\r\nContent-Length: 3\r\n\r\nabc" + NEXT: b"abc",
    POST + b"X: a\r\n b: evil\r\nContent-Length: 3\r\n\r\nabc" + NEXT: b"abc",
    POST + b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n\r\n" + NEXT: b"",
    POST.replace(b"1.1", b"1.0") + b"Connection: keep-alive\r\nContent-Length: 3\r\n\r\nabc" + NEXT: b"abc",
    POST.replace(b"\r\n", b"\n") + b"Content-Length: 3\n\nabc" + NEXT: b"abc",
    POST.replace(b"/a ", b"/%0d%0aHost:%20evil.example ") + b"\r\n" + NEXT: b"",
}  # fmt: skip


def _heard(data: bytes) -> tuple[h11.Request, bytes]:
    """The request and body in `data`, which must be all of it."""
    http, body = h11.Connection(h11.SERVER), b""
    http.receive_data(data)
    request = http.next_event()
    assert isinstance(request, h11.Request)
    while isinstance(event := http.next_event(), h11.Data):
        body += event.data
    assert isinstance(event, h11.EndOfMessage)
    assert (list(event.headers), http.trailing_data[0]) == ([], b"")
    return request, body


async def test_a_request_is_sent_on_as_one_request_or_refused_however_it_is_framed() -> None:
    heard = bytearray()

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        heard.extend(await reader.readuntil(b"\r\n\r\n"))
        if b"content-length: 3" in heard.lower():
            heard.extend(await reader.readexactly(3))
        elif b"chunked" in heard.lower():
            with contextlib.suppress(asyncio.IncompleteReadError):
                heard.extend(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 Done\r\n\r\n")
        heard.extend(await reader.read(-1))

    async with proxied(Internet(serve), "example.com") as proxy:
        for number, (request, wanted) in enumerate(FRAMING.items(), 1):
            heard.clear()
            status = await proxy.status(request)
            await until(lambda at=number: len(proxy.ended) == at, pause_s=0.001)
            if isinstance(wanted, int):
                assert (status, proxy.ended[-1].outcome) == (wanted, "malformed"), request
                assert b"\r\n\r\n" not in heard or b"chunked" in heard, (
                    request
                )  # of a body that goes wrong the head is sent
                assert b"evil" not in heard
                continue
            assert status == 204, request
            sent, body = _heard(bytes(heard))
            names = [name for name, _ in sent.headers]
            assert body == wanted, request
            assert [value for name, value in sent.headers if name == b"host"] == [b"example.com"], request
            assert len({b"content-length", b"transfer-encoding"} & set(names)) <= 1, request
            assert not {b"upgrade", b"http2-settings", b"keep-alive"} & set(names), request


ANSWERS = {
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n": (200, b"abc"),
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc": (502, None),
    b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\n\r\n": (502, None),
    b"HTTP/1.1 200 OK\r\nX: " + b"a" * 66_000 + b"\r\n\r\n": (502, None),
    b"HTTP/1.1 20 OK\r\n\r\n": (502, None),
    b"SSH-2.0-OpenSSH\r\n\r\n\r\n": (502, None),
    b"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 Two\r\n\r\n": (
        200,
        b"ab",
    ),
    b"HTTP/1.0 200 OK\r\n\r\nuntil the end": (200, b"until the end"),
    b"": (502, None),
}


async def test_an_answer_reaches_the_code_as_one_answer_or_as_502() -> None:
    answer = b""

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    async with proxied(Internet(serve), "example.com") as proxy:
        for answer, (status, body) in ANSWERS.items():
            got = await proxy.ask(b"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
            http = h11.Connection(h11.CLIENT)
            http.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
            http.send(h11.EndOfMessage())
            http.receive_data(got)
            http.receive_data(b"")
            while isinstance(head := http.next_event(), h11.InformationalResponse):
                assert list(head.headers) == []
            assert isinstance(head, h11.Response), (answer, got)
            assert head.status_code == status, (answer, got)
            told = b""
            while isinstance(event := http.next_event(), h11.Data):
                told += event.data
            assert isinstance(event, h11.EndOfMessage), (answer, got)
            if body is not None:
                assert told == body, (answer, got)


async def _read_all(reader: StreamReader) -> bytes:
    with contextlib.suppress(ConnectionResetError):
        async with asyncio.timeout(20):
            return await reader.read(-1)
    return b""


SOON, LATE = 0.05, 600.0
UNFINISHED = {
    NetworkLimits(header_s=SOON, first_byte_s=LATE): {
        b"": "timed_out",
        b"CONNECT exam": "timed_out",
        POST + b"X: ": "timed_out",
        CONNECT: "timed_out",
        CONNECT + HELLO[:100]: "timed_out",
    },
    NetworkLimits(header_s=LATE, first_byte_s=SOON): {
        CONNECT + HELLO: "timed_out",  # and then nothing, from either side
        POST + b"Content-Length: 3\r\n\r\nab": "timed_out",
        POST + CHUNKED + b"\r\n3\r\nab": "timed_out",
    },
}


async def test_what_is_begun_and_never_finished_ends_in_time_and_is_on_record() -> None:
    async def silent(reader: StreamReader, _: StreamWriter) -> None:
        await reader.read(-1)

    for limits, rows in UNFINISHED.items():
        async with proxied(Internet(silent), "example.com", limits=limits) as proxy:
            for number, (sent, outcome) in enumerate(rows.items(), 1):
                reader, writer = await proxy.connect()
                writer.write(sent)
                await _read_all(reader)
                writer.close()
                await until(lambda proxy=proxy, at=number: len(proxy.ended) == at, pause_s=0.001)
                assert (proxy.ended[-1].outcome, sent) == (outcome, sent)
            assert (proxy.network.connections, proxy.network.places.taken) == (0, 0)


async def test_a_client_that_does_not_read_stops_the_server_and_is_ended() -> None:
    async def pour(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read(1)
        writer.write(SERVER_HELLO)
        while True:
            writer.write(bytes(65536))
            await writer.drain()

    async with proxied(Internet(pour), "example.com", limits=NetworkLimits(idle_s=0.05)) as proxy:
        reader, writer = await proxy.connect()
        writer.write(CONNECT)
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()
        writer.write(HELLO)
        await until(lambda: proxy.ended)
        assert proxy.ended[-1].outcome == "timed_out"
        assert proxy.ended[-1].bytes_down < 32 * 1024**2
        writer.transport.abort()


async def test_either_side_may_close_its_half_first() -> None:
    async def last_word(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readexactly(len(HELLO))
        writer.write(SERVER_HELLO + b"that is all")
        writer.write_eof()
        heard.extend(await reader.read(-1))

    heard = bytearray()
    async with proxied(Internet(last_word), "example.com") as proxy:
        reader, writer = await proxy.connect()
        writer.write(CONNECT + HELLO)
        assert (await _read_all(reader)).endswith(b"that is all")
        writer.write(b"and this is mine")
        writer.write_eof()
        await until(lambda: proxy.ended)
        assert (proxy.ended[-1].outcome, bytes(heard)) == ("done", b"and this is mine")
        writer.close()
        for number, request in enumerate((b"", b"CONNECT exam"), 2):  # closed before anything was asked for
            await proxy.ask(request, eof=True)
            await until(lambda at=number: len(proxy.ended) == at, pause_s=0.001)
    assert {one.outcome for one in proxy.ended[1:]} <= {"failed", "malformed"}


@pytest.mark.slow
async def test_after_ten_thousand_connections_the_next_one_is_told_why_and_nothing_is_left_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        del host, port
        raise OSError

    monkeypatch.setattr(proxy_module, "_CONNECTIONS_PER_SECOND", 1e6)
    internet = Internet(echo)
    internet.resolve = resolve
    request = b"GET http://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n"
    async with proxied(internet, "example.com", limits=NetworkLimits()) as proxy:

        async def ask(count: int) -> None:
            for _ in range(count):
                assert await proxy.status(request) == 502

        proxy.network.total = 9_500
        await asyncio.gather(*(ask(25) for _ in range(20)))
        assert b" 403 Moonpool: this session has made the 10,000 connections that it may" in await proxy.ask(request)
        await until(lambda: len(proxy.ended) == 501)
        await until(lambda: proxy.network.sockets == 0)
        assert (proxy.network.connections, proxy.network.places.taken, len(proxy.network.refusals)) == (0, 0, 50)


async def test_connections_that_ask_for_nothing_take_a_bounded_number_of_sockets() -> None:
    """The others wait in the sandbox, whose memory that is."""
    limits = NetworkLimits(connections_max=4, header_s=30)
    async with proxied(Internet(echo), "example.com", limits=limits) as proxy:
        idle = [(await proxy.connect())[1] for _ in range(90)]
        await until(lambda: proxy.network.connections == 8)
        waiting = asyncio.ensure_future(proxy.ask(CONNECT + HELLO, eof=True))
        assert proxy.network.connections == 8
        for writer in idle:
            writer.close()
        assert (await waiting).endswith(HELLO)
        await until(lambda: len(proxy.ended) == 91)
        assert proxy.network.connections == 0
