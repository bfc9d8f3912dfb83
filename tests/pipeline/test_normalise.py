"""Where the data of a CallToolResult lies."""

from __future__ import annotations

from typing import Any

import pytest

from moonpool.pipeline.normalisation import read_result
from tables import every_row


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


@every_row(
    ("raw", "data_from"),
    [
        pytest.param({"content": [text("x")], "structuredContent": {"a": 1}}, "structured", id="structured wins"),
        pytest.param({"content": [text("x")], "structuredContent": {}}, "structured", id="an empty object is data"),
        pytest.param({"content": [], "structuredContent": 0}, "structured", id="zero is data"),
        pytest.param({"structuredContent": {"a": 1}}, "structured", id="structured without content"),
        pytest.param({"content": [text("x")], "structuredContent": None}, "text", id="null is absent"),
        pytest.param({"content": [text(' {"a": 1}')]}, "json_text", id="JSON object in a text"),
        pytest.param({"content": [text("[1]")]}, "json_text", id="JSON array in a text"),
        pytest.param({"content": [text("1")]}, "text", id="a number stays text"),
        pytest.param({"content": [text('{"a": NaN}')]}, "text", id="NaN is not JSON"),
        pytest.param({"content": [text("[" * 100_000)]}, "text", id="bottomless"),
        pytest.param({"content": [text("{}"), text("{}")]}, "text", id="two texts"),
        pytest.param({"content": []}, "text", id="nothing"),
        pytest.param({"content": [text("x"), {"type": "image", "data": ""}]}, "content", id="an image"),
        pytest.param({"content": [{"type": "text"}]}, "content", id="a text block without text"),
        pytest.param({"content": ["x"]}, "content", id="not even blocks"),
        pytest.param({"content": [text("x")], "isError": False}, "text", id="explicitly fine"),
    ],
)
@pytest.mark.req("H-042", "H-076", "D-012")
def test_data_is_read_from(raw: dict[str, Any], data_from: str) -> None:
    reading = read_result("s", "t", raw)
    assert (reading.error, reading.data_from) == (None, data_from)


@pytest.mark.parametrize(
    ("raw", "kind", "message"),
    [
        pytest.param({"isError": True, "content": [text("no"), text("way")]}, "ToolError", "no\nway", id="texts"),
        pytest.param(
            {"isError": True, "content": [text("no"), {"type": "image"}]}, "ToolError", "no", id="text beside an image"
        ),
        pytest.param(
            {"isError": True, "content": [], "structuredContent": {"a": 1}}, "ToolError", '{"a":1}', id="structured"
        ),
        pytest.param(
            {"isError": [1]}, "ToolError", "tool s.t reported an error without a message", id="an odd isError, no words"
        ),
        pytest.param(
            {}, "UpstreamError",
            "server 's' answered 't' with a result that has no list of content blocks", id="nothing",
        ),
        pytest.param(
            {"content": "x"}, "UpstreamError",
            "server 's' answered 't' with a result that has no list of content blocks", id="content is a string",
        ),
    ],
)  # fmt: skip
@pytest.mark.req("H-041")
def test_a_failure_is_read_as(raw: dict[str, Any], kind: str, message: str) -> None:
    error = read_result("s", "t", raw).error
    assert error is not None
    assert (error.type, error.message, error.retryable) == (kind, message, False)


def test_a_long_error_text_is_bounded() -> None:
    error = read_result("s", "t", {"isError": True, "content": [text("x" * 100_000)]}).error
    assert error is not None
    assert len(error.message) <= 8000
