"""Definitions and results as clients of each revision get them: verbatim, without what it does not have."""

from __future__ import annotations

from typing import Any

import pytest

from moonpool.server.mcp.direct.content import linked, messages, resource_contents, tool_result
from moonpool.server.mcp.direct.shown import shown_prompt, shown_resource, shown_template, shown_tool

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
TOOL: dict[str, Any] = {
    "name": "draw",
    "title": "Draw",
    "description": "Draws.",
    "inputSchema": {"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "number"}}},
    "outputSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
    "annotations": {"readOnlyHint": True, "vendorHint": 3},
    "icons": [{"src": "https://x.example/i.png"}, {"src": "javascript:alert(1)"}],
    "execution": {"taskSupport": "required"},
    "_meta": {"ui": {"resourceUri": "ui://x"}},
    "vendor": {"kept": [1, None]},
}
SOUND = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "w://a", "name": "a", "size": 3}


@pytest.mark.req("A-041", "C-004", "L-004", "L-013")
@pytest.mark.parametrize(
    ("revision", "members"),
    list(
        zip(
            REVISIONS,
            [
                "description inputSchema name vendor",
                "annotations description inputSchema name vendor",
                "_meta annotations description inputSchema name outputSchema title vendor",
                "_meta annotations description icons inputSchema name outputSchema title vendor",
                "_meta annotations description icons inputSchema name outputSchema title vendor",
            ],
            strict=True,
        )
    ),
)
def test_a_tool_has_the_members_of_its_revision(revision: str, members: str) -> None:
    shown = shown_tool(TOOL, "a_draw", revision)

    assert sorted(shown) == members.split()
    assert (shown["name"], shown["inputSchema"], shown["vendor"]) == ("a_draw", TOOL["inputSchema"], TOOL["vendor"])


def test_members_of_a_tool_are_the_servers_own() -> None:
    shown = shown_tool(TOOL, "draw", "2026-07-28")

    assert shown["annotations"] == TOOL["annotations"]
    assert shown["icons"] == TOOL["icons"][:1]


@pytest.mark.req("D-063")
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, {"type": "object"}),
        (True, {"type": "object"}),
        ("text", {"type": "object"}),
        ({"type": ["object", "null"]}, {"type": "object"}),
        ({"properties": {}}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": [], "required": [1]}, {"type": "object"}),
        ({"type": "object", "properties": {"a": True}}, {"type": "object"}),
    ],
)
def test_a_broken_schema_costs_no_other_tool(schema: Any, expected: Any) -> None:
    raw = {"inputSchema": schema, "title": 3, "description": [], "annotations": "x", "icons": "x", "_meta": 1}

    assert shown_tool(raw, "x", "2026-07-28") == {"name": "x", "inputSchema": expected}


def test_an_output_schema_that_is_no_object_is_for_the_newest_revision_only() -> None:
    raw = {"outputSchema": {"type": "array"}}

    assert "outputSchema" not in shown_tool(raw, "x", "2025-11-25")
    assert shown_tool(raw, "x", "2026-07-28")["outputSchema"] == {"type": "array"}


def test_hints_of_another_shape_are_left_out() -> None:
    raw = {"annotations": {"readOnlyHint": "yes", "title": 1, "idempotentHint": True}}

    assert shown_tool(raw, "x", "2025-11-25")["annotations"] == {"idempotentHint": True}


@pytest.mark.parametrize("raw", [{}, {"uri": ""}, {"uri": 3}, {"uri": "x" * 5000}])
def test_a_resource_needs_an_address(raw: Any) -> None:
    assert shown_resource(raw, "2025-11-25") is None
    assert shown_template({"uriTemplate": raw.get("uri")}, "2025-11-25") is None


@pytest.mark.req("L-004", "L-013")
@pytest.mark.parametrize("revision", REVISIONS)
def test_titles_and_icons_of_resources_and_prompts_are_for_revisions_that_have_them(revision: str) -> None:
    extra = {"title": "T", "icons": TOOL["icons"]}
    argument = {"name": "a", "title": "A"}
    shown: list[Any] = [
        shown_resource({"uri": "w://a", **extra}, revision),
        shown_template({"uriTemplate": "w://{a}", **extra}, revision),
        shown_prompt({"name": "p", "arguments": [argument], **extra}, "p", revision),
    ]

    assert ["title" in one for one in shown] == [revision >= "2025-06-18"] * 3
    assert [one.get("icons") for one in shown] == [TOOL["icons"][:1] if revision >= "2025-11-25" else None] * 3
    assert ("title" in shown[2]["arguments"][0]) == (revision >= "2025-06-18")


