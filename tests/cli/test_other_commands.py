"""The commands that run no code, and the shape of all."""

from __future__ import annotations

import base64
import json
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from apps import fresh_data
from cli.console import SERVERS, environment, moonpool, raw_server, run_code, write_config
from cli.terminal import Terminal
from commands.process import SCRIPT, run_command
from moonpool.configuration.servers import load_config
from moonpool.core.audit import GENESIS, AuditRow, chain_hash, record_bytes
from moonpool.core.json import canonical_json
from moonpool.features.receipts.model import State, receipt_body, signed_bytes
from moonpool.features.receipts.signing_keys import SigningKeys
from moonpool.store.journal_entries import Entry
from moonpool.store.journal_file import JournalFile
from moonpool.store.paths import journal_path
from moonpool.store.process_marks import own_mark
from store.audit_records import start

if TYPE_CHECKING:
    from pathlib import Path


COMMANDS = (
    "run",
    "preview",
    "tools",
    "mcp",
    "init",
    "doctor",
    "audit",
    "receipt",
    "session",
    "environments",
    "version",
)


@pytest.mark.req("G-038", "G-039", "G-040")
def test_no_command_talks_to_a_model(tmp_path: Path) -> None:
    told = moonpool(tmp_path, "--help").stdout.decode()
    offered = {line.split()[0] for line in told.splitlines() if line.startswith("  ") and line.strip()}
    assert {"run", "mcp", "tools"} <= offered
    assert offered.isdisjoint({"client", "chat", "ask", "query"})


def test_help_names_every_command(tmp_path: Path) -> None:
    ended = moonpool(tmp_path, "--help")
    assert ended.exit_code == 0
    assert [name for name in COMMANDS if f"\n  {name} " not in ended.stdout.decode()] == []
    of_group = moonpool(tmp_path, "approvals", "--help").stdout
    assert b"...\n" not in (ended.stdout + of_group).replace(b"[ARGS]...", b"")  # what each command does is said whole


