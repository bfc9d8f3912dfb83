"""Hosts with a credential: what the server gets, what the code gets, and what neither does."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import re
import shutil
import socket
import ssl
import sys
from typing import TYPE_CHECKING, Any

import anyio
import h11
import pytest
from blockbuster import blockbuster_ctx

from moonpool.network.connections import Outcome, RefusedError
from moonpool.network.roots import trusted_roots
from moonpool.network.rules import HeaderCredential
from moonpool.network.session_ca import CONTEXTS_MAX, SessionAuthority
from moonpool.network.session_network import ForwardSpec
from moonpool.network.session_trust import SessionTrust
from moonpool.redaction.redactor import Redactor
from moonpool.sandboxes.base import TRUST_VARIABLES
from network.tls_hosts import CREDENTIAL, HOST, SECRET, Counted, Talk, aborting, echo, hosted, running, signer, to
from waiting import until

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

pytestmark = pytest.mark.anyio
GET = f"GET / HTTP/1.1\nHost: {HOST}\nConnection: close\n\n"


@pytest.fixture(autouse=True)
def _no_blocking_calls() -> Generator[None]:
    with blockbuster_ctx(scanned_modules=["moonpool"]):
        yield


@pytest.fixture
def context(tmp_path: Path) -> ssl.SSLContext:
    return signer().context(tmp_path)


def body_of(answer: str) -> Any:
    """The JSON of an answer in chunks."""
    return json.loads(re.sub(r"(?:^|\r\n)[0-9a-f]+\r\n", "", answer.partition("\r\n\r\n")[2]).strip())


async def test_the_server_gets_the_credential_and_the_code_never_does(context: ssl.SSLContext) -> None:
    request = f"""\
POST /items?q=1 HTTP/1.1
Host: {HOST}:443
aUTHORIZATION: Bearer mine
Authorization: Bearer mine too
X-Kept: yes
Accept-Encoding: gzip, br
Accept_Encoding: gzip
Connection: close, Authorization, X-Dropped
X-Dropped: yes
TE: trailers
Proxy-Authorization: Basic eDp5
Transfer-Encoding: chunked

5
hello
0
Authorization: Bearer in a trailer

