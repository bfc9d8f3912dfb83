"""The server name of a tunnel: what passes is a ClientHello for the tunnel's host, unchanged, and what follows it."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.network.sni import HELLO_BYTES_MAX, ServerAnswerError, ServerNameCheck, ServerNameError
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST = "api.example.com"
CCS = b"\x14\x03\x03\0\x01\x01"
ENCRYPTED = b"\x17\x03\x03\0\x05hello"


def client_hello(name: str | None = HOST, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """The first record that Python's client sends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = name is not None
    context.maximum_version = version
    out = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    return out.read()


def record(content: bytes, kind: int = 22) -> bytes:
    return bytes([kind, 3, 1]) + len(content).to_bytes(2, "big") + content


def hello(*extensions: tuple[int, bytes], session: bytes = b"") -> bytes:
    """A ClientHello message with these extensions."""
    packed = b"".join(kind.to_bytes(2, "big") + len(body).to_bytes(2, "big") + body for kind, body in extensions)
    body = b"\x03\x03" + bytes(32) + bytes([len(session)]) + session + b"\0\x02\x13\x01" + b"\x01\0"
    body += len(packed).to_bytes(2, "big") + packed
    return b"\x01" + len(body).to_bytes(3, "big") + body


def sni(*names: bytes, kind: int = 0) -> tuple[int, bytes]:
    listed = b"".join(bytes([kind]) + len(name).to_bytes(2, "big") + name for name in names)
    return 0, len(listed).to_bytes(2, "big") + listed


def cut(message: bytes, size: int) -> bytes:
    """The message in records of at most `size` bytes."""
    return b"".join(record(message[at : at + size]) for at in range(0, len(message), size))


def server_hello(random: bytes = bytes(32), more: bytes = b"") -> bytes:
    """A ServerHello message, and what comes with it in the same record."""
    body = b"\x03\x03" + random + b"\0\x13\x01\0"
    return b"\x02" + len(body).to_bytes(3, "big") + body + more


