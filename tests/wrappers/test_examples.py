"""Examples of calls: code of the language they are for, whatever a server's schema holds."""

from __future__ import annotations

import ast
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.wrappers.examples import example_call
from moonpool.wrappers.names import name_manifest
from moonpool.wrappers.tree import read_shape

TOOL_LISTS = sorted((Path(__file__).parents[1] / "data" / "toollists").glob("*.json"))


def example(manifest: Manifest, tool: ToolDefinition, language: str) -> str:
    server, names = name_manifest(manifest).find(tool.server_id, tool.name)
    said = example_call(tool, read_shape(tool), server, names, language=language)
    assert said.startswith("Example: ")
    return said.removeprefix("Example: ")


def one(name: str, schema: dict[str, Any]) -> tuple[Manifest, ToolDefinition]:
    tool = ToolDefinition(server_id="s", name=name, raw={"name": name, "inputSchema": schema})
    return Manifest(servers=(ServerListing(server_id="s", tools=(tool,)),)), tool


def in_bash(said: str) -> tuple[str, Any]:
    program, call, name, arguments = shlex.split(said)
    assert (program, call) == ("moonpool", "call")
    return name, json.loads(arguments)


@pytest.mark.parametrize("path", TOOL_LISTS, ids=lambda path: path.stem)
def test_every_published_tool_has_an_example_that_parses_in_each_language(path: Path) -> None:
    listed = json.loads(path.read_text(encoding="utf-8"))
    raws = listed["result"]["tools"] if isinstance(listed, dict) else listed
    tools = tuple(ToolDefinition(server_id=path.stem, name=raw["name"], raw=raw) for raw in raws)
    manifest = Manifest(servers=(ServerListing(server_id=path.stem, tools=tools),))
    for tool in tools:
        ast.parse(f"async def f():\n    {example(manifest, tool, 'python')}")
        name, arguments = in_bash(example(manifest, tool, "bash"))
        assert name == f"{path.stem}.{tool.name}"
        assert set(arguments) <= set(tool.raw["inputSchema"].get("required", ()))
        said = example(manifest, tool, "node")
        assert json.loads(said[said.index("(") + 1 : -1]) == arguments


def test_a_choice_or_a_default_is_the_value_shown() -> None:
    manifest, tool = one(
        "go",
        {
            "properties": {"how": {"enum": ["fast", "slow"]}, "n": {"type": "integer"}, "why": {"type": "string"}},
            "required": ["how", "n"],
        },
    )
    assert example(manifest, tool, "python") == 'await servers.s.go(how="fast", n=1)'


@pytest.mark.parametrize("hostile", ["'; rm -rf / #", '");import os#', "\u202e\x1b[31m$(id)", "`id`", "x" * 5000])
def test_what_a_schema_holds_stays_a_value(hostile: str) -> None:
    manifest, tool = one("go", {"properties": {hostile: {"enum": [hostile]}}, "required": [hostile]})
    said = example(manifest, tool, "python")
    (statement,) = ast.parse(f"async def f():\n    {said}").body[0].body  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Await)
    name, arguments = in_bash(example(manifest, tool, "bash"))
    assert (name, list(arguments)) == ("s.go", [hostile])