def test_a_shell_completes_commands_options_values_and_files(tmp_path: Path) -> None:
    for typed, expected in (
        ("pre", "plain,preview"),
        ("run --plan-f", "plain,--plan-first"),
        ("run --approve qu", "plain,queue"),
        ("run --policy str", "file,str"),
        ("preview co", "file,co"),
    ):
        words = f"moonpool {typed}"
        asked = {"_MOONPOOL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert moonpool(tmp_path, **asked).stdout.decode() == f"{expected}\n", typed


def test_version(tmp_path: Path) -> None:
    """Really started, so that the installed script is seen to work."""
    done = run_command([SCRIPT, "--version"], start=subprocess.Popen, cwd=tmp_path, env=environment(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"moonpool 0.1.0\n", b"")


# --- tools


@pytest.fixture
def sheets(tmp_path: Path) -> Path:
    """A server with tools worth searching for, and one that is not there."""
    entry = {"command": sys.executable, "args": [str(SERVERS / "sheets.py"), "sheets"]}
    return write_config(tmp_path, {"sheets": entry, "gone": {"command": "no-such-command-here"}})


@pytest.mark.req("G-024")
def test_tools_lists_servers_and_names_those_that_are_missing(tmp_path: Path, sheets: Path) -> None:
    ended = moonpool(tmp_path, "tools", "list", "--config", sheets)
    assert ended.exit_code == 0
    assert ended.stdout.startswith(b"servers.sheets (")
    assert "server 'gone' cannot start" in ended.stderr
    assert ended.stderr.endswith("its tools are missing\n")


def test_a_tool_that_says_nothing_of_itself_is_listed_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text('[{"name": "a"}, {"name": "b", "title": "Bee"}]', encoding="utf-8")
    entry = {"command": sys.executable, "args": [str(SERVERS / "recorder.py"), str(tmp_path / "tools.json")]}
    listed = moonpool(tmp_path, "tools", "list", "--server", "box", "--config", write_config(tmp_path, {"box": entry}))
    assert listed.stdout.decode().splitlines() == ["servers.box.a", "servers.box.b — Bee"]
    assert len(listed.stderr.splitlines()) == 2

    searched = moonpool(tmp_path, "tools", "search", "bee", "--config", write_config(tmp_path, {"box": entry}))
    assert searched.stdout.decode() == "servers.box.b — Bee\n"
    (remark,) = searched.stderr.splitlines()  # a search is not the place to name every broken tool
    assert remark.endswith("are let through (and 1 more; `moonpool tools list` says all)")


@pytest.mark.req("H-049")
def test_tools_are_searched_and_shown(tmp_path: Path, sheets: Path) -> None:
    hits = moonpool(tmp_path, "tools", "search", "rows of a sheet", "--config", sheets, "--limit", "2", "--json")
    paths = [json.loads(line)["path"] for line in hits.stdout.splitlines()]
    assert "servers.sheets.get_all_rows" in paths
    names = moonpool(
        tmp_path, "tools", "search", "rows", "--server", "sheets", "--detail", "name", "--json", "--config", sheets
    )
    assert all("description" not in json.loads(line) for line in names.stdout.splitlines())
    stubs = moonpool(tmp_path, "tools", "show", paths[0], paths[0], "--config", sheets).stdout.decode()
    assert stubs.startswith(f"await {paths[0]}(")
    assert f"\n\nawait {paths[0]}(" in stubs
    raw = json.loads(moonpool(tmp_path, "tools", "show", paths[0], "--json", "--config", sheets).stdout)
    assert {"name", "inputSchema"} <= set(raw)


def test_a_search_without_the_vectors_that_are_wanted_says_why(tmp_path: Path, sheets: Path) -> None:
    ended = moonpool(tmp_path, "tools", "search", "rows of a sheet", "--config", sheets, MOONPOOL_DENSE="minilm")

    assert ended.exit_code == 0
    assert b"servers.sheets.get_all_rows" in ended.stdout
    assert "search goes by words alone: there is no model for vector search" in ended.stderr
    assert "make it with `moonpool catalog build-model`" in ended.stderr


def test_making_a_model_without_the_extra_names_it_and_fetches_nothing(tmp_path: Path) -> None:
    missing = tmp_path / "packages" / "onnxruntime.py"
    missing.parent.mkdir()
    missing.write_text("raise ImportError", encoding="utf-8")

    ended = moonpool(tmp_path, "catalog", "build-model", PYTHONPATH=str(missing.parent))

    assert ended.sentence == (
        "vector search needs the package onnxruntime: "
        "install it with `pip install 'moonpool[dense]'`, or set MOONPOOL_DENSE=none [dense_unavailable]"
    )


def test_a_definition_is_shown_in_the_form_that_is_wanted(tmp_path: Path, sheets: Path) -> None:
    shown = [
        moonpool(tmp_path, "tools", "show", "sheets.get_all_rows", *form, "--config", sheets).stdout.decode()
        for form in (["--as", "typescript"], ["--as", "json"], ["--json"])
    ]
    assert "export function getAllRows(args" in shown[0]
    assert shown[1] == shown[2]


def test_a_search_is_narrowed_by_labels_annotations_and_texts(tmp_path: Path, sheets: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('version = 1\n[[label]]\ntool = "get_*"\nreturns = ["private"]\n', encoding="utf-8")
    search = ("tools", "search", "rows", "--json", "--config", sheets)
    narrowed = [
        moonpool(tmp_path, *search, *only, MOONPOOL_POLICY=str(policy)).stdout.splitlines()
        for only in ([], ["--label", "private"], ["--label", "spends"], ["--match", "^sheets.get_all"])
    ]
    paths = [[json.loads(line)["path"] for line in lines] for lines in narrowed]
    assert paths[1] == [path for path in paths[0] if ".get_" in path] != []
    assert paths[2] == []
    assert paths[3] == ["servers.sheets.get_all_rows"]
    refused = moonpool(tmp_path, *search, "--label", "privat")
    assert (refused.exit_code, "did you mean private?" in refused.stderr) == (2, True)


def test_when_no_server_is_reached_tools_fails(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"gone": {"command": "no-such-command-here"}})
    ended = moonpool(tmp_path, "tools", "list", "--config", config)
    assert (ended.exit_code, ended.stdout) == (1, b"")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["show", "sheets.get_all_row"], "near names: get_all_rows", id="near name"),
        pytest.param(["show", "shets.x"], "near names: sheets", id="near server"),
        pytest.param(["search", " "], "needs words", id="empty question"),
        pytest.param(["search", "x", "--limit", "0"], "limit 0", id="limit"),
    ],
)
def test_questions_that_have_no_answer_say_what_to_ask(tmp_path: Path, arguments: list[str], expected: str) -> None:
    entry = {"command": sys.executable, "args": [str(SERVERS / "sheets.py"), "sheets"]}
    config = write_config(tmp_path, {"sheets": entry})
    assert expected in moonpool(tmp_path, "tools", *arguments, "--config", config).sentence


