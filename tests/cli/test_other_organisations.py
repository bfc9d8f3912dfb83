"""`--org`: commands about what an organisation of a service keeps, with nothing of the command line's own tenant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cli.console import moonpool
from moonpool.features.plans.table import PlanStore
from moonpool.store.paths import journal_path, library_dir, plans_path, tenant_dir
from store.test_plans import CREATE, plan

if TYPE_CHECKING:
    from pathlib import Path

CODE = '"""Say hello."""\ndef run() -> str:\n    return "hello"\n'


def test_what_an_organisation_keeps_is_changed_on_its_own_record(tmp_path: Path) -> None:
    data = tmp_path / "data"
    acme = ("--org", "acme", "--data-dir", data)
    assert moonpool(tmp_path, "keys", "create", "--json", *acme).exit_code == 0
    (tmp_path / "hello.py").write_text(CODE, "utf-8")
    saved = moonpool(tmp_path, "actions", "save", "hello", "--file", "hello.py", *acme)
    assert saved.exit_code == 0, saved.stderr
    PlanStore(plans_path(tenant_dir(data, "acme")), clock=lambda: 1_000.0).put(plan(1, CREATE))
    assert (library_dir(tenant_dir(data, "acme")) / "actions" / "hello.json").exists()
    assert not library_dir(data).exists()
    assert not journal_path(data).exists()
    shown = moonpool(tmp_path, "audit", "show", "--json", *acme).stdout.splitlines()
    kinds = [json.loads(line)["kind"] for line in shown]
    assert kinds[-2:] == ["library_intent", "library"]

    listed = moonpool(tmp_path, "actions", "list", "--json", *acme).stdout
    plans = moonpool(tmp_path, "plans", "list", "--all", "--json", *acme).stdout
    assert plan(1).plan_id.encode() in plans
    own = moonpool(tmp_path, "actions", "list", "--json", "--data-dir", data).stdout
    assert (json.loads(listed)["name"], own) == ("hello", b"")
    for command in (["approvals", "list", "--json"], ["approvals", "rules", "--json"], ["skills", "list", "--json"]):
        done = moonpool(tmp_path, *command, *acme)
        assert (done.exit_code, done.stdout) == (0, b""), done.stderr


@pytest.mark.parametrize("command", [["approvals", "list"], ["actions", "list"]])
def test_an_organisation_that_is_not_there_is_one_clear_error(tmp_path: Path, command: list[str]) -> None:
    done = moonpool(tmp_path, *command, "--org", "nobody", "--data-dir", tmp_path / "data")
    assert done.exit_code == 2
    assert "there is no organisation 'nobody'; `moonpool orgs list` shows all" in done.stderr
    assert not (tmp_path / "data" / "tenants").exists()
