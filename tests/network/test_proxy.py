"""The proxy as a program in a sandbox meets it, hostile ones too."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING, NoReturn

import pytest

from moonpool.core.audit import JournalError
from moonpool.network.connections import NetworkLimits, Outcome, Places
from moonpool.network.rules import HeaderCredential, NetworkRules, parse_domain
from network.stand_ins import PUBLIC, SERVER_HELLO, Internet, Proxied, client_hello, echo, proxied
from waiting import until

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from moonpool.network.session_network import ForwardSpec

pytestmark = pytest.mark.anyio

HELLO = client_hello("example.com")
CONNECT = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"


async def _tunnel(proxy: Proxied, hello: bytes = HELLO) -> tuple[StreamReader, StreamWriter]:
    reader, writer = await proxy.connect()
    writer.write(CONNECT)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    writer.write(hello)
    assert await reader.readexactly(len(SERVER_HELLO) + len(hello)) == SERVER_HELLO + hello
    return reader, writer


async def test_a_tunnel_carries_bytes_both_ways_and_is_on_record_twice() -> None:
    async with proxied(internet := Internet(echo), "example.com") as proxy:
        reader, writer = await _tunnel(proxy)
        writer.write(b"x" * 300_000)
        writer.write_eof()
        assert len(await reader.read(-1)) == 300_000
        writer.close()
        await until(lambda: proxy.ended)
        assert internet.dialled == [(PUBLIC, 443)]
        began, ended = proxy.records
        assert (began.outcome, began.host, began.port) == ("open", "example.com", 443)
        assert (ended.outcome, ended.address, ended.connection_id) == ("done", PUBLIC, began.connection_id)
        sent = 300_000 + len(HELLO)
        assert (ended.bytes_up, ended.bytes_down) == (sent, sent + len(SERVER_HELLO))


async def _rest(reader: StreamReader) -> bytes:
    """What comes until the other side ends the connection, in whatever way."""
    with contextlib.suppress(ConnectionResetError):
        async with asyncio.timeout(20):
            return await reader.read(-1)
    return b""


REFUSED = {
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n": (403, "not_allowed"),
    b"CONNECT example.com:22 HTTP/1.1\r\nHost: example.com\r\n\r\n": (403, "not_allowed"),
    b"CONNECT 93.184.215.14:443 HTTP/1.1\r\nHost: x\r\n\r\n": (403, "not_allowed"),
    b"CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1\r\nHost: x\r\n\r\n": (403, "not_allowed"),
    b"CONNECT [2606:4700::1111%x.example.com]:443 HTTP/1.1\r\nHost: x\r\n\r\n": (400, "malformed"),
    b"CONNECT 127.1:443 HTTP/1.1\r\nHost: x\r\n\r\n": (400, "malformed"),
    b"CONNECT 2130706433:443 HTTP/1.1\r\nHost: x\r\n\r\n": (400, "malformed"),
    b"CONNECT b\xc3\xbccher.example:443 HTTP/1.1\r\nHost: x\r\n\r\n": (400, "malformed"),
    b"CONNECT example.com@evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n": (400, "malformed"),
    b"CONNECT example.com HTTP/1.1\r\nHost: x\r\n\r\n": (400, "malformed"),
    b"CONNECT example.com:0443443 HTTP/1.1\r\nHost: x\r\n\r\n": (400, "malformed"),
    b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n": (400, "malformed"),
    b"GET https://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n": (400, "malformed"),
    b"GET http://evil.example/ HTTP/1.1\r\nHost: example.com\r\n\r\n": (403, "not_allowed"),
    b"GET http://example.com:8080/ HTTP/1.1\r\nHost: x\r\n\r\n": (403, "not_allowed"),
    b"GET http://evil.example\\@example.com/ HTTP/1.1\r\nHost: x\r\n\r\n": (400, "malformed"),
    b"POST http://example.com/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab": (
        400,
        "malformed",
    ),
    b"GET http://example.com/ HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 66_000 + b"\r\n\r\n": (431, "malformed"),
    b"GET http://example.com/ HTTP/1.1\r\nHost: x\r\n" + b"a:\r\n" * 3000 + b"\r\n": (431, "malformed"),
    b"\x05\x01\x00" * 20 + b"\r\n\r\n": (400, "malformed"),
}


async def test_what_no_rule_allows_is_refused_with_a_reason_and_nothing_is_dialled_or_resolved() -> None:
    async with proxied(internet := Internet(echo), "example.com", "*.example.com") as proxy:
        for number, (request, (status, outcome)) in enumerate(REFUSED.items(), 1):
            assert (await proxy.status(request), request) == (status, request)
            await until(lambda at=number: len(proxy.ended) == at)
            assert (proxy.ended[-1].outcome, request) == (outcome, request)
        assert internet.dialled == []
        answer = await proxy.ask(b"CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"evil.example:443 is not among the domains" in head.splitlines()[0]
        assert b"evil.example:443 is not among the domains" in body


async def test_a_name_that_leads_inside_is_refused_after_it_was_resolved() -> None:
    internet = Internet(echo)
    async with proxied(internet, "*.example.com") as proxy:
        for internet.address in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fd00::1"):
            request = b"CONNECT a.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n"
            assert await proxy.status(request) == 403
            assert await proxy.status(b"GET http://a.example.com/ HTTP/1.1\r\nHost: x\r\n\r\n") == 403
        await until(lambda: len(proxy.ended) == 12)
        assert {(one.outcome, one.address) for one in proxy.ended[-2:]} == {("address_refused", "fd00::1")}
        assert internet.dialled == []


async def test_a_tunnel_that_is_no_tls_or_names_another_host_ends_before_a_byte_goes_up() -> None:
    heard = bytearray()

    async def listen(reader: StreamReader, _: StreamWriter) -> None:
        heard.extend(await reader.read(-1))

    async with proxied(Internet(listen), "example.com") as proxy:
        for hello in (client_hello("evil.example"), client_hello(None), b"get / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n"):
            assert (await proxy.ask(CONNECT, more=hello)).count(b"\r\n") == 2  # nothing but the 200
        assert await proxy.ask(CONNECT + client_hello("evil.example"))  # sent before it was answered
        await until(lambda: len(proxy.ended) == 5)
        assert {(one.outcome, one.bytes_up) for one in proxy.ended} == {("wrong_name", 0)}
    assert not heard


async def test_tls_for_another_name_ends_with_an_alert_and_a_reason_in_the_session() -> None:
    secret = HeaderCredential("Authorization", "Bearer s3cret-value")

    async with proxied(Internet(echo), "example.com") as proxy:
        proxy.network.forward = _never
        for rules in (proxy.network.rules, NetworkRules((parse_domain("example.com", secret),))):
            proxy.network.change(rules)
            for name in ("evil.example", None):
                answer = await proxy.ask(CONNECT, more=client_hello(name))
                assert answer.partition(b"\r\n\r\n")[2].hex() == "15030300020270"  # fatal, unrecognized_name
        await until(lambda: len(proxy.ended) == 4)
        other, unnamed, *again = proxy.network.refusals
        assert again == [other, unnamed]
        assert other[1] == (
            "example.com:443 was not reached: TLS for evil.example; the tunnel is for example.com; "
            "the code's client must name example.com as the server"
        )
        assert [(one.outcome, one.reason) for one in proxy.ended[:2]] == [
            ("wrong_name", other[1]),
            ("wrong_name", unnamed[1]),
        ]
        broken = ssl.create_default_context()
        reader, writer = await proxy.connect()
        writer.write(CONNECT)
        await reader.readuntil(b"\r\n\r\n")
        with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
            await writer.start_tls(broken, server_hostname="evil.example")
        writer.close()


async def test_a_refusal_is_heard_by_a_client_that_still_sends() -> None:
    async with proxied(Internet(echo), "example.com") as proxy:
        request = b"POST http://evil.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n" + bytes(9_000_000)
        assert await proxy.status(request) == 403


IN_TUNNEL = {
    b"GET / HTTP/1.1\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n": 421,
    b"GET / HTTP/1.1\r\nHost: example.com:443\r\n\r\n": 421,
    b"GET / HTTP/1.1\r\nHost: example.com\r\nHost: evil.example\r\n\r\n": 400,
    b"GET / HTTP/1.0\r\n\r\n": 421,
    b"POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: example.com\r\nX: " + b"a" * 66_000 + b"\r\n\r\n": 431,
}


async def test_a_tunnel_may_carry_one_plain_request_for_its_host() -> None:
    """As undici asks for http:// addresses."""
    heard = bytearray()

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        heard.extend(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\nhi")
        heard.extend(await reader.read(-1))

    async def quiet(reader: StreamReader, _: StreamWriter) -> None:
        heard.extend(await reader.read(-1))

    connect = b"CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n"
    request = (
        b"GET /a?b HTTP/1.1\r\nHost: EXAMPLE.com:80\r\nUpgrade: h2c\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    )
    async with proxied(internet := Internet(quiet), "example.com") as proxy:
        for asked, status in IN_TUNNEL.items():
            answer = (await proxy.ask(connect, more=asked)).partition(b"\r\n\r\n")[2]
            assert answer.startswith(b"HTTP/1.1 %d Moonpool: " % status), asked
        assert not heard
        internet.serve = serve
        for sent, more in ((connect, request), (connect + request, b"")):  # also before it was answered
            heard.clear()
            answer = await proxy.ask(sent, more=more)
            assert answer.partition(b"\r\n\r\n")[2].startswith(b"HTTP/1.1 200 Fine\r\n")
            assert answer.endswith(b"\r\n\r\nhi")
            assert bytes(heard) == b"GET /a?b HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n\r\n"
        secret = HeaderCredential("Authorization", "Bearer s3cret-value")
        proxy.network.change(NetworkRules((parse_domain("example.com", secret),)))
        proxy.network.forward = _never
        answer = await proxy.ask(connect, more=request)
        assert b"HTTP/1.1 403 Moonpool: example.com is reached with a credential, so over https only" in answer


async def _never(*_: object) -> NoReturn:
    raise AssertionError("its TLS is ended")


async def test_a_plain_request_is_for_the_host_that_was_allowed_and_hides_no_second_one() -> None:
    heard = bytearray()

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        heard.extend(await reader.readuntil(b"\r\n\r\n"))
        heard.extend(await reader.readexactly(3))
        writer.write(
            b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\r\n"
        )
        writer.write(b"2\r\nhi\r\n0\r\n\r\nHTTP/1.1 200 Another\r\n\r\n")
        await writer.drain()
        heard.extend(await reader.read(-1))

    request = (
        b"POST http://example.com/a?b=c#d HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: x\r\n"
        b"Connection: keep-alive, X-Mine\r\nX-Mine: 1\r\nX-Kept: 2\r\nContent-Length: 3\r\n\r\n"
        b"abcGET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    )
    async with proxied(internet := Internet(serve), "example.com") as proxy:
        answer = await proxy.ask(request)
        await until(lambda: proxy.ended)
        assert internet.dialled == [(PUBLIC, 80)]
        assert proxy.ended[0].outcome == "done"
        assert (proxy.ended[0].bytes_up, proxy.ended[0].bytes_down > 80) == (len(heard), True)
    head, _, body = bytes(heard).partition(b"\r\n\r\n")
    assert head.splitlines()[0] == b"POST /a?b=c HTTP/1.1"
    assert {line.lower() for line in head.splitlines()[1:]} == {
        b"x-kept: 2", b"content-length: 3", b"host: example.com", b"connection: close"
    }  # fmt: skip
    assert body == b"abc"
    assert b"X-Hop: 1" not in answer
    assert b"Another" not in answer
    assert b"\r\n2\r\nhi\r\n0\r\n" in answer


async def test_rules_change_while_connections_live_and_what_is_denied_ends() -> None:
    async with proxied(Internet(echo), "example.com", "example.org") as proxy:
        reader, writer = await _tunnel(proxy)
        proxy.network.change(proxy.network.rules.denying(["example.org"]))
        writer.write(b"still")
        assert await reader.readexactly(5) == b"still"
        proxy.network.change(NetworkRules())
        assert await _rest(reader) == b""
        await until(lambda: proxy.ended)
        assert proxy.ended[0].outcome == "closed"
        assert await proxy.status(CONNECT) == 403
        proxy.network.change(NetworkRules((parse_domain("example.com"),)))
        (await _tunnel(proxy))[1].close()
        writer.close()


async def test_closing_ends_what_is_open_and_records_it() -> None:
    async with proxied(Internet(echo), "example.com") as proxy:
        _, writer = await _tunnel(proxy)
        _, other = await proxy.connect()
        await until(lambda: proxy.network.connections == 2)
    assert {one.outcome for one in proxy.ended} == {"closed"}
    assert (proxy.network.connections, proxy.network.places.taken) == (0, 0)
    for one in (writer, other):
        one.close()


async def test_connections_bytes_and_time_are_bounded_and_say_so() -> None:
    limits = NetworkLimits(connections_max=2, bytes_max=10_000, connections_total_max=4, header_s=0.05, idle_s=0.05)
    async with proxied(Internet(echo), "example.com", limits=limits) as proxy:
        silent = await proxy.connect()
        assert b" 408 " in await silent[0].readuntil(b"\r\n")
        silent[1].close()
        first = await _tunnel(proxy)
        assert await _rest(first[0]) == b""  # nothing moved for too long
        await until(lambda: len(proxy.ended) == 2)
        assert proxy.ended[1].outcome == "timed_out"
        first[1].close()
        held = [await proxy.connect() for _ in range(2)]
        await until(lambda: proxy.network.connections == 2)
        assert await proxy.status(CONNECT) == 503
        for _, writer in held:
            writer.close()
        await until(lambda: proxy.network.connections == 0)
        reader, writer = await _tunnel(proxy)
        writer.write(b"x" * 9000)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(9000)
        writer.close()
        await until(lambda: proxy.network.connections == 0)
        assert proxy.ended[-1].outcome == "too_much"
        assert await proxy.status(CONNECT) == 403
        proxy.network.allowance.used = 0
        proxy.network.total = 4
        assert b"connections that it may" in await proxy.ask(CONNECT)


async def test_nothing_is_dialled_for_what_cannot_be_put_on_record() -> None:
    async def record(_: object) -> None:
        raise JournalError("the disk is full")

    async with proxied(internet := Internet(echo), "example.com") as proxy:
        proxy.network.record = record
        assert await proxy.status(CONNECT) == 503
        assert internet.dialled == []


async def test_a_domain_with_a_credential_is_never_a_tunnel() -> None:
    secret = HeaderCredential("Authorization", "Bearer s3cret-value")
    async with proxied(internet := Internet(echo)) as proxy:
        proxy.network.change(NetworkRules((parse_domain("example.com", secret),)))
        assert await proxy.status(CONNECT) == 501  # nothing here can add it
        assert await proxy.status(b"GET http://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n") == 403
        assert internet.dialled == []
        given: list[object] = []

        async def forward(spec: ForwardSpec) -> Outcome:
            given.extend((spec.host, spec.port, spec.credential, spec.first))
            server = await spec.connect()
            server[1].close()
            spec.meter.up(3)
            spec.meter.used_credential()
            spec.client[1].write(await spec.client[0].readexactly(3))
            return Outcome.FAILED

        proxy.network.forward = forward
        assert (await proxy.ask(CONNECT + HELLO, more=b"tls")).endswith(b"\r\n\r\ntls")
        assert given == ["example.com", 443, secret, HELLO]
        await until(lambda: proxy.ended[-1].outcome == "failed")
        assert (proxy.ended[-1].bytes_up, proxy.ended[-1].address) == (3, PUBLIC)
        assert proxy.ended[-1].with_credential


async def test_connections_that_say_nothing_take_few_descriptors_and_no_place_of_other_sessions() -> None:
    limits, places = NetworkLimits(connections_max=2), Places(connections_max=2)
    async with (
        proxied(Internet(echo), "example.com", limits=limits) as silent,
        proxied(Internet(echo), "example.com", limits=limits) as other,
    ):
        silent.network.places = other.network.places = places
        held = [await silent.connect() for _ in range(20)]
        await until(lambda: silent.network.connections == 4)
        assert places.taken == 0
        first, second = await _tunnel(other), await _tunnel(other)
        assert (places.taken, silent.network.connections) == (2, 4)  # the others wait to be accepted
        for _, writer in (*held, first, second):
            writer.close()
        await until(lambda: (silent.network.connections, other.network.connections) == (0, 0))
        assert places.taken == 0


async def test_thousands_of_chunks_in_one_piece_are_sent_on_in_turns_with_everything_else() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def listen(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"0\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 3000 + b"0\r\n\r\n")

    post = b"POST http://example.com/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with proxied(Internet(listen), "example.com") as proxy:
        counting = asyncio.ensure_future(count())
        assert b" 200 " in await proxy.ask(post + b"1\r\nx\r\n" * 3000 + b"0\r\n\r\n")
        counting.cancel()
    assert turns > 6000


async def test_answers_before_the_answer_are_few() -> None:
    async def flood(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000)
        await reader.read(-1)

    async with proxied(Internet(flood), "example.com") as proxy:
        answer = await proxy.ask(b"GET http://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"HTTP/1.1 502 Moonpool: the server sent more than 16 interim answers" in answer
        await until(lambda: proxy.ended)
        assert proxy.ended[0].outcome == "failed"