"""
    async with running(echo, context) as server, hosted(to(server)) as host:
        answer = await host.ask(request)
        await until(lambda: host.done)
    assert server.headers() == [
        ("Host", HOST),
        ("X-Kept", "yes"),
        ("Transfer-Encoding", "chunked"),
        ("Accept-Encoding", "identity"),
        ("Authorization", f"Bearer {SECRET}"),
    ]
    told = body_of(answer)
    assert (told["method"], told["path"], told["body"]) == ("POST", "/items?q=1", "hello")
    assert ["authorization", "[REDACTED:CREDENTIAL]"] in told["headers"]
    assert SECRET not in answer
    (done,) = host.done
    assert (done.requests, done.outcome) == (1, Outcome.DONE)
    (meter,) = host.meters
    assert meter.requests == 1
    assert meter.bytes_up > len(request)
    assert meter.bytes_down > len(answer)


async def test_a_name_that_servers_take_for_the_credentials_is_not_sent(context: ssl.SSLContext) -> None:
    key = HeaderCredential("X-Api-Key", SECRET)
    async with running(echo, context) as server, hosted(to(server), credential=key) as host:
        await host.ask(GET.replace("Connection", "X_API_KEY: mine\nx-api_key: mine\nConnection"))
    assert [pair for pair in server.headers() if "api" in pair[0].lower()] == [("X-Api-Key", SECRET)]


REFUSED = {
    "no host": (GET.replace("Host", "X-Host"), 400),
    "another host": (GET.replace(HOST, "evil.example.com"), 421),
    "another port": (GET.replace(HOST, f"{HOST}:8443"), 421),
    "two hosts": (GET.replace("Connection", f"Host: {HOST}\nConnection"), 400),
    "a whole address": (GET.replace("GET /", "GET https://evil.example.com/"), 400),
    "TRACE": (GET.replace("GET", "TRACE"), 405),
    "CONNECT": (GET.replace("GET /", "CONNECT evil.example.com:443"), 405),
    "CONNECT to a path": (GET.replace("GET", "CONNECT"), 405),
    "websocket": (GET.replace("Connection: close", "Connection: Upgrade\nUpgrade: websocket"), 501),
    "upgrade to HTTP/2": (GET.replace("Connection: close", "Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c"), 501),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "HTTP/1.0": (GET.replace("1.1", "1.0"), 505),
    "two lengths": (GET.replace("Connection", "Content-Length: 3\nContent-Length: 4\nConnection"), 400),
    "length and chunks": (
        GET.replace("Connection", "Content-Length: 3\nTransfer-Encoding: chunked\nConnection"),
        400,
    ),
    "an unknown transfer": (GET.replace("Connection", "Transfer-Encoding: chunked, identity\nConnection"), 501),
    "no HTTP": (b"\x16\x03\x01 hello\r\n\r\n", 400),
    "a blank before the colon": (GET.replace("Connection:", "X-Y : z\nConnection:"), 400),
    "many headers": (GET.replace("Connection", "X-Y: z\n" * 300 + "Connection"), 431),
    "a huge header": (f"GET / HTTP/1.1\nHost: {HOST}\nX-Y: {'z' * 70_000}", 431),
}


async def test_requests_that_cannot_be_sent_on_are_answered_and_the_server_sees_none(context: ssl.SSLContext) -> None:
    wrong: dict[str, str] = {}
    async with running(echo, context) as server, hosted(to(server)) as host:
        for name, (request, status) in REFUSED.items():
            answer = await host.ask(request)
            if not answer.startswith(f"HTTP/1.1 {status} ") or "Moonpool: " not in answer:
                wrong[name] = answer[:200]
        await until(lambda: len(host.done) == len(REFUSED))
    assert wrong == {}
    assert server.connections == 0
    assert [(done.requests, done.outcome) for done in host.done] == [(0, Outcome.MALFORMED)] * len(REFUSED)
    noted = [text for meter in host.meters for text in meter.refusals]
    assert len(noted) == len(REFUSED)
    assert [
        text for text in noted if "X-Y" in text or "hello" in text or len(text) > 150
    ] == []  # nothing that was sent


async def test_the_credential_is_taken_out_of_answers_in_every_form(context: ssl.SSLContext) -> None:
    value = base64.b64encode(f"user:{SECRET}".encode()).decode()
    basic = HeaderCredential("Authorization", f"Basic {value}")
    forms = [value, SECRET, f"user:{SECRET}", SECRET.encode().hex(), json.dumps({"a": SECRET.replace("/", "\\/")})]

    async def in_pieces(talk: Talk) -> None:
        await talk.body()
        headers = [("X-Echo", value), (f"X-{SECRET.replace('/', '').replace('+', '')}", "1"), ("X-Key", f"k={SECRET}")]
        await talk.head(200, [*headers, ("Content-Type", "application/octet-stream")])
        for form in forms:
            for at in range(0, len(form), 5):
                await talk.part(form[at : at + 5].encode())
            await talk.part(b"|")
        await talk.end()

    async with running(in_pieces, context) as server, hosted(to(server), credential=basic) as host:
        async with host.client() as (reader, writer):
            writer.write(GET.replace("\n", "\r\n").encode())
            answer = (await reader.read()).decode()
        await until(lambda: host.done)
    text = re.sub(r"\r\n[0-9a-f]+\r\n", "", answer)
    assert value not in text
    assert SECRET not in text
    assert SECRET.encode().hex() not in text
    assert text.count("[REDACTED:CREDENTIAL") == len(forms) + 2


PARTS = {
    "a cookie": ("Cookie", "session=SEKRET-0123456789; theme=dark"),
    "a parameter": ("Authorization", 'Token token="SEKRET-0123456789", id=7'),
    "behind a colon": ("Authorization", "ApiKey mine:SEKRET-0123456789"),
    "a key as user": ("Authorization", "Basic " + base64.b64encode(b"SEKRET-0123456789:").decode()),
    "no padding": ("Authorization", "Basic " + base64.b64encode(b"me:SEKRET-0123456789").decode().rstrip("=")),
}


async def test_parts_that_a_server_reads_and_repeats_alone_are_taken_out(context: ssl.SSLContext) -> None:
    async def repeat(talk: Talk) -> None:
        await talk.answer(b'{"key": "SEKRET-0123456789"}')

    for name, header in PARTS.items():
        async with running(repeat, context) as server, hosted(to(server), credential=HeaderCredential(*header)) as host:
            assert ("SEKRET" in await host.ask(GET), name) == (False, name)


async def test_what_a_server_sends_is_counted_whether_it_is_passed_on_or_not(context: ssl.SSLContext) -> None:
    async def flood(talk: Talk) -> None:
        await talk.answer(f"{SECRET}\n".encode() * 1600 + bytes(1_000_000))

    async with running(flood, context) as server, hosted(to(server)) as host:
        assert len(await host.ask(GET)) < 100_000  # the rest is withheld: too many secrets
        assert host.meters[0].bytes_down > 1_000_000


async def test_what_is_searched_for_is_prepared_once_for_many_connections(
    context: ssl.SSLContext, tmp_path: Path
) -> None:
    made: list[Any] = []
    ended: list[Outcome] = []

    def redaction(values: Any) -> Any:
        made.append(values)
        return Redactor.of_values(values)

    (tmp_path / "roots.pem").write_bytes(signer().roots)
    trust = SessionTrust(tmp_path / "roots.pem", redaction)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with aborting(writer):
            spec = ForwardSpec(
                client=(reader, writer),
                first=b"",
                host=HOST,
                port=443,
                credential=CREDENTIAL,
                connect=to(server),
                meter=Counted(),
            )
            ended.append(await trust.forward(spec))

    async with running(echo, context) as server:
        listener = await asyncio.start_server(serve, "127.0.0.1", 0)
        trusted = ssl.create_default_context(cadata=(await asyncio.to_thread(trust.bundle, [HOST])).decode())
        for _ in range(3):
            where = listener.sockets[0].getsockname()
            reader, writer = await asyncio.open_connection(*where, ssl=trusted, server_hostname=HOST)
            writer.write(GET.replace("\n", "\r\n").encode())
            assert b"[REDACTED:CREDENTIAL]" in await reader.read()
            writer.transport.abort()
        await until(lambda: len(ended) == 3)
        listener.close()
        await asyncio.sleep(0)  # the loop closes sockets a turn later
    assert len(made) == 1


async def test_what_cannot_be_searched_is_no_answer(context: ssl.SSLContext) -> None:
    async def compressed(talk: Talk) -> None:
        await talk.body()
        await talk.answer(b"\x1f\x8b", Content_Encoding="gzip")

    async with running(compressed, context) as server, hosted(to(server)) as host:
        answer = await host.ask(GET)
    assert answer.startswith("HTTP/1.1 502 ")
    assert "compressed although it was asked not to" in answer


async def test_bodies_pass_both_ways_at_the_same_time_and_one_request_follows_another(context: ssl.SSLContext) -> None:
    async def backwards(talk: Talk) -> None:
        await talk.head(200, [("Transfer-Encoding", "chunked")])
        async for part in talk.parts():
            await talk.part(part[::-1])
        await talk.end()

    async with running(backwards, context) as server, hosted(to(server)) as host, host.client() as (reader, writer):
        http = h11.Connection(h11.CLIENT)
        headers = [("Host", HOST), ("Transfer-Encoding", "chunked")]
        for _ in range(2):
            writer.write(http.send(h11.Request(method="POST", target="/", headers=headers)) or b"")
            for word in (b"first", b"second"):
                writer.write(http.send(h11.Data(data=word)) or b"")
                assert await _data(http, reader) == word[::-1]
            writer.write(http.send(h11.EndOfMessage()) or b"")
            assert isinstance(await _next(http, reader), h11.EndOfMessage)
            http.start_next_cycle()
        assert (server.connections, len(server.requests)) == (1, 2)
        writer.close()
        await until(lambda: host.done)
        assert host.done[0].requests == 2


async def _next(http: h11.Connection, reader: asyncio.StreamReader) -> Any:
    with anyio.fail_after(20):
        while (event := http.next_event()) is h11.NEED_DATA:
            http.receive_data(await reader.read(65536))
    return event


async def _data(http: h11.Connection, reader: asyncio.StreamReader) -> bytes:
    while not isinstance(event := await _next(http, reader), h11.Data):
        assert isinstance(event, h11.Response | h11.InformationalResponse)
    return bytes(event.data)


async def test_a_client_that_does_not_read_stops_the_server(context: ssl.SSLContext) -> None:
    sent = 0

    async def endless(talk: Talk) -> None:
        nonlocal sent
        await talk.head(200, [])
        while True:
            await talk.part(bytes(65536))
            sent += 65536

    async with running(endless, context) as server, hosted(to(server)) as host:
        async with host.client() as (reader, writer):
            writer.write(GET.replace("\n", "\r\n").encode())
            await reader.readexactly(100)
            before = -1
            while before != sent:  # until nothing more was sent while another connection was served
                before = sent
                for _ in range(3):
                    await host.ask(GET.replace("GET /", "TRACE /"))
            assert sent < 64 * 1024**2
        await until(lambda: any(done.requests for done in host.done))  # the server hears of a client that is gone
    assert next(done.outcome for done in host.done if done.requests) is Outcome.FAILED


async def test_a_client_may_ask_before_it_sends_a_body(context: ssl.SSLContext) -> None:
    async def wanted(talk: Talk) -> None:
        if talk.path == "/no":
            await talk.answer(b"too large", status=413)
        else:
            await talk.interim(103)
            await talk.interim(100)
            await talk.answer(await talk.body())

    head = f"POST /yes HTTP/1.1\r\nHost: {HOST}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    async with running(wanted, context) as server, hosted(to(server)) as host:
        async with host.client() as (reader, writer):
            writer.write(head.encode())
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 \r\n\r\n"
            writer.write(b"hello")
            assert await reader.readuntil(b"hello")
        answer = await host.ask(head.replace("/yes", "/no"))
    assert answer.startswith("HTTP/1.1 413 ")
    assert "too large" in answer


async def test_a_server_that_answers_and_closes_before_it_has_read_all_is_heard(context: ssl.SSLContext) -> None:
    async def impatient(talk: Talk) -> None:
        await talk.answer(b"too large", status=413, Connection="close")

    async with running(impatient, context) as server, hosted(to(server)) as host, host.client() as (reader, writer):
        writer.write(f"POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 3000000\r\n\r\n".encode() + bytes(3_000_000))
        answer = await reader.readuntil(b"too large")
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_answers_without_a_body_keep_their_length(context: ssl.SSLContext) -> None:
    async def empty(talk: Talk) -> None:
        if talk.request.method == b"HEAD":
            await talk.answer(Content_Type="text/plain", X_Size="7")
        else:
            await talk.head(304, [("ETag", '"x"'), ("Content-Encoding", "gzip")])
            await talk.end()

    async with running(empty, context) as server, hosted(to(server)) as host:
        head = await host.ask(GET.replace("GET", "HEAD"))
        unchanged = await host.ask(GET)
    assert "Content-Length: 0\r\n" in head
    assert head.endswith("\r\n\r\n")
    assert unchanged.startswith("HTTP/1.1 304 ")


async def test_the_server_must_prove_who_it_is(context: ssl.SSLContext, tmp_path: Path) -> None:
    told: dict[str, str] = {}
    contexts = {
        "unable to get local issuer certificate": signer("another").context(tmp_path),
        "Hostname mismatch": signer().context(tmp_path, "evil.example.com"),
        "certificate has expired": signer().context(tmp_path, days=-1),
    }
    for reason, other in contexts.items():
        async with running(echo, other) as server, hosted(to(server)) as host:
            told[reason] = await host.ask(GET)
            assert host.meters[0].refusals[0] in told[reason].splitlines()[0]  # in the status line, and in the session
            assert ("MOONPOOL_NETWORK_CA_FILE" in host.meters[0].on_record[0]) is ("issuer" in reason)
        assert server.received == b""
    for reason, answer in told.items():
        assert answer.startswith("HTTP/1.1 502 ")
        assert f"the certificate of {HOST} cannot be verified: {reason}" in answer
        assert "MOONPOOL_" not in answer  # that is the operator's, on record

    async def refusing() -> Any:
        raise RefusedError(403, Outcome.ADDRESS_REFUSED, "10.0.0.1 is a private address")

    async def closed() -> Any:
        raise ConnectionRefusedError(111, "Connection refused")

    for connect, text, outcome in (
        (refusing, "10.0.0.1 is a private address", Outcome.ADDRESS_REFUSED),
        (closed, f"{HOST} cannot be reached over TLS", Outcome.UNREACHABLE),
    ):
        async with hosted(connect) as host:
            assert text in await host.ask(GET)
            await until(lambda host=host: host.done)
        assert host.done[0].outcome is outcome


async def test_a_client_must_name_the_host_and_trust_the_session(context: ssl.SSLContext) -> None:
    async with running(echo, context) as server, hosted(to(server)) as host:
        for name in (None, "evil.example.com", "127.0.0.1"):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                async with host.client(name):
                    pass
        with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
            await asyncio.open_connection(
                "127.0.0.1", host.port, ssl=ssl.create_default_context(), server_hostname=HOST
            )
        _, writer = await asyncio.open_connection("127.0.0.1", host.port)
        writer.write(GET.encode())  # in clear
        await until(lambda: len(host.done) == 5)
        writer.close()
    assert [(done.requests, done.outcome) for done in host.done] == [(0, Outcome.FAILED)] * 5
    assert server.connections == 0


async def test_a_client_that_does_not_trust_the_session_is_told_of(context: ssl.SSLContext) -> None:
    def connect(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), 20) as raw:
            ssl.create_default_context().wrap_socket(raw, server_hostname=HOST)

    async with running(echo, context) as server, hosted(to(server)) as host:
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(connect, host.port)
        await until(lambda: host.done)
    assert host.done[0].outcome is Outcome.FAILED
    assert f"stands in for {HOST}; it must read the file that SSL_CERT_FILE names" in host.meters[0].refusals[0]


async def test_the_connection_ends_with_the_servers(context: ssl.SSLContext) -> None:
    async def once(talk: Talk) -> None:
        await talk.answer(b"bye", Connection="close")

    async def cut(talk: Talk) -> None:
        await talk.head(200, [("Content-Length", "10")])
        await talk.part(b"half")
        talk.writer.transport.abort()

    kept = GET.replace("Connection: close\n", "")
    async with running(once, context) as server, hosted(to(server)) as host:
        answer = await host.ask(kept)
        assert "Connection: close" in answer
        assert answer.endswith("0\r\n\r\n")
    async with running(cut, context) as server, hosted(to(server)) as host:
        answer = await host.ask(kept)
        assert answer.endswith("\r\nhalf\r\n")  # no last chunk: the code's client can tell that it is not all
        await until(lambda: host.done)
    assert host.done[0].outcome is Outcome.FAILED


async def test_nothing_that_is_told_or_logged_has_the_credential(
    context: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    broken = HeaderCredential("Authorization", SECRET)
    object.__setattr__(broken, "value", f"{SECRET}\n{SECRET}")  # what no rule lets through
    async with running(echo, context) as server, hosted(to(server), credential=broken) as host:
        answer = await host.ask(GET)
        await until(lambda: host.done)
    assert answer.startswith("HTTP/1.1 400 ")
    assert SECRET not in f"{answer} {host.done} {caplog.text} {CREDENTIAL!r}"
    assert server.requests == []


async def test_clients_trust_the_session_by_their_variables(context: ssl.SSLContext, tmp_path: Path) -> None:
    """Python's `ssl`, curl and Node; the others read the same variables."""
    bundle = tmp_path / "bundle.pem"
    async with running(echo, context) as server, hosted(to(server)) as host:
        bundle.write_bytes(host.authority.bundle())
        url = f"https://{HOST}:{host.port}/"
        python = f"""
import socket, ssl
with socket.create_connection(("127.0.0.1", {host.port})) as raw, \\
     ssl.create_default_context().wrap_socket(raw, server_hostname="{HOST}") as tls:
    tls.sendall(b"GET / HTTP/1.1\\r\\nHost: {HOST}\\r\\nConnection: close\\r\\n\\r\\n")
    while data := tls.recv(65536):
        print(data.decode())
"""
        node = f"""
const to = {{host: "127.0.0.1", port: {host.port}, servername: "{HOST}", headers: {{Host: "{HOST}"}}, agent: false}};
require("https").get(to, answer => answer.on("data", data => console.log(String(data))));
"""
        commands = {
            "python": [sys.executable, "-c", python],
            "curl": ["curl", "-sS", "--resolve", f"{HOST}:{host.port}:127.0.0.1", "-H", f"Host: {HOST}", url],
            "node": ["node", "-e", node],
        }
        environ = {"PATH": os.environ["PATH"], **dict.fromkeys(TRUST_VARIABLES, str(bundle))}
        for name, command in commands.items():
            if shutil.which(command[0]) is None:
                continue
            with anyio.fail_after(30):
                done = await anyio.run_process(command, env=environ, check=False)
            assert b"[REDACTED:CREDENTIAL]" in done.stdout, (name, done.stderr)


