"""The name in a ClientHello: real ones in any pieces, and bytes that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.network.client_hello import HELLO_BYTES_MAX, NotTlsError, server_name
from network.stand_ins import client_hello


def in_records(hello: bytes, size: int) -> bytes:
    """The same message in records of `size` bytes."""
    body = hello[5:]
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(hello[:3] + len(piece).to_bytes(2) + piece for piece in pieces)


HELLO = client_hello("Example.com")


def test_the_name_is_found_however_the_message_is_cut() -> None:
    assert server_name(HELLO) == (True, "example.com")
    assert server_name(HELLO + b"early data") == (True, "example.com")
    assert server_name(in_records(HELLO, 7)) == (True, "example.com")
    assert server_name(client_hello(None)) == (True, "")
    for end in range(len(HELLO)):
        assert server_name(HELLO[:end]) == (False, "")


@given(st.binary(max_size=200), st.integers(0, len(HELLO) - 1), st.integers(0, 255))
def test_no_bytes_are_anything_but_a_name_or_a_typed_error(junk: bytes, at: int, value: int) -> None:
    for data in (junk, b"\x16\x03\x01" + junk, HELLO[:at] + bytes([value]) + HELLO[at + 1 :], HELLO[:at] + junk):
        try:
            complete, name = server_name(data)
        except NotTlsError:
            continue
        assert complete or not name


def test_what_is_no_tls_is_refused_at_the_first_byte_and_a_message_without_end_in_time() -> None:
    for data in (b"GET / HTTP/1.1\r\n", b"SSH-2.0-x", b"\x16\x02", b"\x17\x03\x03\x00\x01x", b"\x16\x03\x01\x00\x00"):
        with pytest.raises(NotTlsError):
            server_name(data)
    endless = b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + b"x" * (16384 - 4)
    with pytest.raises(NotTlsError):
        server_name((endless + endless.replace(b"\x01\xff\xff\xff", b"xxxx"))[:HELLO_BYTES_MAX])


def test_two_names_are_none() -> None:
    body = HELLO[5 + 4 :]
    at = 2 + 32
    at += 1 + body[at]
    at += 2 + int.from_bytes(body[at : at + 2])
    at += 1 + body[at]
    name = b"\x00\x00" + (16).to_bytes(2) + (14).to_bytes(2) + b"\x00" + (11).to_bytes(2) + b"example.org"
    extensions = body[at + 2 :] + name
    again = body[:at] + len(extensions).to_bytes(2) + extensions
    message = b"\x01" + len(again).to_bytes(3) + again
    with pytest.raises(NotTlsError):
        server_name(b"\x16\x03\x01" + len(message).to_bytes(2) + message)
