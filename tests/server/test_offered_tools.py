"""What is true of every tool that a profile offers, and of every form that a person is asked by."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import moonpool
from installs import ROOT
from moonpool.ipybox.mcp_server.definitions import OFFER as IPYBOX
from moonpool.server.mcp.answers import ENVELOPE_KEY
from moonpool.server.mcp.approver import FORM
from moonpool.server.mcp.tool_set import offer_of
from tables import every_row

OFFERED: dict[str, dict[str, Any]] = {
    f"{profile}.{tool['name']}": dict(tool)
    for profile, offer in {
        "code": offer_of("tools", "base"),
        "code alone": offer_of("code", "base"),
        "ipybox": IPYBOX,
    }.items()
    for tool in offer.tools
}
SOURCE = Path(moonpool.__file__).parent
STANDARD = {"-32700", "-32600", "-32601", "-32602", "-32603"}
OF_THE_SPEC = {"-32002", "-32021", "-32042"}
"""Resource not found; a capability that the request does not declare; a URL to open (2025-11-25)."""
RANGES = {"-32019", "-32768"}
"""Where the codes that the protocol leaves to servers, and its own, begin."""


@pytest.mark.req("C-007", "L-008", "L-009", "L-010")
@every_row("path", OFFERED)
def test_a_tool_is_named_described_and_typed(path: str) -> None:
    tool = OFFERED[path]
    schema = tool["inputSchema"]
    validator = jsonschema_rs.validator_for(schema)  # the default dialect is 2020-12

    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", tool["name"])
    assert len(tool["description"]) >= 30
    assert "$schema" not in schema
    assert jsonschema_rs.meta.is_valid({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert set(schema.get("required", [])) <= set(schema["properties"])
    assert not validator.is_valid({"no": "such argument"})
    assert validator.is_valid({}) is not bool(schema.get("required"))


@pytest.mark.req("C-007")
@every_row("name", [path.removeprefix("code.") for path in OFFERED if path.startswith("code.")])
def test_arguments_and_what_comes_back_are_described_on_a_page(name: str) -> None:
    page = (ROOT / "docs/reference/mcp-face.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
    _, arguments, returns = row.strip("|").split("|")

    assert set(OFFERED[f"code.{name}"]["inputSchema"]["properties"]) == set(re.findall(r"`(\w+)`", arguments)) - {
        "stub", "typescript", "json",
    }  # fmt: skip
    assert len(returns) > 20


@pytest.mark.req("C-010")
@every_row("path", OFFERED)
def test_a_tool_claims_to_read_only_if_it_runs_nothing(path: str) -> None:
    """Whatever runs code or changes the session keeps the cautious defaults of the spec."""
    annotations = OFFERED[path].get("annotations", {})

    assert annotations == ({"readOnlyHint": True} if path in {"code.search_tools", "code.get_tool_definition"} else {})


@pytest.mark.req("C-072", "C-073")
def test_a_person_is_asked_for_a_yes_and_for_no_text() -> None:
    assert FORM["type"] == "object"
    assert {kind["type"] for kind in FORM["properties"].values()} == {"boolean"}  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue, reportArgumentType]


@pytest.mark.req("A-018")
def test_error_codes_are_those_of_the_specification() -> None:
    found = {
        code
        for path in SOURCE.rglob("*.py")
        for code in re.findall(r"-32\d{3}\b", path.read_text(encoding="utf-8"))
        if path.name != "seccomp.py"
    }

    assert found <= STANDARD | OF_THE_SPEC | RANGES


@pytest.mark.req("L-005")
def test_members_of_meta_are_ours_by_their_prefix() -> None:
    prefix, slash, name = ENVELOPE_KEY.partition("/")

    assert slash
    assert re.fullmatch(r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)*", prefix)
    assert prefix.split(".")[-1] not in {"mcp", "modelcontextprotocol"}
    assert re.fullmatch(r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?", name)
