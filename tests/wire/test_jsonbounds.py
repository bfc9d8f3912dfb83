"""Bounds on JSON text: counted as a decoder would meet them, in linear time whatever the text is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool_wire.jsonbounds import exceeded_bound

values = st.recursive(
    st.none() | st.integers() | st.text(alphabet='[]{}"\\a\u00e9\n'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='[{"\\b'), inner, max_size=4),
    max_leaves=30,
)


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


def containers_in(value: object) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(containers_in, value.values()))
    if isinstance(value, list):
        return 1 + sum(map(containers_in, value))
    return 0


@given(value=values, ascii_only=st.booleans())
def test_the_bounds_are_exact_on_every_json_value(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    depth, containers = depth_of(value), containers_in(value)

    assert exceeded_bound(text, depth_max=depth, containers_max=containers) is None
    if depth:
        assert exceeded_bound(text, depth_max=depth - 1, containers_max=containers) is not None
    if containers > depth:
        assert exceeded_bound(text, depth_max=depth, containers_max=containers - 1) is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b"[" * 64 + b"]" * 64, None, id="as deep as allowed"),
        pytest.param(b"[" * 65 + b"]" * 65, "more than 64 levels of nesting", id="one level too deep"),
        pytest.param(b"[" * 1_000_000, "more than 200000 objects and arrays", id="never closed"),
        pytest.param(b"[" + b",".join([b"{}"] * 200_000) + b"]", "more than 200000 objects and arrays", id="too many"),
        pytest.param(b'"' + b"[" * 1000 + b'"', None, id="brackets in a string"),
        pytest.param(b'"\\"' + b"[" * 1000 + b'"', None, id="after an escaped quote"),
        pytest.param(b'"\\\\"' + b"[" * 1000, "more than 64 levels of nesting", id="after an escaped backslash"),
        pytest.param(
            b"]" * 16_000_000 + b"[" * 65, None, id="a decoder stops at the first bracket that closes nothing"
        ),
        pytest.param(b"[" * 60_000, "more than 64 levels of nesting", id="only opened"),
        pytest.param(b"[" * 65 + b"]" * 16_000_000, "more than 64 levels of nesting", id="closed far too often"),
        pytest.param(b"[" * 65 + b'"' + b'\\"' * 4_000_000, "more than 64 levels of nesting", id="string without end"),
        pytest.param(b"[" * 65 + b'"' + b"\\" * 4_000_001, "more than 64 levels of nesting", id="only backslashes"),
    ],
)
@pytest.mark.timeout(20)
def test_texts_at_the_border(text: bytes, expected: str | None) -> None:
    assert exceeded_bound(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b"[1,2,3]", None, id="as many as allowed"),
        pytest.param(b"[1,2,3,4]", "more than 3 values", id="one too many"),
        pytest.param(b'{"a":1,"b":[2,3,4]}', "more than 3 values", id="over several containers"),
        pytest.param(b'[",,,,,"]', None, id="commas in a string"),
        pytest.param(b'[",,,,,"' + b",1" * 3, "more than 3 values", id="never closed"),
    ],
)
def test_values_are_bounded_where_the_caller_asks_for_it(text: bytes, expected: str | None) -> None:
    assert exceeded_bound(text, values_max=3) == expected
    assert exceeded_bound(text) is None


@given(text=st.binary(max_size=300))
def test_any_bytes_give_an_answer(text: bytes) -> None:
    exceeded_bound(text, depth_max=2, containers_max=3)


def test_pieces_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """An escape, a string and a run of backslashes may lie across the edge of two pieces."""
    text = json.dumps(["\\" * 5 + '"[', "[{", [[]], {"\\": '\\"{'}, "é,", []]).encode()
    for size in range(2, len(text) + 1):
        monkeypatch.setattr("moonpool_wire.jsonbounds._PIECE_BYTES", size)
        assert exceeded_bound(text, depth_max=3, containers_max=5) is None
        assert exceeded_bound(text, depth_max=2, containers_max=5) == "more than 2 levels of nesting"
        assert exceeded_bound(text, depth_max=1, containers_max=4) == "more than 4 objects and arrays"
        assert exceeded_bound(text, values_max=5) == "more than 5 values"
        assert exceeded_bound(text, values_max=6) is None
