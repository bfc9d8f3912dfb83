"""One line to one message: junk never raises anything but ValueError, and never becomes a request."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.server.mcp.messages import (
    Ignored,
    Invalid,
    Notification,
    Request,
    Response,
    encode_line,
    parse_line,
    read_message,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": JSON,
        "method": st.sampled_from(["ping", "tools/call", ""]) | JSON,
        "params": JSON,
        "result": JSON,
        "error": JSON,
    },
)


@pytest.mark.req("A-001", "A-002", "A-003", "A-006", "A-009")
@given(MEMBERS | JSON)
def test_only_whole_messages_are_read(value: object) -> None:
    message = read_message(value)

    match message:
        case Request(request_id, method, params):
            assert isinstance(request_id, int | str)
            assert not isinstance(request_id, bool)
            assert isinstance(method, str)
            assert params is None or isinstance(params, dict)
        case Notification():
            assert isinstance(value, dict)
            assert "id" not in value
        case Response(payload):
            assert ("result" in payload) != ("error" in payload)
        case Invalid() | Ignored():
            assert message.problem


@given(st.binary(max_size=200))
def test_junk_is_a_value_error_or_a_value(line: bytes) -> None:
    with suppress(ValueError):
        parse_line(line)


@pytest.mark.req("A-011", "B-003")
@given(st.dictionaries(st.text(max_size=3), st.text(alphabet=st.characters())))
def test_an_encoded_line_is_one_line_everywhere_and_reads_back(value: dict[str, str]) -> None:
    line = encode_line(dict(value))

    assert line.decode().splitlines() == [line.decode()[:-1]]
    assert json.loads(line) == value


@pytest.mark.req("A-011")
def test_half_a_surrogate_pair_can_be_sent() -> None:
    assert json.loads(encode_line({"x": "\ud800"})) == {"x": "\ud800"}


@pytest.mark.req("A-021")
@pytest.mark.parametrize(
    "line", [b"[" * 129 + b"]" * 129, b"[" + b"[]," * 200_000 + b"[]]"], ids=["deep", "of many containers"]
)
def test_a_line_is_bounded_before_it_is_decoded(line: bytes) -> None:
    with pytest.raises(ValueError, match="the message has"):
        parse_line(line)
