"""`moonpool consents`: what it gives, lists and ends, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cli.console import moonpool

if TYPE_CHECKING:
    from pathlib import Path

ALICE = "user:https://login.example.com#alice"


@pytest.mark.req("F-001")
def test_a_consent_is_given_listed_and_withdrawn(tmp_path: Path) -> None:
    servers = {
        "issues": {"url": "https://issues.example.com/mcp"},
        "docs": {"url": "https://docs.example.com/mcp", "oauth": {"grant": "none"}},
        "own": {"url": "https://own.example.com/mcp", "headers": {"authorization": "Bearer x"}},
        "git": {"command": "mcp-server-git"},
    }
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    data = ("--data-dir", str(tmp_path / "data"))
    pair = ("--org", "acme", "--user", ALICE, "--client", "app")
    assert moonpool(tmp_path, "orgs", "create", "acme", *data).exit_code == 0

    given = moonpool(tmp_path, "consents", "give", "issues", *pair, "--config", str(config), *data)
    assert (given.exit_code, f"app may use the login to issues for {ALICE}" in given.stderr) == (0, True)
    listed = json.loads(moonpool(tmp_path, "consents", "list", "--json", *data).stdout)
    assert {name: listed[name] for name in ("org", "user", "client", "server", "withdrawn_at")} == {
        "org": "acme", "user": ALICE, "client": "app", "server": "issues", "withdrawn_at": None,
    }  # fmt: skip
    assert listed["given_by"].startswith("command:")
    assert ALICE in moonpool(tmp_path, "consents", "list", "--org", "acme", *data).stdout.decode()

    for server, told in (
        ("docs", "needs no consent"),
        ("own", "needs no consent"),
        ("git", "needs no consent"),
        ("isues", "there are: issues, docs, own, git"),
    ):
        refused = moonpool(tmp_path, "consents", "give", server, *pair, "--config", str(config), *data)
        assert (refused.exit_code, told in refused.stderr) == (2, True), refused.stderr

    own = ("orgs", "servers", "add", "acme", "crm", "https://crm.example.com/mcp")
    assert moonpool(tmp_path, *own, *data).exit_code == 0
    given = moonpool(tmp_path, "consents", "give", "crm", *pair, *data)
    assert (given.exit_code, f"app may use the login to crm for {ALICE}" in given.stderr) == (0, True), given.stderr
    assert moonpool(tmp_path, "consents", "withdraw", "crm", *pair, *data).exit_code == 0

    withdraw = ("consents", "withdraw", "issues", *pair, *data)
    assert [moonpool(tmp_path, *withdraw).exit_code for _ in range(2)] == [0, 1]
    listed = moonpool(tmp_path, "consents", "list", "--json", *data).stdout.splitlines()
    assert [bool(json.loads(line)["withdrawn_at"]) for line in listed] == [True, True]
