"""How connections end, and what is on record then: second handshakes, resets, denials, errors of the host itself."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import h11
import pytest
from anyio import BrokenResourceError
from anyio.abc import ByteStream

from moonpool.core.audit import JournalError
from moonpool.core.errors import ConfigError
from moonpool.engine.network import ConnectionRecorder
from moonpool.network.connections import Connection, NetworkLimits
from moonpool.network.http_side import HttpSide
from moonpool.network.plain_http import forward_request
from moonpool.network.relay import Allowance, Meter
from moonpool.network.rules import HeaderCredential, NetworkRules, parse_domain
from network.stand_ins import PUBLIC, SERVER_HELLO, Internet, Proxied, client_hello, echo, proxied
from network.tls_hosts import signer
from waiting import until

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from pathlib import Path

pytestmark = pytest.mark.anyio

HELLO = client_hello("example.com")
CONNECT = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"
SECRET = HeaderCredential("Authorization", "Bearer s3cret-value")


async def _asked(proxy: Proxied, request: bytes = CONNECT) -> tuple[StreamReader, StreamWriter]:
    reader, writer = await proxy.connect()
    writer.write(request)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    return reader, writer


async def _tunnel(proxy: Proxied) -> tuple[StreamReader, StreamWriter]:
    reader, writer = await _asked(proxy)
    writer.write(HELLO)
    await reader.readexactly(len(SERVER_HELLO) + len(HELLO))
    return reader, writer


async def _ended(proxy: Proxied, count: int = 1) -> list[Connection]:
    await until(lambda: len(proxy.ended) == count)
    return proxy.ended


def _asks_again(folder: Path, names: list[str | None]) -> ssl.SSLContext:
    """A server that takes a key that no client sends at first, and keeps the names that it was called."""
    context = signer().context(folder, "example.com")
    context.set_ecdh_curve("secp384r1")
    context.sni_callback = lambda _, name, __: names.append(name)
    return context


async def test_a_server_that_asks_for_a_second_hello_gets_one_for_the_host_only(tmp_path: Path) -> None:
    names: list[str | None] = []
    trusted = ssl.create_default_context(cadata=signer().roots.decode())
    async with proxied(Internet(echo, tls=_asks_again(tmp_path, names)), "example.com") as proxy:
        reader, writer = await _asked(proxy)
        await writer.start_tls(trusted, server_hostname="example.com")
        writer.write(b"through")
        assert await reader.readexactly(7) == b"through"
        writer.close()
        assert set(names) == {"example.com"}
        evil = client_hello("evil.example")
        for second in (evil, evil[:9] + b"\x04\x03" + evil[11:]):  # the latter with a version that servers do not read
            names.clear()
            reader, writer = await _asked(proxy)
            writer.write(HELLO)
            await reader.readexactly(5 + 4 + 2 + 32)  # the HelloRetryRequest has come
            writer.write(second)
            with contextlib.suppress(ConnectionResetError):
                await reader.read(-1)
            writer.close()
            assert names == ["example.com"]
        ended = await _ended(proxy, 3)
        assert [one.outcome for one in ended[1:]] == ["wrong_name", "wrong_name"]
        assert "TLS for evil.example; the tunnel is for example.com" in ended[1].reason


async def test_a_tunnel_to_a_server_without_tls_says_so() -> None:
    async def plain(_: StreamReader, writer: StreamWriter) -> None:
        writer.write(b"SSH-2.0-x\r\n")
        await writer.drain()

    async with proxied(Internet(plain), "example.com") as proxy:
        reader, writer = await _asked(proxy)
        writer.write(HELLO)
        with pytest.raises(ConnectionResetError):
            await reader.read(-1)
        writer.close()
        (ended,) = await _ended(proxy)
        assert (ended.outcome, ended.reason) == ("failed", "example.com:443: the server's answer is not TLS")


async def test_what_breaks_off_is_a_reset_on_both_sides_and_failed_on_record() -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read(10)
        writer.write(SERVER_HELLO + b"part")
        await writer.drain()
        await goes_on.wait()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    goes_on = asyncio.Event()
    async with proxied(Internet(serve), "example.com") as proxy:
        reader, writer = await _asked(proxy)
        writer.write(HELLO)
        assert (await reader.readexactly(len(SERVER_HELLO) + 4)).endswith(b"part")
        goes_on.set()
        with pytest.raises(ConnectionResetError):
            await reader.read(-1)
        writer.close()
        (ended,) = await _ended(proxy)
        assert (ended.outcome, ended.reason) == ("failed", "the server broke the connection off")


async def test_a_client_that_breaks_off_resets_the_connection_to_the_server() -> None:
    heard: list[BaseException | None] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readexactly(len(HELLO))
        writer.write(SERVER_HELLO)
        with contextlib.suppress(ConnectionResetError):
            await reader.read(-1)
        heard.append(reader.exception())

    async with proxied(Internet(serve), "example.com") as proxy:
        reader, writer = await _asked(proxy)
        writer.write(HELLO)
        await reader.readexactly(len(SERVER_HELLO))
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        await until(lambda: heard)
        assert isinstance(heard[0], ConnectionResetError)
        (ended,) = await _ended(proxy)
        assert ended.outcome == "done"  # it is the code's own affair


async def test_a_limit_that_ends_a_tunnel_does_not_look_like_its_end() -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read(10)
        writer.write(SERVER_HELLO)
        for _ in range(100):
            writer.write(bytes(10_000))
            await writer.drain()

    async with proxied(Internet(serve), "example.com", limits=NetworkLimits(bytes_max=500_000)) as proxy:
        reader, writer = await _asked(proxy)
        writer.write(HELLO)
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1_000_000)
        writer.close()
        assert (await _ended(proxy))[0].outcome == "too_much"


async def test_what_stays_allowed_under_another_entry_goes_on_and_what_is_denied_says_why() -> None:
    async with proxied(Internet(echo)) as proxy:
        proxy.network.change(NetworkRules((parse_domain("*.b.example.com"),)))
        hello = client_hello("a.b.example.com")
        reader, writer = await _asked(proxy, CONNECT.replace(b"example.com", b"a.b.example.com"))
        writer.write(hello)
        await reader.readexactly(len(SERVER_HELLO) + len(hello))
        for more in ("a.b.example.com", "*.example.com"):
            proxy.network.change(proxy.network.rules.allowing([parse_domain(more)]))
            writer.write(b"on")
            assert await reader.readexactly(2) == b"on"
        proxy.network.change(NetworkRules((parse_domain("a.b.example.com", SECRET),)))  # its TLS is the host's now
        with pytest.raises(ConnectionResetError):
            await reader.read(-1)
        writer.close()
        (ended,) = await _ended(proxy)
        assert ended.outcome == "closed"
        assert "no longer" in ended.reason
    async with proxied(Internet(echo), "example.com") as proxy:
        _, writer = await _tunnel(proxy)
    assert [(one.outcome, one.reason) for one in proxy.ended] == [("closed", "the session ended, or its sandbox did")]
    writer.close()


async def test_closing_waits_for_a_record_that_is_being_written() -> None:
    async with proxied(Internet(echo), "example.com") as proxy:
        _, writer = await _tunnel(proxy)
        recording, goes_on = asyncio.Event(), asyncio.Event()

        async def record(connection: Connection) -> None:
            kept = replace(connection)
            recording.set()
            await goes_on.wait()
            proxy.records.append(kept)

        proxy.network.record = record
        proxy.network.change(NetworkRules())
        await recording.wait()
        closing = asyncio.ensure_future(proxy.proxy.close())  # ends it once more
        for _ in range(5):
            await asyncio.sleep(0)
        assert not closing.done()
        goes_on.set()
        await closing
        assert [one.outcome for one in proxy.ended] == ["closed"]
        writer.close()


async def test_a_first_record_that_was_cancelled_has_an_end_also_after_many_refusals() -> None:
    rows: list[str] = []
    goes_on = asyncio.Event()

    class Slow:
        def record(self, entry: object) -> object:
            rows.append(str(getattr(entry, "outcome", "")))  # taken over at once, as the contract says
            return goes_on.wait()

    recorder = ConnectionRecorder(Slow(), "p", "s")  # pyright: ignore[reportArgumentType]
    recorder._refused = 50
    async with proxied(Internet(echo), "example.com") as proxy:
        proxy.network.record = recorder.record
        _, writer = await proxy.connect()
        writer.write(CONNECT)
        await until(lambda: rows)
        proxy.network.change(NetworkRules())
        goes_on.set()
        await until(lambda: len(rows) == 2)
        writer.close()
    assert rows == ["open", "closed"]


async def test_bugs_and_records_that_fail_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_: str, __: int) -> list[str]:
        raise AssertionError("a bug")

    internet = Internet(echo)
    internet.resolve = broken  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR):
        async with proxied(internet, "example.com") as proxy:
            assert await proxy.ask(CONNECT) == b""
            (ended,) = await _ended(proxy)
            assert ended.outcome == "failed"
            await until(lambda: "a bug" in caplog.text)

            async def full(connection: Connection) -> None:
                if connection.outcome != "open":
                    raise JournalError("the disk is full")

            proxy.network.record = full
            await proxy.ask(CONNECT)
            await until(lambda: "the disk is full" in caplog.text)
    caplog.clear()


async def test_without_ipv6_an_address_of_the_other_family_is_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutIPv6(socket.socket):
        trouble = errno.EAFNOSUPPORT

        def __init__(self, *kind: int, **named: int) -> None:
            if kind[:2] == (socket.AF_INET6, socket.SOCK_DGRAM):
                raise OSError(self.trouble, os.strerror(self.trouble))
            super().__init__(*kind, **named)

    async def resolve(_: str, __: int) -> list[str]:
        return list(found)

    async def dial(address: str, port: int) -> tuple[StreamReader, StreamWriter]:
        if ":" in address:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        return await Internet.dial(internet, address, port)

    v6 = "2606:2800:220:1:248:1893:25c8:1946"
    internet = Internet(echo)
    internet.resolve, internet.dial = resolve, dial  # type: ignore[method-assign]
    monkeypatch.setattr(socket, "socket", WithoutIPv6)
    async with proxied(internet, "example.com") as proxy:
        found = [v6, PUBLIC]
        _, writer = await _tunnel(proxy)
        writer.close()
        await _ended(proxy)
        assert internet.dialled == [(PUBLIC, 443)]
        found = [v6]
        await proxy.ask(CONNECT)
        WithoutIPv6.trouble = errno.EMFILE  # whether it is this machine's is not known
        await proxy.ask(CONNECT)
        ended = await _ended(proxy, 3)
        assert internet.dialled == [(PUBLIC, 443)]
    assert [(one.outcome, one.reason) for one in ended[1:]] == [
        ("unreachable", "example.com cannot be reached on port 443"),
        ("failed", "example.com was not dialled: Too many open files"),
    ]


async def test_errors_of_the_host_have_their_own_reasons() -> None:
    async def forward(*_: object) -> None:
        raise ConfigError("certificate authorities cannot be read")

    async def full(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with proxied(internet := Internet(echo), "example.com") as proxy:
        proxy.network.forward = forward  # type: ignore[assignment]
        proxy.network.change(NetworkRules((parse_domain("example.com", SECRET),)))
        await proxy.ask(CONNECT, more=HELLO)
        proxy.network.forward = full  # type: ignore[assignment]
        await proxy.ask(CONNECT, more=HELLO)
        ended = await _ended(proxy, 2)
        assert internet.dialled == []
    assert [(one.outcome, one.reason) for one in ended] == [
        ("failed", "certificate authorities cannot be read"),
        ("failed", "example.com was not reached: Too many open files"),
    ]
    assert [text for _, text in proxy.network.refusals] == [
        "example.com cannot be reached from here now; the audit journal says why",  # no word of this machine
        ended[1].reason,
    ]


async def test_a_tunnel_whose_client_says_nothing_has_timed_out() -> None:
    async with proxied(Internet(echo), "example.com", limits=NetworkLimits(header_s=0.05)) as proxy:
        await proxy.ask(CONNECT)
        (ended,) = await _ended(proxy)
        assert (ended.outcome, ended.reason) == ("timed_out", "the client said nothing for too long in its tunnel")


async def test_a_plain_request_may_come_in_pieces_through_a_tunnel() -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 Fine\r\n\r\n")

    async with proxied(Internet(serve), "example.com") as proxy:
        reader, writer = await _asked(proxy, CONNECT.replace(b":443", b":80"))
        for piece in (b"GE", b"T", b" ", b"/ HTTP/1.1\r\nHost: example.com\r\n\r\n"):
            writer.write(piece)
            for _ in range(20):  # each is read alone
                await asyncio.sleep(0)
        assert b" 204 Fine" in await reader.read(-1)
        writer.close()


PUT = b"PUT http://example.com/ HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


async def test_an_answer_before_the_end_of_a_plain_request_reaches_the_code() -> None:
    async def impatient(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
        await asyncio.Event().wait()  # it reads no more

    async with proxied(Internet(impatient), "example.com") as proxy:
        reader, writer = await proxy.connect()
        writer.write(PUT % 30_000_000 + bytes(16_000_000))
        answer = await reader.read(-1)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert answer.endswith(b"big")
        writer.close()
        assert (await _ended(proxy))[0].outcome == "done"


class Refusing(ByteStream):
    """A server that takes nothing more after the head of a request, and has answered."""

    def __init__(self) -> None:
        self.broken = asyncio.Event()
        self.received = b""

    async def send(self, item: bytes) -> None:
        if self.received:
            self.broken.set()
            raise BrokenResourceError
        self.received += item

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await self.broken.wait()
        for _ in range(10):  # its answer arrives later
            await asyncio.sleep(0)
        return b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"[:max_bytes]

    async def send_eof(self) -> None: ...
    async def aclose(self) -> None: ...


class Sent(ByteStream):
    """A client that has sent all this."""

    def __init__(self, sent: bytes) -> None:
        self._rest, self.answer = sent, b""

    async def send(self, item: bytes) -> None:
        self.answer += item

    async def receive(self, max_bytes: int = 65536) -> bytes:
        given, self._rest = self._rest[:max_bytes], self._rest[max_bytes:]
        return given

    async def send_eof(self) -> None: ...
    async def aclose(self) -> None: ...


async def test_what_a_server_does_not_take_any_more_leaves_its_answer() -> None:
    stream = Sent(PUT % 300_000 + bytes(200_000))
    client, server = HttpSide(h11.SERVER, stream), HttpSide(h11.CLIENT, Refusing())
    request = await client.next_event()
    async with asyncio.timeout(20) as deadline:
        meter = Meter(Connection(), Allowance(1_000_000), NetworkLimits(first_byte_s=20), deadline, lambda _: None)
        await forward_request(client, request, b"/", b"example.com", server, meter)
    assert stream.answer.startswith(b"HTTP/1.1 413 ")


async def test_a_server_that_breaks_a_plain_answer_off_is_failed_with_a_reason() -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\npart")
        await writer.drain()
        await goes_on.wait()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    goes_on = asyncio.Event()
    async with proxied(Internet(serve), "example.com") as proxy:
        reader, writer = await proxy.connect()
        writer.write(b"GET http://example.com/ HTTP/1.0\r\n\r\n")  # so that the answer ends with the connection
        await reader.readuntil(b"part")
        goes_on.set()
        with pytest.raises(ConnectionResetError):
            await reader.read(-1)
        writer.close()
        (ended,) = await _ended(proxy)
        assert (ended.outcome, ended.reason) == ("failed", "the server broke the connection off")


async def test_an_upload_may_take_longer_than_the_first_byte_of_its_answer() -> None:
    class Deadline(asyncio.Timeout):
        def reschedule(self, when: float | None) -> None:
            until_when.append(when or 0.0)

    until_when: list[float] = []
    limits = NetworkLimits(first_byte_s=60, idle_s=300)
    meter = Meter(Connection(), Allowance(100), limits, Deadline(None), lambda _: None)
    for count in (1, 2):
        meter.up(1)
        assert len(until_when) == 1 + count  # it waits anew
    assert until_when == sorted(until_when)
    meter.down(1)
    assert until_when[-1] - until_when[-2] >= limits.idle_s - limits.first_byte_s