SERVED = record(server_hello())
RETRY = record(server_hello(bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")))


def feed(check: ServerNameCheck, sent: Sequence[bytes], step: int, passed: bytearray) -> None:
    """What the client sends, and each second one the server, some bytes at a time."""
    for turn, data in enumerate(sent):
        for at in range(0, len(data), step):
            piece = data[at : at + step]
            passed += check.answered(piece) if turn % 2 else check.feed(piece)


GOOD = hello(sni(HOST.encode()))


@every_row(
    ("data", "told"),
    [
        pytest.param(client_hello(None), "without a server name", id="no name"),
        pytest.param(client_hello("evil.example.com"), "TLS for evil.example.com; the tunnel", id="another name"),
        pytest.param(record(hello(sni(b"\xc3\xa9vil\n"))), "TLS for another name", id="a name that is not shown"),
        pytest.param(record(hello(sni(HOST.encode() + b"."))), "TLS for another name", id="a dot at the end"),
        pytest.param(record(hello(sni(HOST.encode(), b"evil.com"))), "do not fit", id="two names"),
        pytest.param(record(hello(sni(HOST.encode()), sni(HOST.encode()))), "twice", id="two extensions"),
        pytest.param(record(hello(sni(HOST.encode(), kind=1))), "unknown kind", id="not a host name"),
        pytest.param(record(hello(sni())), "do not fit", id="an empty list"),
        pytest.param(record(hello(sni(HOST.encode()), (42, b""))), "early data", id="early data"),
        pytest.param(
            record(hello((0xFE0D, b"ech"), sni(b"outer.com"))), "TLS for outer.com", id="ECH with another name"
        ),
        pytest.param(record(GOOD + b"\x01"), "bytes behind", id="more in the same record"),
        pytest.param(cut(hello(sni(b"evil.com"), (9, bytes(40))), 1), "more than 64 records", id="many fragments"),
        pytest.param(cut(hello(sni(b"evil.com")), 9), "TLS for evil.com", id="another name in fragments"),
        pytest.param(record(b"\x01\0\x80\0" + bytes(90)), f"more than {HELLO_BYTES_MAX}", id="a huge hello"),
        pytest.param(b"\x16\x03\x01\x40\x01", "a size that none", id="a huge record"),
        pytest.param(b"\x16\x03\x01\0\0", "a size that none", id="an empty record"),
        pytest.param(record(b"\x02" + GOOD[1:]), "no TLS ClientHello", id="a server's hello"),
        pytest.param(ENCRYPTED, "only TLS can pass", id="encrypted data first"),
        pytest.param(CCS + record(GOOD), "only TLS can pass", id="a change of keys first"),
        pytest.param(b"GET / HTTP/1.1\r\n", "only TLS can pass", id="plain HTTP"),
        pytest.param(b"SSH-2.0-x\r\n", "only TLS can pass", id="SSH"),
        pytest.param(b"\x80\x2e\x01\0\x02", "only TLS can pass", id="SSL 2"),
    ],
)
def test_a_tunnel_whose_server_name_is_not_its_host_is_refused(data: bytes, told: str) -> None:
    for step in (1, len(data)):  # at once, and byte by byte
        passed = bytearray()
        with pytest.raises(ServerNameError, match=told):
            feed(ServerNameCheck(HOST), [data], step, passed)
        assert bytes(passed) == b""


EVIL = hello(sni(b"evil.com"))
HUGE = b"\x01" + (131_396).to_bytes(3, "big") + b"\x03\x03" + bytes(131_394)
OTHER_VERSION = EVIL[:4] + b"\x04\x03" + EVIL[6:]


@every_row(
    ("answer", "second", "told"),
    [
        pytest.param(RETRY, client_hello("evil.com"), "TLS for evil.com", id="another name"),
        pytest.param(RETRY, cut(EVIL, 9), "TLS for evil", id="another name in fragments"),
        pytest.param(RETRY, cut(HUGE, 16_384), f"more than {HELLO_BYTES_MAX}", id="a length that is not below 64 KiB"),
        pytest.param(RETRY, record(OTHER_VERSION), "TLS for evil", id="an unknown version"),
        pytest.param(RETRY, record(b"\x14" + bytes(40)), "no TLS ClientHello", id="another message"),
        pytest.param(RETRY, ENCRYPTED, "no TLS handshake", id="encrypted data"),
        pytest.param(RETRY, b"GET / HTTP/1.1\r\n", "only TLS can pass", id="plain HTTP"),
        pytest.param(cut(RETRY[5:], 7), record(EVIL), "TLS for evil", id="asked for in fragments"),
        pytest.param(RETRY + CCS, record(EVIL), "TLS for evil", id="a change of keys by the server"),
        pytest.param(record(b"\x01\x70", 21) + RETRY, record(EVIL), "TLS for evil", id="asked for behind a warning"),
        pytest.param(record(b"\0\0\0\0"), record(EVIL), "TLS for evil", id="asked for in another way"),
        pytest.param(record(b"\x02\0\0\0"), record(EVIL), "TLS for evil", id="a ServerHello without a random"),
        pytest.param(b"", bytes(HELLO_BYTES_MAX + 1), "before the server answered", id="not waited for the answer"),
        pytest.param(RETRY[:-1], record(EVIL) * 500, "before the server answered", id="not waited for its end"),
    ],
)
def test_a_second_hello_that_the_server_asks_for_must_name_the_host(answer: bytes, second: bytes, told: str) -> None:
    for step in (1, 7, 20_000):
        passed = bytearray()
        with pytest.raises(ServerNameError, match=told):
            feed(ServerNameCheck(HOST), [record(GOOD), answer, CCS + second], step, passed)
        assert bytes(passed) in {record(GOOD), record(GOOD) + CCS}


def test_what_is_sent_at_once_with_the_first_hello_is_compared_when_the_server_asks_for_it() -> None:
    passed = bytearray()
    with pytest.raises(ServerNameError, match=r"TLS for evil\.com"):
        feed(ServerNameCheck(HOST), [record(GOOD) + CCS + record(EVIL), RETRY], 20_000, passed)
    assert bytes(passed) == record(GOOD)


def test_a_third_hello_is_compared_too() -> None:
    passed = bytearray()
    sent = [record(GOOD), RETRY + CCS, CCS + record(GOOD), CCS + RETRY, record(EVIL)]
    with pytest.raises(ServerNameError, match=r"TLS for evil\.com"):
        feed(ServerNameCheck(HOST), sent, 20_000, passed)
    assert bytes(passed) == record(GOOD) + CCS + record(GOOD)


@every_row(
    "answer",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n", id="plain HTTP"),
        pytest.param(ENCRYPTED, id="encrypted data"),
        pytest.param(record(b"\x02\0\xff\xff" + bytes(16_000)) * 2, id="a ServerHello without an end"),
        pytest.param(RETRY + CCS * 50_000, id="no wait for the second hello"),
    ],
)
def test_a_server_that_does_not_speak_tls_ends_the_tunnel(answer: bytes) -> None:
    with pytest.raises(ServerAnswerError):
        feed(ServerNameCheck(HOST), [record(GOOD), answer], 20_000, bytearray())


FINISHED_1_2 = record(b"\x01\x99" + bytes(38))  # encrypted, and by chance it begins as a ClientHello does


@every_row(
    ("hello", "more"),
    [
        pytest.param(client_hello(), [SERVED, CCS + ENCRYPTED + b"anything"], id="TLS 1.3"),
        pytest.param(client_hello("API.Example.COM"), [SERVED, ENCRYPTED], id="capital letters"),
        pytest.param(
            client_hello(version=ssl.TLSVersion.TLSv1_2),
            [record(server_hello(more=b"\x0b" + bytes(300))), record(b"\x10\0\0\x01x") + CCS],
            id="TLS 1.2",
        ),
        pytest.param(
            client_hello(),
            [RETRY + CCS, CCS + client_hello(), SERVED, CCS + ENCRYPTED],
            id="a second hello for the host",
        ),
        pytest.param(record(GOOD), [SERVED + CCS, CCS + FINISHED_1_2 + ENCRYPTED], id="resumed TLS 1.2"),
        pytest.param(record(GOOD), [cut(SERVED[5:], 7), ENCRYPTED], id="the answer in fragments"),
        pytest.param(cut(GOOD, 7), [RETRY, record(b"\x02\x28", 21)], id="fragments, and an alert"),
        pytest.param(
            record(hello((0xFE0D, b"grease"), sni(HOST.encode()))), [SERVED, ENCRYPTED], id="ECH for the host"
        ),
    ],
)
def test_a_tunnel_to_its_host_passes_unchanged(hello: bytes, more: Sequence[bytes]) -> None:
    sent = [hello, *more]
    for step in (1, 3, 100_000):
        check, passed = ServerNameCheck(HOST), bytearray()
        feed(check, sent, step, passed)
        assert passed == b"".join(sent[::2])
        assert check.admitted


def test_what_came_too_soon_passes_once_the_server_has_answered() -> None:
    check = ServerNameCheck(HOST)
    assert check.feed(record(GOOD) + CCS) == record(GOOD)
    assert check.feed(ENCRYPTED) == b""
    assert check.answered(SERVED[:20]) == b""
    assert check.answered(SERVED[20:]) == CCS + ENCRYPTED
    assert check.feed(b"all") == b"all"


@given(st.binary(max_size=200), st.integers(0, len(record(GOOD))), st.integers(0, 40), st.data())
def test_hostile_bytes_pass_only_behind_a_hello_for_the_host(
    junk: bytes, at: int, gone: int, data: st.DataObject
) -> None:
    whole = record(GOOD)
    sent = whole[:at] + junk + whole[at + gone :]
    check, passed, rest = ServerNameCheck(HOST), b"", sent
    with suppress(ServerNameError):
        while rest:
            step = data.draw(st.integers(1, len(rest)))
            passed, rest = passed + check.feed(rest[:step]), rest[step:]
    assert sent.startswith(passed)
    assert not passed or (check.admitted and HOST.encode() in passed.lower())
