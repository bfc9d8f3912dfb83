"""Names, modules, parameters and defaults are those of ipybox 0.9.2 and mcpygen 0.1.4.

`public_names.txt` was taken from their sources. Left out are ipybox's own MCP server, its addresses and endpoints, and
the functions that write source text.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import moonpool.ipybox
from moonpool.ipybox.vars import replace_variables
from tables import every_row

NAMES = Path(__file__).with_name("public_names.txt").read_text(encoding="utf-8").splitlines()
OF_0_7 = ("mcp_apigen generate_mcp_sources", "mcp_client MCPClient", "vars replace_variables", "utils arun")


def parameters(of: Any) -> str:
    """As the list has them."""
    shown: list[str] = []
    for one in inspect.signature(of).parameters.values():
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        if one.name != "self":
            shown.append(f"{star}{one.name}" + ("" if one.default is one.empty else f"={one.default!r}"))
    return f"({', '.join(shown)})"


@pytest.mark.req("I-002", "I-004", "I-009", "I-027", "I-053", "I-057", "I-062", "I-068", "I-069")
@every_row("line", NAMES)
def test_it_is_here(line: str) -> None:
    module, _, rest = line.partition(" ")
    name, bracket, given = rest.partition("(")
    found: Any = import_module("moonpool." + module.replace("mcpygen", "ipybox"))
    for part in name.split("."):
        found = getattr(found, part)
    if bracket:
        assert parameters(found) == f"({given}"


@every_row("line", OF_0_7)
def test_it_is_where_ipybox_0_7_had_it(line: str) -> None:
    module, _, name = line.partition(" ")
    assert getattr(import_module(f"moonpool.ipybox.{module}"), name)


def test_the_package_exports_what_both_packages_do() -> None:
    theirs = {line.split()[1] for line in NAMES if line.split()[0] in {"ipybox", "mcpygen"}}
    lower = {"ApprovalChannel", "ExecutionError", "ExecutionResult", "KernelClient", "KernelGateway"}
    assert set(moonpool.ipybox.__all__) == theirs | lower


def test_variables_are_filled_in() -> None:
    given = {"a": "${X}/${Y}", "b": [{"c": "${X}"}], "d": 1}
    made = replace_variables(given, {"X": "1"})
    assert made.replaced == {"a": "1/${Y}", "b": [{"c": "1"}], "d": 1}
    assert (made.replaced_variables, made.missing_variables, made.total_variables) == ({"X"}, {"Y"}, 2)
