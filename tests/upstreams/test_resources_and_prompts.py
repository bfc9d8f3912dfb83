"""Resources, prompts and completion of a server, reached as calls of reserved tools."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.core.manifest import Manifest
from moonpool.upstreams.base import UpstreamError
from moonpool.wrappers.tree import render_tree
from upstreams.peers import command, upstream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.upstreams import Upstream

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
ALL = "resources,prompts,completions,templates"


@asynccontextmanager
async def library(version: str = "2025-11-25", names: str = ALL, *more: str) -> AsyncGenerator[Upstream]:
    with anyio.fail_after(30):
        async with upstream(command("library.py", version, names, *more)) as srv:
            yield srv


async def data(srv: Upstream, tool: str, /, **arguments: Any) -> Any:
    return (await srv.call_tool(tool, arguments, timeout_s=20))["structuredContent"]


@pytest.mark.req("D-013", "D-019", "D-021", "A-043", "L-001")
@ERAS
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param("", [], id="nothing declared"),
        pytest.param("resources,prompts,completions,empty", [], id="declared, and nothing there"),
        pytest.param("resources", ["mcp:resources/list", "mcp:resources/read"], id="resources"),
        pytest.param("prompts", ["mcp:prompts/list", "mcp:prompts/get"], id="prompts"),
        pytest.param(
            "prompts,completions",
            ["mcp:prompts/list", "mcp:prompts/get", "mcp:completion/complete"],
            id="completion of what there is",
        ),
        pytest.param(
            "resources,empty,templates",
            ["mcp:resources/list", "mcp:resources/read"],
            id="templates alone are something",
        ),
    ],
)
async def test_a_server_has_the_tools_of_what_it_declares(version: str, names: str, expected: list[str]) -> None:
    async with library(version, names) as srv:
        listing = await srv.list_tools()
        assert [tool.name for tool in listing.tools] == ["own", *expected]


async def test_no_tool_of_a_server_may_take_a_reserved_name() -> None:
    async with library(names="") as srv:
        assert any("'mcp:own' was left out" in warning for warning in (await srv.list_tools()).warnings)


@pytest.mark.req("D-013", "D-015", "D-049", "D-050", "D-051", "L-006")
@ERAS
async def test_all_pages_of_resources_come_as_they_are(version: str) -> None:
    async with library(version) as srv:
        listed = await data(srv, "mcp:resources/list")
    assert [one["uri"] for one in listed["resources"]] == [f"weird+x://{name}" for name in "abcde"]
    about = {"audience": ["user"], "priority": 0.5, "lastModified": "2026-11-23T00:00:00Z"}
    assert listed["resources"][0] == {"uri": "weird+x://a", "name": "a", "odd": None, "annotations": about}
    assert listed["resourceTemplates"] == [{"uriTemplate": "weird+x://{name}", "name": "any"}]


async def test_a_server_without_templates_lists_its_resources() -> None:
    async with library(names="resources") as srv:
        assert (await data(srv, "mcp:resources/list"))["resourceTemplates"] == []


@pytest.mark.req("D-020")
async def test_all_pages_of_prompts_are_listed() -> None:
    async with library() as srv:
        assert [one["name"] for one in (await data(srv, "mcp:prompts/list"))["prompts"]] == ["p", "q", "r", "s"]


@pytest.mark.req("D-052", "D-063")
@pytest.mark.parametrize("name", ["mcp:resources/list", "mcp:prompts/list"])
async def test_a_listing_that_repeats_its_cursor_is_cut_off(name: str) -> None:
    async with library("2025-11-25", ALL, "--loop") as srv:
        with pytest.raises(UpstreamError, match="repeats a cursor"):
            await data(srv, name)


@pytest.mark.req("D-016", "C-016")
@ERAS
@pytest.mark.parametrize(
    ("uri", "content"),
    [
        ("weird+x://a", {"mimeType": "text/x-odd", "text": "a"}),
        ("weird+x://binary", {"mimeType": "application/x-odd", "blob": "AP8="}),
    ],
)
async def test_a_resource_is_read(version: str, uri: str, content: dict[str, str]) -> None:
    async with library(version) as srv:
        assert await data(srv, "mcp:resources/read", uri=uri) == {"contents": [{"uri": uri, **content}]}


async def test_what_the_server_does_not_find_is_its_error() -> None:
    async with library() as srv:
        with pytest.raises(UpstreamError, match="Resource not found: weird") as caught:
            await data(srv, "mcp:resources/read", uri="weird+x://gone")
    assert "Resource not found" in caught.value.for_guest


@pytest.mark.req("D-019")
@ERAS
async def test_a_prompt_is_filled_in(version: str) -> None:
    async with library(version) as srv:
        got = await data(srv, "mcp:prompts/get", name="p", arguments={"topic": "x"})
    text = {"type": "text", "text": "p {'topic': 'x'}"}
    assert got == {"description": "d", "messages": [{"role": "user", "content": text}]}


@pytest.mark.req("D-021", "D-022", "G-048")
@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        pytest.param(
            {"prompt": "p", "argument": "b", "value": "x", "known": {"a": "1"}},
            {
                "ref": {"type": "ref/prompt", "name": "p"},
                "argument": {"name": "b", "value": "x"},
                "context": {"arguments": {"a": "1"}},
            },
            id="of a prompt, with what is known",
        ),
        pytest.param(
            {"template": "w://{n}", "argument": "n"},
            {
                "ref": {"type": "ref/resource", "uri": "w://{n}"},
                "argument": {"name": "n", "value": ""},
                "context": None,
            },
            id="of a template",
        ),
    ],
)
async def test_an_argument_is_completed(arguments: dict[str, Any], asked: dict[str, Any]) -> None:
    async with library() as srv:
        completed = await data(srv, "mcp:completion/complete", **arguments)
    assert json.loads(completed.pop("values")[0]) == asked
    assert completed == {"total": 9, "hasMore": True}


@pytest.mark.req("D-022")
@ERAS
async def test_arguments_are_completed_one_after_another_with_what_is_known_by_then(version: str) -> None:
    template, known, asked = "w://{a}/{b}/{c}", dict[str, str](), list[Any]()
    async with library(version) as srv:
        for name in ("a", "b", "c"):
            completed = await data(srv, "mcp:completion/complete", template=template, argument=name, known=dict(known))
            asked.append(json.loads(completed["values"][0]))
            known[name] = f"chosen {name}"
    assert [one["argument"]["name"] for one in asked] == ["a", "b", "c"]
    assert [(one["context"] or {}).get("arguments", {}) for one in asked] == [
        {},
        {"a": "chosen a"},
        {"a": "chosen a", "b": "chosen b"},
    ]


@pytest.mark.parametrize("arguments", [{"argument": "a"}, {"argument": "a", "prompt": "p", "template": "t"}], ids=str)
async def test_a_completion_of_nothing_or_of_two_things_is_refused(arguments: dict[str, str]) -> None:
    async with library() as srv:
        with pytest.raises(UpstreamError, match="give one of them"):
            await data(srv, "mcp:completion/complete", **arguments)


@pytest.mark.req("A-043", "A-044")
@pytest.mark.parametrize("name", ["mcp:resources/read", "mcp:own", "mcp:tools/call"])
async def test_what_was_not_declared_is_never_asked_for(name: str) -> None:
    async with library(names="") as srv:
        with pytest.raises(UpstreamError, match="does not offer"):
            await data(srv, name, uri="x")


@pytest.mark.req("G-048")
@pytest.mark.parametrize("path", ["servers/lib/mcp_resources_read.py", "servers/lib/index.js"])
async def test_code_reaches_them_through_generated_functions(path: str) -> None:
    async with library() as srv:
        listing = await srv.list_tools()
    tree = render_tree(Manifest(servers=(replace(listing, server_id="lib"),)))
    assert "mcp:resources/read" in str(tree.files[path])
