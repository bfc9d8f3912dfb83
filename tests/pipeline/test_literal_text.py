"""Python literals in texts of servers become data; nothing else does, and no text costs more than its length."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.core.literal_text import CHARS_MAX, literal_value

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(_VALUES) | st.dictionaries(st.text(), _VALUES))
def test_what_python_prints_is_read_as_json_would_hold_it(value: Any) -> None:
    """All but control characters that `repr` prints in other ways than JSON, which are read as well."""
    read = literal_value(repr(value))
    assert read == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    "text",
    ["", "x", "'a'", "7", "None", "[1", "[1]]", "{1: 2}", "{'a'}", "[b'x']", "[Decimal('1')]", "[nan]", "[inf]",
     "[1e999]", "['\\ud800']", "[0777]", "[1_0]", "['a' 'b']", "[,]", "[1,,2]", "['\\N{DASH}']", "['\\q']", "['a\nb']",
     "[x]", "[1]x",
     "datetime.date(2026, 1, 1)", "[f'x']", "[*a]", "(" * 5000, "[" * 100_000],
)  # fmt: skip
def test_anything_else_stays_text(text: str) -> None:
    assert literal_value(text) is None


@pytest.mark.parametrize("part", ["'", '"', "\\'", "'\\", "', ", "\", '", ", ", "(", "True", "'\\x41'", "\n'"])
def test_hostile_text_is_read_once(part: str) -> None:
    """Quadratic time would be minutes; the net of this run ends it."""
    literal_value("[" + part * ((CHARS_MAX - 1) // len(part)))
    assert literal_value("[" + "1," * CHARS_MAX + "1]") is None