def test_tools_without_servers_says_how_to_get_some(tmp_path: Path) -> None:
    assert "moonpool init" in moonpool(tmp_path, "tools", "list").sentence


# --- init


def client_files(home: Path) -> None:
    """What four clients keep, with everything that may go wrong."""
    files = {
        ".config/Claude/claude_desktop_config.json": {
            "mcpServers": {
                "time": {"command": "mcp-server-time", "env": {"TOKEN": "${TIME_TOKEN}"}},
                "moonpool": {"command": "/opt/moonpool", "args": ["mcp", "--config", "x.json"]},
            }
        },
        ".claude.json": {
            "mcpServers": {"git": {"type": "stdio", "command": "mcp-server-git"}},
            "projects": {"/p": {"mcpServers": {"db": {"url": "https://${DB_HOST}/mcp"}, "time": {"command": "other"}}}},
        },
        ".mcp.json": {"mcpServers": {"broken": {"comand": "x"}}},
    }
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    code = home / ".vscode" / "mcp.json"
    code.parent.mkdir()
    text = '{\n  // a comment "with quotes"\n  "servers": {"web": {"url": "http://x/mcp", /* , } */}, '
    code.write_text(text + '"asks": {"command": "x", "env": {"K": "${input:key}"}},},\n}', encoding="utf-8")


@pytest.mark.req("G-003", "G-006")
def test_init_takes_over_what_clients_have_and_says_what_it_left(tmp_path: Path) -> None:
    client_files(tmp_path)
    ended = moonpool(tmp_path, "init", MOONPOOL_DATA_DIR=str(tmp_path))
    assert ended.exit_code == 0, ended.stderr
    assert OFFER in ended.stdout
    target = tmp_path / ".config/moonpool/servers.json"
    written = json.loads(target.read_text(encoding="utf-8"))["mcpServers"]
    assert list(written) == ["time", "git", "db", "web"]
    assert written["time"]["env"] == {"TOKEN": "${TIME_TOKEN}"}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert load_config(target, {"TIME_TOKEN": "t0", "DB_HOST": "db"}).ids == ("time", "git", "db", "web")
    said = ended.stdout.decode()
    for why in ("it is Moonpool itself", "taken by another server", 'did you mean "command"', "${input:"):
        assert why in said
    assert '"mcp"' in said
    assert "TIME_TOKEN is not set" in ended.stderr


OFFER = b"`moonpool environments build data` lets code of `moonpool mcp` import numpy, pandas, matplotlib"


def test_init_offers_the_environment_with_packages_and_asks_at_a_terminal(tmp_path: Path) -> None:
    client_files(tmp_path)
    with Terminal(tmp_path, "init", MOONPOOL_DATA_DIR=str(tmp_path)) as terminal:  # where nobody has built it
        terminal.wait_for("Start them now?")
        terminal.type("n\n")
        terminal.wait_for("Let code import numpy, pandas")
        terminal.type("n\n")
        ended = terminal.wait_ended()
    assert ended.exit_code == 0
    assert OFFER in ended.stdout


@pytest.mark.req("G-003")
def test_init_never_changes_what_is_there(tmp_path: Path) -> None:
    client_files(tmp_path)
    target = tmp_path / "mine.json"
    own = {"other": 1, "mcpServers": {"git": {"command": "my-git"}}}
    target.write_text(json.dumps(own), encoding="utf-8")
    refused = moonpool(tmp_path, "init", "--to", target)
    assert refused.exit_code == 1
    assert "would add time" in refused.stdout.decode()
    assert json.loads(target.read_text(encoding="utf-8")) == own
    added = moonpool(tmp_path, "init", "--to", target, "--add", "--no-data", MOONPOOL_DATA_DIR=str(tmp_path))
    assert added.exit_code == 0
    assert OFFER not in added.stdout
    merged = json.loads(target.read_text(encoding="utf-8"))
    assert merged["other"] == 1
    assert merged["mcpServers"]["git"] == {"command": "my-git"}
    assert list(merged["mcpServers"]) == ["git", "time", "db", "web"]
    again = moonpool(tmp_path, "init", "--to", target, "--add", "--no-data")
    assert again.stdout.decode().endswith(f"{target} has all of them already and is unchanged\n")