def test_the_authority_is_for_its_hosts_and_its_keys_stay_in_memory(tmp_path: Path) -> None:
    roots = trusted_roots(extra=None)
    authority = SessionAuthority([HOST], roots=roots)
    before = authority.bundle()
    assert before.startswith(roots)
    assert b"PRIVATE KEY" not in before
    with pytest.raises(ValueError, match=r"not for evil\.com"):
        authority.server_context("evil.com")
    assert not authority.cover([HOST])
    more = [f"h{number}.example.com" for number in range(CONTEXTS_MAX + 1)]
    assert authority.cover([*more, HOST])
    assert authority.bundle().startswith(before)
    assert authority.bundle().count(b"BEGIN CERT") == before.count(b"BEGIN CERT") + 1
    first = authority.server_context(HOST)
    assert authority.server_context(HOST) is first
    for host in more:
        authority.server_context(host)
    assert authority.server_context(HOST) is not first


def test_a_certificate_outside_the_constraints_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever made the host issue it: clients do not trust the authority for another host."""
    authority = SessionAuthority([HOST], roots=b"")
    authority._issuers["evil.com"] = authority._issuers[HOST]
    trust = ssl.create_default_context(cadata=authority.bundle().decode())
    trust.verify_flags |= ssl.VERIFY_X509_STRICT
    _handshake(trust, authority.server_context(HOST), HOST)
    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree violation"):
        _handshake(trust, authority.server_context("evil.com"), "evil.com")


def _handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up, server_hostname=name), server.wrap_bio(up, down, server_side=True)]
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[0].selected_alpn_protocol() is None
