"""Lines to messages and back: nothing changed on the way out, nothing trusted on the way in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from moonpool.upstreams.frames import LocalFault, decode_frame, encode_frame, oversized_answer

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def request(params: object) -> JSONRPCRequest:
    return JSONRPCRequest.model_construct(jsonrpc="2.0", id=1, method="tools/call", params=params)


@pytest.mark.req("B-003")
@given(st.dictionaries(st.text(), VALUES))
def test_params_leave_exactly_as_given(params: dict[str, object]) -> None:
    line = encode_frame(request(params))
    assert json.loads(line)["params"] == params
    assert line.count(b"\n") == 1


def test_a_lone_surrogate_leaves_as_an_escape() -> None:
    assert json.loads(encode_frame(request({"a": "\ud800"})))["params"] == {"a": "\ud800"}


def test_nan_does_not_leave() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_frame(request({"a": float("nan")}))


@pytest.mark.req("A-008", "A-011")
@given(VALUES)
def test_results_arrive_exactly_as_sent(value: object) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": 3, "result": {"v": value}}).encode()
    (message,) = decode_frame(line) or [None]
    assert isinstance(message, JSONRPCResponse | JSONRPCError)
    assert isinstance(message, JSONRPCError) or message.result == {"v": value}


@pytest.mark.req("A-021")
@given(st.binary())
def test_junk_never_raises(junk: bytes) -> None:
    assert isinstance(decode_frame(junk), list)


@pytest.mark.req("A-012", "B-008")
def test_a_batch_is_taken_apart() -> None:
    batch = [{"jsonrpc": "2.0", "id": 1, "result": {}}, 7, {"jsonrpc": "2.0", "method": "notifications/x"}]
    kinds = [type(message) for message in decode_frame(json.dumps(batch).encode())]
    assert kinds == [JSONRPCResponse, JSONRPCNotification]


@pytest.mark.req("A-007")
def test_an_odd_error_object_is_still_an_error() -> None:
    (message,) = decode_frame(b'{"jsonrpc":"2.0","id":1,"error":"boom"}')
    assert isinstance(message, JSONRPCError)
    assert message.error.message == "boom"


@pytest.mark.parametrize(
    ("head", "tail", "expected"),
    [
        pytest.param(b'{"jsonrpc":"2.0","id":7,"result":{"content":[', b"]}}", 7, id="id first"),
        pytest.param(b'{"id": "a7", "jsonrpc"', b"]}}", "a7", id="id a text"),
        pytest.param(b'{"result":{"content":[{"id":5', b'"}]},"jsonrpc":"2.0","id":7}', 7, id="id last"),
        pytest.param(b'{"result":{"content":[{"id":5', b'"}]},"id":7,"jsonrpc":"2.0"}', 7, id="id last but one"),
        pytest.param(b'{"result":{"content":[{"id":5', b'{"id":7}]}}', None, id="an id inside the result"),
    ],
)
def test_the_request_that_an_oversized_line_answers(head: bytes, tail: bytes, expected: int | str | None) -> None:
    answer = oversized_answer(head, tail)
    assert (answer.id if answer else None) == expected
    assert answer is None or answer.error.data is LocalFault.TOO_LARGE


@pytest.mark.req("H-040")
def test_half_a_surrogate_pair_in_a_description_does_not_lose_the_list() -> None:
    tools = rb'[{"name": "a", "inputSchema": {}, "description": "\ud83d\ude00 \ud800 \\ud800 \udc00"}]'
    (message,) = decode_frame(rb'{"jsonrpc": "2.0", "id": 1, "result": {"tools": ' + tools + rb"}}")
    assert isinstance(message, JSONRPCResponse)
    assert (
        message.result["tools"][0]["description"]
        == "\N{GRINNING FACE} \N{REPLACEMENT CHARACTER} \\ud800 \N{REPLACEMENT CHARACTER}"
    )