def test_init_dry_run_writes_nothing(tmp_path: Path) -> None:
    client_files(tmp_path)
    ended = moonpool(tmp_path, "init", "--dry-run")
    assert "would write 4 servers" in ended.stdout.decode()
    assert not (tmp_path / ".config/moonpool").exists()


def test_init_with_a_file_that_is_none_says_so(tmp_path: Path) -> None:
    assert "there is no such file" in moonpool(tmp_path, "init", "--from", "none.json").sentence


# --- preview


def test_a_preview_names_calls_and_what_would_be_refused(sheets: Path, tmp_path: Path) -> None:
    code = "import servers.sheets as s\ns.get_all_rows(sheetId='q')\ns.get_al_rows()\nimport servers.gone"
    shown = moonpool(tmp_path, "preview", "-c", code, "--config", sheets)
    text = shown.stdout.decode()
    assert shown.exit_code == 1
    assert 'line 2: sheets.get_all_rows(sheetId="q")' in text
    assert "line 3: error: UnknownTool: there is no tool sheets.get_al_rows; did you mean sheets.get_all_rows" in text
    assert "line 4: error: Unreachable" in text
    read = json.loads(moonpool(tmp_path, "preview", "-", "--json", "--config", sheets, stdin=b"x = 1").stdout)
    assert (read["previewed"], read["calls"], read["findings"]) == (True, [], [])


def test_a_preview_of_another_language_says_that_there_is_none(tmp_path: Path) -> None:
    shown = moonpool(tmp_path, "preview", "-c", "moonpool call x", "-l", "bash")
    assert "bash code is not previewed" in shown.sentence


# --- doctor, audit, environments


def test_the_doctor_attacks_real_sandboxes_and_reports(tmp_path: Path) -> None:
    ended = moonpool(tmp_path, "doctor", "--json", timeout_s=110)
    report = json.loads(ended.stdout)
    assert (ended.exit_code, report["ok"]) == (0, True), report["broken_claims"]
    assert len(report["outcomes"]) >= 20
    assert report["limits_mode"] in ("cgroup2-delegated", "cgroup1-root", "rlimits-only")


