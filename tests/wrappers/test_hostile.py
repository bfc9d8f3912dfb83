"""Names, descriptions, enum members and defaults of a hostile server stay text in generated code."""

from __future__ import annotations

import ast
import re
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from moonpool.core.manifest import Manifest, ServerListing
from moonpool.wrappers.tree import render_tree
from wrappers.regenerate import CASES, load_case
from wrappers.roundtrip import make_listing
from wrappers.strategies import hostile_texts

_CALLS = {
    "TypedDict", "alias", "call_tool", "call_tool_sync", "extension", "open_server", "open_servers", "pack", "run_tool",
    "run_tool_sync",
}  # fmt: skip
_STATEMENTS = (
    ast.AnnAssign, ast.Assign, ast.AsyncFunctionDef, ast.ClassDef, ast.Delete, ast.Expr, ast.FunctionDef,
    ast.ImportFrom, ast.Return,
)  # fmt: skip


def assert_harmless(source: bytes) -> None:
    """Generated code consists of declarations and of calls to the client, and imports nothing else."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            assert isinstance(node, _STATEMENTS), ast.dump(node)
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name), ast.dump(node)
            assert node.func.id in _CALLS
        if isinstance(node, ast.ImportFrom):
            assert node.module in {"__future__", "typing", "enum", "client.mcp_client", "client.packages"}


@pytest.mark.req("H-006")
@pytest.mark.parametrize("case", CASES)
def test_golden_trees_are_harmless(case: str) -> None:
    for path, content in render_tree(load_case(case)).files.items():
        if path.endswith(".py"):
            assert_harmless(content)


@pytest.mark.req("H-070")
def test_a_picture_in_a_description_is_left_out() -> None:
    picture = "data:image/png;base64," + "QUJD" * 40
    tool = {"name": "t", "description": f"Shows {picture} as its icon.", "icons": [{"src": picture}]}
    files = render_tree(Manifest(servers=(make_listing("s", [tool]),))).files
    assert not any(b"QUJDQUJD" in content for content in files.values())


@pytest.mark.req("F-013", "F-018", "P-031")
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(text=hostile_texts, name=hostile_texts, value=hostile_texts)
def test_no_text_becomes_code(text: str, name: str, value: str) -> None:
    member = {"type": "string", "description": text, "default": value, "enum": [value, name], "pattern": text}
    inner = {"type": "object", "title": text, "description": text, "properties": {name: member, "n": {"const": value}}}
    schema = {"type": "object", "properties": {name: member, "inner": inner}, "required": [name, text]}
    definition: dict[str, Any] = {"name": name, "title": text, "description": text, "inputSchema": schema}
    listing = make_listing(value, [{**definition, "outputSchema": inner}], title=text)
    files = render_tree(Manifest(servers=(listing,))).files
    for path, content in files.items():
        if path.endswith(".py"):
            assert_harmless(content)
            tree = ast.parse(content)
            names = [kw.value.value for kw in ast.walk(tree) if isinstance(kw, ast.keyword) and kw.arg == "name"]
            assert set(names) <= {name}


PATHS = [
    "../../x",
    "/etc/x",
    "..",
    ".",
    "a\\b",
    "C:\\x",
    "CON",
    "a",
    "A",
    "a/b",
    "a\0b",
    "\uff0e\uff0e/x",
    "~",
    "__init__",
]


@pytest.mark.req("F-019")
def test_no_name_leads_a_file_out_of_its_tree_or_over_another() -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in PATHS]
    servers: list[ServerListing] = [make_listing(name, tools) for name in PATHS]
    paths = [*render_tree(Manifest(servers=tuple(servers))).files]
    assert [path for path in paths if not re.fullmatch(r"[A-Za-z0-9_./-]+", path)] == []
    assert [path for path in paths if path.startswith("/") or ".." in PurePosixPath(path).parts] == []
    assert len({path.lower() for path in paths}) == len(paths)
    assert sum(path.startswith("servers/") and path.count("/") == 2 for path in paths) > len(PATHS) ** 2
