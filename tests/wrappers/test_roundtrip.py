"""The arguments on the wire equal the arguments given: real servers, golden horrors, and schemas nobody thought of."""

from __future__ import annotations

import asyncio
import sys
import types
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moonpool.core.manifest import Manifest
from moonpool.wrappers.tree import render_tree
from wrappers.guest_calls import FORMS
from wrappers.regenerate import CASES, load_case
from wrappers.roundtrip import load_real_manifest, make_cases, make_listing, run_in_guest, write_tree
from wrappers.strategies import object_schemas, values

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.wrappers.tree import WrapperTree
    from wrappers.conftest import Bridge

_ROUND_TRIPS = ["real servers", *CASES]


@cache
def manifest_of(source: str) -> Manifest:
    return load_real_manifest() if source == "real servers" else load_case(source)


@cache
def tree_of(source: str) -> WrapperTree:
    return render_tree(manifest_of(source))


@pytest.mark.req(
    "H-012",
    "H-014",
    "H-016",
    "H-017",
    "H-037",
    "H-039",
    "H-040",
    "H-075",
    "H-089",
    "H-095",
    "P-024",
    "P-025",
    "P-026",
    "P-027",
    "P-028",
    "P-029",
    "P-030",
)
@pytest.mark.parametrize("source", _ROUND_TRIPS)
def test_every_tool_is_called_with_the_arguments_given(source: str, tmp_path: Path) -> None:
    tree = tree_of(source)
    cases = make_cases(tree, manifest_of(source))
    received = run_in_guest(write_tree(tree, tmp_path), cases)
    assert received == [[case["server_id"], case["tool"], case["arguments"]] for case in cases for _ in FORMS]


def test_the_recorded_lists_hold_the_tools_they_should() -> None:
    assert len(list(manifest_of("real servers").tools())) == 241


def test_real_schemas_give_no_warnings() -> None:
    assert tree_of("real servers").warnings == ()


@pytest.mark.req("H-006", "H-039", "H-095")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(schema=object_schemas, data=st.data())
def test_any_schema_and_any_arguments_round_trip(schema: Any, data: st.DataObject, bridge: Bridge) -> None:
    required = schema["required"]
    optional = {name: values for name in schema["properties"] if name not in required}
    named = st.fixed_dictionaries(dict.fromkeys(required, values), optional=optional)
    arguments = {**data.draw(st.dictionaries(st.text(max_size=5), values, max_size=2)), **data.draw(named)}
    function, sync, tool = _load_one(schema)
    identifiers = {wire_name: name for name, wire_name in tool.Params.__wire_names__.items()}
    keywords = {identifiers.get(name, name): value for name, value in arguments.items()}
    keywords_are_clear = len(keywords) == len(arguments)  # an extra may be called like another parameter's identifier
    bridge.calls.clear()

    async def call_every_form() -> None:
        await function(arguments)
        sync(arguments)
        tool.run(arguments)
        tool.run(tool.Params(arguments))
        await function(tool.Params(arguments))
        if keywords_are_clear and not identifiers.keys() & keywords.keys() - arguments.keys():
            await function(**keywords)
            await tool.run_async(tool.Params(**keywords))

    asyncio.run(call_every_form())  # a loop per example: hypothesis ends examples by exceptions that no runner survives
    for call in bridge.calls:
        assert repr(call) == repr(("s", "t", call[2]))
        assert _exact(call[2]) == _exact(arguments)


def _exact(value: Any) -> str:
    """A form in which True, 1 and 1.0 differ and the order of an object's members does not matter."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{name!r}:{_exact(item)}" for name, item in value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_exact, value)) + "]"
    return repr(value)


def _load_one(schema: Any) -> tuple[Any, Any, Any]:
    """Execute the two generated modules of one tool; models read their types from `sys.modules`."""
    tree = render_tree(Manifest(servers=(make_listing("s", [{"name": "t", "inputSchema": schema}]),)))
    loaded: list[types.ModuleType] = []
    for path in ("servers/s/t.py", "mcptools/s/t.py"):
        module = types.ModuleType(path.removesuffix(".py").replace("/", "_generated_"))
        sys.modules[module.__name__] = module
        exec(compile(tree.files[path], path, "exec"), module.__dict__)  # noqa: S102
        loaded.append(module)
    return loaded[0].t, loaded[0].t_sync, loaded[1]
