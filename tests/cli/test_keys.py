"""`moonpool keys`, `orgs` and `db`: what they print, what they refuse, and that they need no service to stop."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest

from cli.console import moonpool
from moonpool.features.keys.service import Keys
from moonpool.store.database.addresses import SqliteAddress
from moonpool.store.database.opening import open_database
from moonpool.store.paths import database_path

if TYPE_CHECKING:
    from pathlib import Path


def created(home: Path, data: Path, *options: str) -> dict[str, str]:
    done = moonpool(home, "keys", "create", "--data-dir", data, "--org", "acme", "--json", *options)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.claim("C-KEY-1")
@pytest.mark.req("J-040")
def test_a_key_is_made_with_its_organisation_and_printed_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = created(tmp_path, data, "--profile", "code")
    assert set(made) == {"id", "key"}
    assert re.fullmatch(r"sk-local-[A-Za-z0-9]{43}", made["key"])

    listed = moonpool(tmp_path, "keys", "list", "--data-dir", data, "--json")
    assert json.loads(listed.stdout) == {
        "id": made["id"],
        "org": "acme",
        "prefix": made["key"][:13],
        "name": "",
        "scopes": ["execute", "files"],
        "profile": "code",
        "limits": {},
        "sandbox": None,
        "thread": None,
        "variables": [],
        "state": "valid",
        "created_at": json.loads(listed.stdout)["created_at"],
        "expires_at": None,
        "revoked_at": None,
        "last_used_at": None,
    }
    everything = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert made["key"].encode() not in everything
    shown = moonpool(tmp_path, "keys", "list", "--data-dir", data).stdout.decode()
    assert "acme" in shown
    assert made["key"] not in shown


@pytest.mark.anyio
async def test_a_service_that_runs_sees_at_once_what_commands_do(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "private").mkdir(parents=True)
    async with open_database(SqliteAddress(database_path(data), is_default=True)) as database:
        keys = Keys(database, monotonic=lambda: 0.0 if not revoked else 1.0)
        revoked: list[str] = []
        made = created(tmp_path, data)
        assert await keys.verify(made["key"])

        assert moonpool(tmp_path, "keys", "revoke", made["id"], "--data-dir", data).exit_code == 0
        revoked.append(made["id"])
        assert await keys.verify(made["key"]) is None
        await keys.close()

    assert moonpool(tmp_path, "keys", "revoke", made["id"], "--data-dir", data).exit_code == 1


def test_without_json_standard_output_is_the_key_alone(tmp_path: Path) -> None:
    done = moonpool(
        tmp_path, "keys", "create", "--org", "acme", "--data-dir", tmp_path / "data", "--scope", "admin", "--expires",
        "90d", "--name", "ci", MOONPOOL_KEY_REGION="eu",
    )  # fmt: skip
    assert re.fullmatch(rb"sk-eu-[A-Za-z0-9]{43}\n", done.stdout)
    assert done.stdout.strip().decode() not in done.stderr
    assert "this is the only time" in done.stderr


def test_organisations_are_made_listed_disabled_and_enabled(tmp_path: Path) -> None:
    def orgs(*arguments: str) -> tuple[int, list[object], str]:
        done = moonpool(tmp_path, "orgs", *arguments, MOONPOOL_DATA_DIR=str(tmp_path / "data"))
        return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    assert orgs("list", "--json")[:2] == (0, [])
    assert orgs("create", "acme", "--name", "Acme, Inc.")[0] == 0
    assert orgs("disable", "acme")[0] == 0
    refused = moonpool(tmp_path, "keys", "create", "--org", "acme", MOONPOOL_DATA_DIR=str(tmp_path / "data"))
    assert refused.sentence == "organisation acme is disabled; `moonpool orgs enable acme` [input_invalid]"
    assert orgs("enable", "acme")[0] == 0
    (found,) = orgs("list", "--json")[1]
    assert isinstance(found, dict)
    assert (found["id"], found["name"], found["disabled_at"]) == ("acme", "Acme, Inc.", None)
    assert "there is an organisation acme already" in orgs("create", "acme")[2]
    second = orgs("create", "zeta")
    assert (second[0], "[one_organisation]" in second[2]) == ((0, False) if os.geteuid() == 0 else (2, True))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(["keys", "create"], "missing option '--org'", id="no organisation"),
        pytest.param(["keys", "create", "--org", "A"], "cannot be the id of an organisation", id="a wrong id"),
        pytest.param(["keys", "create", "--org", "a", "--scope", "root"], "'root' is no scope; choose", id="a scope"),
        pytest.param(["keys", "create", "--org", "a", "--expires", "soon"], "is not a duration", id="a duration"),
        pytest.param(["keys", "create", "--org", "a", "--profile", "../x"], "../x", id="a profile"),
        pytest.param(["keys", "create", "--org", "a", "--name", "\x1b[1m"], "must be one line", id="a name"),
        pytest.param(["keys", "revoke", "none"], "there is no key 'none'", id="an unknown key"),
        pytest.param(["db", "upgrade", "--database-url", "mysql://u:s3cret@h/x"], "is not supported", id="a URL"),
        pytest.param(
            ["keys", "list", "--database-url", "postgresql://u:s3cret@127.0.0.1:1/x"],
            "cannot be reached",
            id="no server",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    done = moonpool(tmp_path, *arguments, MOONPOOL_DATA_DIR=str(tmp_path / "data"))
    assert sentence in done.sentence
    assert "s3cret" not in done.sentence


def test_tables_are_made_once(tmp_path: Path) -> None:
    first, second = (moonpool(tmp_path, "db", "upgrade", "--data-dir", tmp_path / "data").stderr for _ in range(2))
    assert "was brought from version none to" in first
    assert "is up to date" in second


def test_an_organisation_has_servers_of_its_own(tmp_path: Path) -> None:
    data, own = ("--data-dir", tmp_path / "data"), ("orgs", "servers")
    config = tmp_path / "moonpool.json"
    config.write_text('{"mcpServers": {"paths": {"command": "/bin/true"}}}', encoding="utf-8")
    assert moonpool(tmp_path, "orgs", "create", "acme", *data).exit_code == 0
    spec = ("acme", "crm", "https://mcp.example.com/mcp", "--header", "Authorization", "--config", config)
    added = moonpool(tmp_path, *own, "add", *spec, *data, stdin=b"Bearer secret-of-acme\n")
    assert added.exit_code == 0, added.stderr
    assert moonpool(tmp_path, *own, "add", *spec, *data, stdin=b"x\n").sentence.endswith("[input_invalid]")
    for name, url in (("paths", "https://mcp.example.com/"), ("other", "https://127.1/")):
        refused = moonpool(tmp_path, *own, "add", "acme", name, url, "--config", config, *data)
        assert refused.sentence.endswith("[input_invalid]")
    (listed,) = moonpool(tmp_path, *own, "list", "--json", *data).stdout.splitlines()
    told = json.loads(listed)
    assert (told["org"], told["name"], told["headers"]) == ("acme", "crm", ["Authorization"])
    everything = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert b"secret-of-acme" not in everything + listed
    assert moonpool(tmp_path, *own, "remove", "acme", "crm", *data).exit_code == 0
    assert moonpool(tmp_path, *own, "list", "--json", *data).stdout == b""
    missing = moonpool(tmp_path, "login", "crm", "--org", "acme", "--config", config, *data)
    assert "no server is called 'crm'" in missing.sentence


@pytest.mark.req("C-026")
def test_limits_are_made_with_a_key_and_an_organisation_and_changed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = created(tmp_path, data, "--rate-limit", "60/min", "--concurrency", "2", "--quota", "1000/day")
    moonpool(tmp_path, "orgs", "limit", "acme", "--quota", "5000/day", "--data-dir", data)

    def limits_of(kind: str) -> object:
        return json.loads(moonpool(tmp_path, kind, "list", "--data-dir", data, "--json").stdout)["limits"]

    assert limits_of("keys") == {"rate_limit": "60/min", "concurrency": 2, "quota": "1000/day"}
    assert limits_of("orgs") == {"quota": "5000/day"}
    changed = moonpool(tmp_path, "keys", "limit", made["id"], "--rate-limit", "none", "--data-dir", data)
    assert f"limits of {made['id']}: rate limit none" in changed.stderr
    assert limits_of("keys") == {"rate_limit": "none"}
    wrong = moonpool(tmp_path, "keys", "limit", made["id"], "--quota", "5", "--data-dir", data)
    assert (wrong.exit_code, "the quota must be none, or a number" in wrong.stderr) == (2, True)


@pytest.mark.req("H-058")
def test_changes_of_keys_and_organisations_are_on_their_organisations_record(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = created(tmp_path, data, "--scope", "approve", "--quota", "5/day")
    moonpool(tmp_path, "keys", "revoke", made["id"], "--data-dir", data)
    moonpool(tmp_path, "keys", "revoke", made["id"], "--data-dir", data)  # changes nothing
    moonpool(tmp_path, "orgs", "disable", "acme", "--data-dir", data)

    shown = moonpool(tmp_path, "audit", "show", "--org", "acme", "--data-dir", data, "--json").stdout
    records = [json.loads(line) for line in shown.splitlines()]
    assert [(one["action"], one["subject"]) for one in records] == [
        ("organisation_created", "acme"),
        ("key_created", made["id"]),
        ("key_revoked", made["id"]),
        ("organisation_disabled", "acme"),
    ]
    assert {one["principal"].partition(":")[0] for one in records} == {"command"}
    assert {"scopes approve", "quota 5/day"} <= set(records[1]["details"])
    assert made["key"].encode() not in shown
    assert "key created" in moonpool(tmp_path, "audit", "show", "--org", "acme", "--data-dir", data).stdout.decode()


def test_a_key_that_cannot_be_put_on_record_is_none(tmp_path: Path) -> None:
    data = tmp_path / "data"
    created(tmp_path, data)
    journal = next((data / "tenants" / "acme").rglob("audit.sqlite3"))
    for file in journal.parent.glob("audit.sqlite3-*"):
        file.unlink()
    journal.write_bytes(b"no journal " * 1000)
    refused = moonpool(tmp_path, "keys", "create", "--org", "acme", "--data-dir", data)
    assert (refused.exit_code != 0, refused.stdout) == (True, b"")
    states = [json.loads(line)["state"] for line in moonpool(
        tmp_path, "keys", "list", "--data-dir", data, "--json"
    ).stdout.splitlines()]  # fmt: skip
    assert states == ["valid", "revoked"]