def test_resources_templates_and_prompts_keep_what_is_right() -> None:
    resource = {"uri": "w://a", "size": "3", "mimeType": 1, "annotations": {"priority": 2}, "x": 1}
    prompt = {"name": "p", "arguments": [{"name": "a", "required": "yes"}, {"title": "nameless"}, 3]}

    assert shown_resource(resource, "2025-11-25") == {"uri": "w://a", "name": "w://a", "x": 1}
    assert shown_template({"uriTemplate": "w://{a}", "name": "n"}, "2025-11-25") == {
        "uriTemplate": "w://{a}",
        "name": "n",
    }
    assert shown_prompt(prompt, "s_p", "2025-11-25") == {"name": "s_p", "arguments": [{"name": "a"}]}


@pytest.mark.req("A-041", "C-013")
@pytest.mark.parametrize("revision", REVISIONS)
def test_content_is_of_kinds_that_the_revision_has(revision: str) -> None:
    kinds = [block["type"] for block in tool_result({"content": [SOUND, LINK]}, revision)["content"]]

    assert kinds == [
        "audio" if revision >= "2025-03-26" else "resource",
        "resource_link" if revision >= "2025-06-18" else "text",
    ]


@pytest.mark.req("C-013", "C-014", "C-048")
def test_known_content_is_the_servers_own() -> None:
    blocks = [
        {"type": "text", "text": "a", "vendor": 1, "annotations": {"priority": 0.5}},
        {"type": "image", "data": "aa==", "mimeType": "image/png", "_meta": {"a": 1}},
        {"type": "resource", "resource": {"uri": "w://a", "blob": "aa==", "_meta": {}}},
        SOUND,
        LINK,
    ]

    assert tool_result({"content": blocks, "vendor": {"a": None}}, "2025-11-25") == {
        "content": blocks,
        "isError": False,
        "vendor": {"a": None},
    }


@pytest.mark.req("C-048", "D-063")
@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": 3},
        {"type": "image", "data": "x"},
        {"type": "resource", "resource": {"uri": "w://a"}},
        {"type": "resource", "resource": {"uri": "w://a", "text": "a", "blob": "b"}},
        {"type": "hologram", "data": "x"},
        {"type": 3},
        {},
    ],
)
def test_content_of_another_shape_becomes_text(block: Any) -> None:
    (shown,) = tool_result({"content": [block]}, "2026-07-28")["content"]

    assert (shown["type"], type(shown["text"])) == ("text", str)


def test_odd_members_of_content_do_not_spoil_it() -> None:
    block = {"type": "text", "text": "a", "annotations": {"audience": ["world"]}, "_meta": "x"}

    assert tool_result({"content": [block]}, "2025-11-25")["content"] == [{"type": "text", "text": "a"}]


@pytest.mark.parametrize(
    ("structured", "revision", "kept"),
    [
        ({"a": 1}, "2025-03-26", False),
        ({"a": 1}, "2025-06-18", True),
        ([1], "2025-11-25", False),
        ([1], "2026-07-28", True),
        (None, "2026-07-28", False),
    ],
)
def test_structured_content_by_revision(structured: Any, revision: str, kept: bool) -> None:
    shown = tool_result({"content": [], "structuredContent": structured}, revision)

    assert ("structuredContent" in shown) is kept
    assert bool(shown["content"]) is (structured is not None and not kept)


def test_what_belongs_to_the_exchange_is_not_the_servers_to_say() -> None:
    raw = {"content": [], "resultType": "task", "ttlMs": 1, "inputRequests": {}, "isError": "no",
           "_meta": {"io.modelcontextprotocol/serverInfo": {}, "mine": 1}}  # fmt: skip

    assert tool_result(raw, "2026-07-28") == {"content": [], "isError": True, "_meta": {"mine": 1}}


@pytest.mark.req("C-047", "C-048", "C-051")
def test_messages_of_prompts() -> None:
    raw = {"description": 3, "messages": [{"role": "user", "content": SOUND}, {"role": "system", "content": SOUND}, 3]}

    assert messages(raw, "2025-11-25") == {"messages": [{"role": "user", "content": SOUND}]}
    assert messages({}, "2025-11-25") == {"messages": []}


def test_contents_of_resources() -> None:
    good = {"uri": "w://a", "text": "x", "mimeType": "text/plain"}

    assert resource_contents({"contents": [good, {"uri": "w://a"}, {"text": "x"}, 3]}) == [good]
    assert resource_contents({}) == []


def test_addresses_that_a_result_names() -> None:
    content = [LINK, {"type": "resource", "resource": {"uri": "w://b"}}, {"type": "text", "text": "w://c"}, 3]

    assert linked({"content": content}) == ["w://a", "w://b"]
    assert linked({"content": "w://a"}) == []
