"""One result object for every seed's way of reading (decision 0039); a failure never passes for data."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from client.errors import PolicyDenied, Timeout, ToolCallError, ToolError
from client.results import ToolCallResult

from tables import every_row


def structured(data: Any, **raw: Any) -> ToolCallResult[Any]:
    return ToolCallResult(
        {"ok": True, "data_from": "structured", "raw": {"structuredContent": data, "content": [], **raw}}
    )


def text(data_from: str, *texts: str) -> ToolCallResult[Any]:
    blocks = [{"type": "text", "text": each} for each in texts]
    return ToolCallResult({"ok": True, "data_from": data_from, "raw": {"content": blocks}})


def failed(kind: str = "ToolError", **members: Any) -> ToolCallResult[Any]:
    error = {"type": kind, "message": "no such sheet", "retryable": kind == "Timeout"}
    return ToolCallResult({"ok": False, "error": error, **members}, "sheets.get_all_rows")


@pytest.mark.req("H-042", "X-03")
@pytest.mark.parametrize("data", [{}, [], {"rows": []}, "", 0, False, None], ids=repr)
def test_presence_is_not_truth(data: Any) -> None:
    result = structured(data)
    assert result.ok
    assert result.data == data
    assert bool(result) is bool(data)


@pytest.mark.req("H-044")
def test_a_success_has_the_normalized_shape() -> None:
    result = structured({"a": 1})
    assert (result["ok"], result["data"], result["raw"]["structuredContent"]) == (True, {"a": 1}, {"a": 1})
    assert result.error is None
    assert "error" not in result
    assert all(key in result for key in ("ok", "data", "raw"))


@pytest.mark.req("H-044")
def test_a_failure_has_the_normalized_shape() -> None:
    result = failed(raw={"content": [{"type": "text", "text": "boom"}], "isError": True})
    assert result["ok"] is False
    assert result["error"] == {"type": "ToolError", "message": "no such sheet", "retryable": False}
    assert [key in result for key in ("ok", "error", "raw", "data")] == [True, True, True, False]
    assert (result.isError, result.text, result.structuredContent) == (True, "boom", None)


@every_row("ask", ["ok", "error", "isError"])
def test_what_the_server_said_of_a_failure_is_read_once_it_is_known(ask: str) -> None:
    for result in (failed(raw={"content": [{"type": "text", "text": "boom"}], "isError": True}), failed()):
        assert getattr(result, ask) is not None
        assert (result.text, len(result.content)) == (("boom", 1) if result.raw else ("", 0))
    asked = failed()
    assert asked["ok"] is False
    assert asked["text"] == ""


@pytest.mark.req("H-045")
def test_the_guides_reads_work() -> None:
    rows = text("json_text", '[{"n": 1}, {"n": 2}]')
    assert len(rows) == 2
    assert rows[0] == {"n": 1}
    assert [row["n"] for row in rows] == [1, 2]
    assert {"n": 2} in rows
    assert list(reversed(rows)) == [{"n": 2}, {"n": 1}]
    assert rows == [{"n": 1}, {"n": 2}]
    document = structured({"title": "x"})
    assert document.structuredContent == {"title": "x"}
    assert document.get("title") == "x"
    assert document.get("none", 7) == 7
    assert (list(document.keys()), list(document.values())) == (["title"], ["x"])
    assert dict(document.items()) == {"title": "x"}


THEIRS = dict.fromkeys(
    ("ok", "data", "error", "content", "text", "items", "keys", "values", "get", "raw", "unwrap"), "theirs"
)


@pytest.mark.parametrize("name", ["ok", "data", "error", "content", "text"])
def test_a_member_of_the_data_is_the_datas(name: str) -> None:
    result = structured(THEIRS)
    assert (getattr(result, name), result[name], result.get(name)) == ("theirs", "theirs", "theirs")
    assert name in result
    assert getattr(structured({}), name) != "theirs"


def test_what_is_always_the_calls() -> None:
    result = structured(THEIRS)
    assert result.unwrap() == dict(result) == {**result} == THEIRS
    assert (result.raw or {})["structuredContent"] == result.structuredContent == THEIRS
    assert (result.isError, list(result.keys()), dict(result.items())) == (False, list(THEIRS), THEIRS)
    assert (result["keys"], result["raw"], result["unwrap"]) == ("theirs", "theirs", "theirs")
    assert result.__moonpool_json__() == THEIRS


def test_what_a_server_calls_a_failure_in_its_data_is_none_of_ours() -> None:
    result = structured({"ok": False, "error": "not found"})
    assert (result.ok, result.error, result.isError) == (False, "not found", False)
    assert result.unwrap() == {"ok": False, "error": "not found"}


def test_members_are_attributes() -> None:
    assert structured({"title": 1}).title == 1
    assert structured({"_id": 1})["_id"] == 1


@pytest.mark.req("X-03")
def test_dots_go_on_inside_objects_and_lists() -> None:
    order = structured({"customer": {"name": "Ada", "at": {"zip": 1}}, "lines": [{"price": 2}, {"price": 3}]})
    assert (order.customer.name, order["customer"].at.zip, order.data.customer.at.zip) == ("Ada", 1, 1)
    assert order.unwrap().lines[1].price == 3
    assert [line.price for line in order.lines] == [2, 3]
    rows = structured([{"name": "a", "items": [1], "_id": 7}])
    assert (rows[0].name, [row.name for row in rows], rows[0]["items"], rows[0]["_id"]) == ("a", ["a"], [1], 7)
    assert json.loads(json.dumps(rows.data)) == rows.data == [{"name": "a", "items": [1], "_id": 7}]
    order.customer["name"] = "Mary"
    assert order.customer.name == "Mary"
    with pytest.raises(AttributeError, match="no 'nam'; the data has name, at"):
        _ = order.customer.nam
    for probed in ("_id", "__array__", "_repr_html_"):
        assert not hasattr(rows[0], probed)


def test_a_printed_python_literal_is_data() -> None:
    rows = [{"id": 1, "name": None}]
    raw = {"content": [{"type": "text", "text": repr(rows)}]}
    result = ToolCallResult({"ok": True, "data_from": "literal_text", "data": rows, "raw": raw})
    assert (result.data, result[0]["id"], result.text) == (rows, 1, repr(rows))


def test_text_reads_like_a_string() -> None:
    result = text("text", "one", "two")
    assert result == "one\ntwo"
    assert str(result) == "one\ntwo"
    assert f"{result:>9}" == "  one\ntwo"
    assert f"{result}" == "one\ntwo"
    assert result.splitlines() == ["one", "two"]
    assert "two" in result


def test_content_is_data_where_it_is_more_than_text() -> None:
    blocks = [{"type": "image", "data": "…"}]
    assert ToolCallResult({"ok": True, "data_from": "content", "raw": {"content": blocks}}).data == blocks


def test_data_that_is_no_container_says_so() -> None:
    with pytest.raises(TypeError, match=r"result\.data"):
        len(structured(7))
    with pytest.raises(TypeError, match=r"result\.data"):
        structured([1]).keys()
    assert structured([1]).get("a") is None


def test_unknown_attributes_are_named() -> None:
    with pytest.raises(AttributeError, match="has 'name'; the data has title"):
        _ = structured({"title": 1}).name
    with pytest.raises(AttributeError, match="has 'name'; this tool returned list"):
        _ = structured([]).name
    with pytest.raises(AttributeError, match="_repr_html_"):
        _ = failed()._repr_html_


@pytest.mark.req("H-041")
@every_row(
    "read",
    [
        pytest.param(lambda result: result.data, id="data"),
        pytest.param(lambda result: result["data"], id="data by key"),
        pytest.param(lambda result: result.get("data"), id="data by get"),
        pytest.param(lambda result: result.unwrap(), id="unwrap"),
        pytest.param(len, id="len"),
        pytest.param(list, id="iteration"),
        pytest.param(bool, id="truth"),
        pytest.param(lambda result: result[0], id="index"),
        pytest.param(lambda result: "rows" in result, id="membership"),
        pytest.param(lambda result: result == [], id="comparison"),
        pytest.param(lambda result: result.splitlines(), id="a method of the data"),
        pytest.param(lambda result: result.items(), id="items"),
        pytest.param(lambda result: result.text, id="text of a call that nobody asked about"),
        pytest.param(lambda result: result.content, id="content of a call that nobody asked about"),
        pytest.param(lambda result: result["content"], id="content by key"),
        pytest.param(lambda result: result.get("text", ""), id="text by get"),
        pytest.param(lambda result: result.structuredContent or result.content, id="the guide's sample"),
        pytest.param(lambda result: result.__moonpool_json__(), id="as a result"),
    ],
)
def test_reading_the_data_of_a_failure_raises_the_typed_error(read: Any) -> None:
    with pytest.raises(ToolError, match=r"sheets\.get_all_rows: no such sheet") as caught:
        read(failed())
    assert (caught.value.type, caught.value.message, caught.value.retryable) == ("ToolError", "no such sheet", False)


def test_the_error_says_where_the_call_was_made() -> None:
    with pytest.raises(ToolError, match=r"^sheets\.get_all_rows: no such sheet \(called at line 7\)$") as caught:
        _ = failed(line=7).title
    assert caught.value.line == 7


@pytest.mark.parametrize(
    ("kind", "error"), [("Timeout", Timeout), ("PolicyDenied", PolicyDenied), ("New", ToolCallError)]
)
def test_errors_have_a_class_per_type(kind: str, error: type[ToolCallError]) -> None:
    with pytest.raises(ToolCallError) as caught:
        failed(kind).unwrap()
    assert type(caught.value) is error
    assert caught.value.type == kind
    assert caught.value.retryable is (kind == "Timeout")


def test_a_failure_without_a_reason_is_still_one() -> None:
    assert ToolCallResult({"ok": False}).error == {"type": "Internal", "message": "no reason given", "retryable": False}


def test_failures_print_and_compare_without_raising() -> None:
    assert repr(failed()) == str(failed()) == f"{failed()}"
    assert "no such sheet" in repr(failed())
    assert failed() == failed()
    assert (failed() == None) is False  # noqa: E711


def test_results_copy_and_pickle() -> None:
    for result in (structured({"a": [1]}), failed()):
        for twin in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):  # noqa: S301
            assert twin == result
            assert repr(twin) == repr(result)
    with pytest.raises(TypeError, match="unhashable"):
        hash(failed())


def test_errors_pickle() -> None:
    error = Timeout("slow", "Timeout", True, "a.b")
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(twin), str(twin), twin.retryable, twin.tool) == (Timeout, "a.b: slow", True, "a.b")


def test_the_kernels_hook_gives_plain_data() -> None:
    assert json.dumps(structured({"a": 1}).__moonpool_json__()) == '{"a": 1}'
