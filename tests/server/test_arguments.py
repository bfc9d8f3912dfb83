"""Arguments of our own tools that no record could hold are refused by name, before anything runs."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moonpool.core.errors import InputError
from moonpool.server.mcp.arguments import read_arguments
from moonpool.server.mcp.definitions import DEFINITIONS
from moonpool.server.mcp.messages import parse_line
from tables import every_row


@pytest.mark.req("C-024")
@every_row(
    ("tool", "arguments", "said"),
    [
        ("execute_code", {"code": "1", "session": "\ud800"}, "session holds half a surrogate pair"),
        ("execute_code", {"code": "'\udfff'"}, "the code holds half a surrogate pair"),
        ("execute_code", {"code": "1", "plan": "\ud800"}, "plan holds half a surrogate pair"),
        ("execute_code", {"code": "1", "timeout_s": float("inf")}, "timeout_s"),
        ("search_tools", {"queries": ["a", "\ud800"]}, "queries holds half a surrogate pair"),
    ],
)
def test_what_no_record_could_hold_is_refused_by_name(tool: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_arguments(tool, arguments)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.req("C-024")
@pytest.mark.parametrize("tool", DEFINITIONS)
def test_whatever_a_tool_is_given_is_a_request_or_a_refusal(tool: str) -> None:
    properties: Any = DEFINITIONS[tool].input_schema["properties"]

    @settings(max_examples=60)
    @given(st.dictionaries(st.sampled_from([*properties, "nobody_knows"]), VALUES))
    def read(arguments: dict[str, Any]) -> None:
        with suppress(InputError):
            read_arguments(tool, arguments)

    read()


def test_a_number_out_of_range_is_refused_where_the_line_is_read() -> None:
    """It could not be written again, in an answer or a notice of progress."""
    with pytest.raises(ValueError, match="1e999 is out of range"):
        parse_line(b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": {"progressToken": 1e999}}}')
    with pytest.raises(ValueError, match="more than 500000 values"):
        parse_line(b"[" + b"1," * 500_000 + b"1]")


@pytest.mark.req("X-02")
def test_one_query_or_path_may_be_given_as_what_it_is() -> None:
    for one in ({"query": "list issues"}, {"query": ["list issues"]}, {"queries": "list issues"}):
        assert read_arguments("search_tools", one) == read_arguments("search_tools", {"queries": ["list issues"]})
    assert read_arguments("get_tool_definition", {"path": "a.b"}) == read_arguments(
        "get_tool_definition", {"paths": ["a.b"]}
    )
    with pytest.raises(InputError, match="query"):
        read_arguments("search_tools", {"query": "a", "queries": ["b"]})
