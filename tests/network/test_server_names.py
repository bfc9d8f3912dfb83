"""The server name of a tunnel: what passes is a ClientHello for the tunnel's host, unchanged, and what follows it."""

from __future__ import annotations

import ssl
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.network.sni import HELLO_BYTES_MAX, ServerNameCheck, ServerNameError
from tables import every_row

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


def feed(check: ServerNameCheck, data: bytes, step: int, passed: bytearray) -> None:
    for at in range(0, len(data), step):
        passed += check.feed(data[at : at + step])


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
        pytest.param(
            record(GOOD) + CCS + client_hello("evil.com"), "TLS for evil.com", id="second hello, another name"
        ),
        pytest.param(record(GOOD) + CCS + cut(hello(sni(b"evil.com")), 9), "TLS for evil", id="the same in fragments"),
    ],
)
def test_a_tunnel_whose_server_name_is_not_its_host_is_refused(data: bytes, told: str) -> None:
    for step in (1, len(data)):  # at once, and byte by byte
        passed = bytearray()
        with pytest.raises(ServerNameError, match=told):
            feed(ServerNameCheck(HOST), data, step, passed)
        assert bytes(passed) in {b"", record(GOOD), record(GOOD) + CCS}


@every_row(
    "data",
    [
        pytest.param(client_hello() + CCS + ENCRYPTED + b"anything", id="TLS 1.3"),
        pytest.param(client_hello() + b"what no server reads", id="no TLS behind it"),
        pytest.param(client_hello("API.Example.COM") + ENCRYPTED, id="capital letters"),
        pytest.param(client_hello(version=ssl.TLSVersion.TLSv1_2) + record(b"\x10\0\0\x01x") + CCS, id="TLS 1.2"),
        pytest.param(client_hello() + CCS + client_hello() + CCS + ENCRYPTED, id="a second hello for the host"),
        pytest.param(record(GOOD) + CCS + record(b"\x01\x99" + bytes(38)) + ENCRYPTED, id="resumed TLS 1.2"),
        pytest.param(cut(GOOD, 7) + record(b"\x02\x28", 21), id="fragments, and an alert"),
        pytest.param(record(hello((0xFE0D, b"grease"), sni(HOST.encode()))) + ENCRYPTED, id="ECH for the host"),
    ],
)
def test_a_tunnel_to_its_host_passes_unchanged(data: bytes) -> None:
    for step in (1, 3, len(data)):
        check, passed = ServerNameCheck(HOST), bytearray()
        feed(check, data, step, passed)
        assert passed == data
        assert check.admitted


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
