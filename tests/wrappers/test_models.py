"""`Model` keeps what it was given: aliases, explicit None, extras, nested models."""

from __future__ import annotations

import copy
import json
import pickle
from enum import StrEnum
from typing import Any, Literal

import pytest
from client.models import Model, alias, to_wire
from client.results import ToolCallResult


class Colour(StrEnum):
    red = "red"


class Page(Model):
    kind: Literal["page"]
    page_id: str


class Database(Model):
    kind: Literal["db"]
    page_id: str


class Node(Model):
    name: str
    children: list[Node] | None = None


class Params(Model):
    query: str
    from_: str | None = alias("from", default=None)
    a_b: int = alias("a-b")
    limit: int = 30
    tags: list[str] = []  # noqa: RUF012
    target: Page | Database | None = None
    root: Node | None = None
    by_name: dict[str, Node] | None = None
    colour: Colour | str | None = None
    unknown: Missing | None = None  # noqa: F821  # type: ignore[name-defined]


FULL = {"query": "q", "a-b": None, "from": "x", "extra": [1], "target": {"kind": "db", "page_id": "p", "more": 1}}


@pytest.mark.req("H-095", "I-017", "P-027", "P-029")
def test_what_is_sent_is_what_was_given() -> None:
    assert to_wire(Params(FULL)) == FULL
    assert to_wire(Params(query="q", a_b=None, from_="x", extra=[1], target=FULL["target"])) == FULL
    assert to_wire(Params(**FULL)) == FULL
    assert Params.model_validate(FULL).__moonpool_json__() == FULL
    assert to_wire(Params.model_validate(Params(FULL))) == FULL


@pytest.mark.req("I-017", "P-027")
def test_unset_members_read_as_their_default_and_are_not_sent() -> None:
    params = Params(query="q", a_b=1)
    assert (params.limit, params.from_, params.tags) == (30, None, [])
    params.tags.append("lost")
    assert params.tags == []
    assert to_wire(params) == {"query": "q", "a-b": 1}
    assert params.model_fields_set == {"query", "a_b"}


def test_nested_models_are_told_apart_by_their_constants() -> None:
    params = Params(FULL)
    assert type(params.target) is Database
    assert params.target.more == 1
    assert type(Params({**FULL, "target": {"kind": "none"}}).target) is dict
    assert Params({**FULL, "root": {"name": "a", "children": [{"name": "b"}]}}).root.children[0].name == "b"
    assert Params({**FULL, "by_name": {"k": {"name": "a"}}}).by_name["k"].name == "a"
    assert Params({**FULL, "unknown": {"a": 1}}).unknown == {"a": 1}


@pytest.mark.req("I-013")
def test_dump_follows_pydantics_spelling() -> None:
    params = Params(query="q", a_b=1, extra=None, root=Node(name="n"))
    assert params.model_dump(exclude_unset=True) == {"query": "q", "a_b": 1, "extra": None, "root": {"name": "n"}}
    assert params.model_dump(by_alias=True, exclude_unset=True, exclude_none=True) == {
        "query": "q",
        "a-b": 1,
        "root": {"name": "n"},
    }
    assert params.model_dump()["limit"] == 30
    assert json.loads(params.model_dump_json(exclude_unset=True))["a_b"] == 1
    assert Params({**FULL, "by_name": {"k": {"name": "a"}}, "tags": ["t"]}).model_dump(exclude_unset=True)[
        "by_name"
    ] == {"k": {"name": "a"}}
    assert params.model_extra == {"extra": None}


def test_members_can_be_changed_and_copied() -> None:
    params = Params(query="q", a_b=1)
    twin = params.model_copy(update={"a_b": 2, "root": {"name": "n"}})
    assert to_wire(twin) == {"query": "q", "a-b": 2, "root": {"name": "n"}}
    assert to_wire(params) == {"query": "q", "a-b": 1}
    assert params.model_copy(deep=True) == params == copy.copy(params) == copy.deepcopy(params)
    assert pickle.loads(pickle.dumps(params)) == params  # noqa: S301
    assert params != twin
    assert params != {"query": "q"}


def test_models_read_like_dicts_too() -> None:
    params = Params(FULL)
    assert params["from"] == "x"
    assert "from" in params
    assert "limit" not in params
    assert [name for name, _ in params][:2] == ["query", "a-b"]
    assert "limit" in dir(params)
    assert repr(Page(kind="page", page_id="p")) == "Page(kind='page', page_id='p')"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: Params(query="q"), r"lacks 'a-b'; known: query\*, from_, a_b\*", id="a missing member"),
        pytest.param(lambda: Params({"query": "q", "a-b": 1}, a_b=2), "got 'a-b' twice", id="a member given twice"),
        pytest.param(lambda: Params({}, {}), "one dict or keywords", id="two dicts"),
        pytest.param(lambda: Params.model_validate([]), "not from list", id="no dict"),
    ],
)
def test_wrong_construction_is_explained(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_reading_a_member_that_is_not_there_says_what_is() -> None:
    with pytest.raises(AttributeError, match="has no 'nope'; it has kind, page_id"):
        _ = Page(kind="page", page_id="p").nope
    with pytest.raises(AttributeError):
        _ = Page.__new__(Page).anything


def test_only_known_kinds_become_plain() -> None:
    class Foreign:
        def model_dump(self, **options: Any) -> dict[str, Any]:
            return {"options": options}

    marker = object()
    result = ToolCallResult({"ok": True, "data_from": "structured", "raw": {"structuredContent": {"a": 1}}})
    assert to_wire([Colour.red, (1, 2), result, marker, {"m": Node(name="n")}]) == [
        "red",
        [1, 2],
        {"a": 1},
        marker,
        {"m": {"name": "n"}},
    ]
    assert to_wire(Foreign())["options"] == {"mode": "json", "by_alias": True, "exclude_unset": True}