def test_audit_shows_a_run_and_verifies_the_chain(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    config = write_config(tmp_path, {"srv": raw_server("good")})
    more = {"MOONPOOL_DATA_DIR": str(data)}
    assert "no audit journal" in moonpool(tmp_path, "audit", "verify", **more).sentence
    fresh_data(data)
    ended = run_code(tmp_path, "import servers.srv as s\nawait s.echo(a=1)", "--config", config)
    run_id = ended.envelope["run_id"]
    shown = moonpool(tmp_path, "audit", "show", "--run", run_id, "--json")
    records = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [record["kind"] for record in records] == ["execution_start", "call_intent", "call_outcome", "execution_end"]
    assert run_id in moonpool(tmp_path, "audit", "show", "--run", run_id).stdout.decode()
    verified = moonpool(tmp_path, "audit", "verify")
    assert verified.exit_code == 0
    head = verified.stdout.decode().split()[-1]
    assert "only --anchor shows that the end was cut off" in verified.stderr
    anchored = moonpool(tmp_path, "audit", "verify", "--anchor", head)
    assert (anchored.exit_code, anchored.stderr) == (0, "")
    seq = head.partition(":")[0]
    assert moonpool(tmp_path, "audit", "verify", "--anchor", f"{seq}:{'0' * 64}").exit_code == 1
    assert moonpool(tmp_path, "audit", "show", "--run", "run_of_nobody").exit_code == 1


def test_over_a_locked_journal_nothing_is_run(tmp_path: Path) -> None:
    data, log = fresh_data(tmp_path / "data"), tmp_path / "log"
    config = write_config(tmp_path, {"srv": raw_server("good", log)})
    more = {"MOONPOOL_DATA_DIR": str(data)}
    JournalFile(journal_path(data)).close()
    blocker = sqlite3.connect(journal_path(data), isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    ended = run_code(tmp_path, "import servers.srv as s\nresult = (await s.echo(a=1)).ok", "--config", config, **more)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert "is locked by another process; end that process" in ended.sentence
    assert ended.sentence.endswith("[journal_unavailable]")
    assert not log.exists()  # not even the server was started
    assert moonpool(tmp_path, "audit", "verify", **more).exit_code == 0


def test_audit_tells_an_execution_that_was_lost_from_one_that_goes_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    more = {"MOONPOOL_DATA_DIR": str(data)}
    write_starts(journal_path(data), {"run_1": own_mark().rpartition("/")[0] + "/1", "run_2": own_mark()})
    shown = moonpool(tmp_path, "audit", "show", **more).stdout.decode()
    assert [shown.count(word) for word in ("lost", "running", "unknown")] == [1, 1, 0]
    rows = [json.loads(line) for line in moonpool(tmp_path, "audit", "show", "--json", **more).stdout.splitlines()]
    assert [row["state"] for row in rows] == ["lost", "running"]


def write_starts(path: Path, marks: dict[str, str]) -> None:
    file = JournalFile(path)
    for run_id, mark in marks.items():
        entry = replace(start(run_id), process=mark)
        file.append([Entry(entry.kind, run_id, record_bytes(entry))], durable=False)
    file.close()


def test_a_receipt_is_made_verified_elsewhere_and_refused_when_changed(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"srv": raw_server("good")})
    ended = run_code(tmp_path, "import servers.srv as s\nresult = await s.echo(a=1)", "--config", config)
    (tmp_path / "line.json").write_bytes(ended.stdout)
    assert moonpool(tmp_path, "receipt", "show", "last", "--out", "r.json").exit_code == 0
    assert (
        "is there already"
        in moonpool(tmp_path, "receipt", "show", ended.envelope["run_id"], "--out", "r.json").sentence
    )
    here = moonpool(tmp_path, "receipt", "verify", "r.json", "--envelope", "line.json", "--json")
    assert (here.exit_code, json.loads(here.stdout)["checked"]) == (0, ["signature", "records", "journal", "envelope"])
    (tmp_path / "key.pub").write_bytes(moonpool(tmp_path, "receipt", "key").stdout)
    elsewhere = {"MOONPOOL_DATA_DIR": str(tmp_path / "elsewhere")}
    there = moonpool(tmp_path, "receipt", "verify", "r.json", "--key", "key.pub", **elsewhere)
    assert (there.exit_code, "not compared with a journal" in there.stdout.decode()) == (0, True)
    assert "which is not known here" in moonpool(tmp_path, "receipt", "verify", "r.json", **elsewhere).sentence
    execution = json.loads((tmp_path / "r.json").read_bytes())["execution"]
    for member in ("code_digest", "manifest_digest", "tree_digest", "envelope_digest", "backend", "version"):
        assert execution[member]
    text = (tmp_path / "r.json").read_text(encoding="utf-8").replace(execution["code_digest"], "sha256:0")
    (tmp_path / "r.json").write_text(text, encoding="utf-8")
    assert moonpool(tmp_path, "receipt", "verify", "r.json").exit_code == 1


def test_a_receipt_of_a_stranger_says_nothing_to_the_terminal(tmp_path: Path) -> None:
    keys = SigningKeys(tmp_path / "stranger" / "keys")
    hostile, kind = "\x1b[2Jrun\u202e", "execution_start"
    body = canonical_json({"kind": kind, "run_id": hostile})
    row = AuditRow(seq=1, kind=kind, run_id=hostile, body=body, hash=chain_hash(GENESIS, 1, body))
    receipt = receipt_body([(GENESIS, row)], state=State.RUNNING, made_at="now")
    receipt["key_id"] = keys.current().key_id
    receipt["signature"] = base64.b64encode(keys.sign(signed_bytes(receipt))[1]).decode()
    (tmp_path / "r.json").write_bytes(canonical_json(receipt))
    good = moonpool(tmp_path, "receipt", "verify", "r.json", "--key", keys.current().text)
    assert good.stdout.decode().startswith("r.json: good: \\x1b[2Jrun\\u202e, running")
    assert r"\x1b[2J: cannot be read" in moonpool(tmp_path, "receipt", "verify", "\x1b[2J").sentence


def test_environments_are_listed_and_built(tmp_path: Path) -> None:
    listed = moonpool(tmp_path, "environments", "list").stdout.decode()
    assert listed.startswith("base: ")
    assert "numpy" in listed
    assert moonpool(tmp_path, "environments", "build", "base").stdout.decode().endswith(": ready\n")
    assert "unknown environment" in moonpool(tmp_path, "environments", "build", "moon").sentence
