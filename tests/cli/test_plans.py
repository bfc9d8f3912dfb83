"""`--dry-run`, `--plan-first`, `--plan` and `moonpool plans`: one process rehearses, others approve and run."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from apps import fixture_server
from cli.console import Ended, moonpool, write_config
from cli.terminal import Terminal
from moonpool.cli.approval_texts import shown_left

PROMPT = "Allow the whole plan, once? y = yes, n = no"
NASTY = "\x1b[2J\n└─\n" + "9. hub.keep {} (allow) " * 8
CODE = f"""
import servers.hub as hub
made = await hub.create(title={NASTY!r})
result = (await hub.keep(title=made.data["tool"])).ok
"""


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A server that writes down what arrives, and code that calls it."""
    shape = {"type": "object", "properties": {"title": {"type": "string"}}}
    answer = {"type": "object", "properties": {"tool": {"type": "string"}}, "required": ["tool"]}
    tools = [{"name": name, "inputSchema": shape, "outputSchema": answer} for name in ("create", "keep")]
    (tmp_path / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    (tmp_path / "code.py").write_text(CODE, encoding="utf-8")
    record = str(tmp_path / "record.jsonl")
    return write_config(
        tmp_path, {"hub": fixture_server("recorder.py", str(tmp_path / "tools.json"), record, ask=["*"])}
    )


def run(home: Path, hub: Path, *options: str) -> Ended:
    return moonpool(home, "run", "code.py", "--config", hub, *options)


def arrived(home: Path) -> list[Any]:
    record = home / "record.jsonl"
    lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
    return [json.loads(line)["arguments"]["title"] for line in lines]


def test_a_plan_is_rehearsed_shown_approved_and_run_by_four_processes(tmp_path: Path, hub: Path) -> None:
    rehearsed = run(tmp_path, hub, "--dry-run")
    plan_id = rehearsed.result["metrics"]["plan_id"]
    listed = moonpool(tmp_path, "plans", "list", "--json").stdout.splitlines()
    shown = moonpool(tmp_path, "plans", "show", plan_id[:13]).stdout.decode()
    early = run(tmp_path, hub, "--plan", plan_id)
    assert arrived(tmp_path) == []
    approved = moonpool(tmp_path, "plans", "approve", plan_id)
    real = run(tmp_path, hub, "--plan", plan_id)
    again = run(tmp_path, hub, "--plan", plan_id)
    over = moonpool(tmp_path, "plans", "deny", plan_id)

    assert "a dry run: no call of the plan was made" in rehearsed.stderr
    assert plan_id in [json.loads(line)["plan_id"] for line in listed]
    assert "\x1b" not in shown
    assert "│ 1. hub.create " in shown
    assert "at /title: what call 1 returns at /tool" in " ".join(line[2:].strip() for line in shown.splitlines())
    assert "│ 9. " not in shown
    assert early.sentence.endswith("[plan_unusable]")
    assert approved.stdout.decode() == f"{shown}approved {plan_id}: 2 calls\n"
    assert f"moonpool run FILE --plan {plan_id}" in approved.stderr
    assert f'│ hub is "{sys.executable}' in shown
    assert "(line 3; ask: " in shown
    assert (real.result["data"], real.envelope["approval_state"]) == (True, "APPROVED")
    assert arrived(tmp_path) == [NASTY, "create"]
    assert "it is used" in again.sentence
    assert "it is used" in over.sentence


def test_plan_first_asks_once_at_the_terminal_and_shows_every_call(tmp_path: Path, hub: Path) -> None:
    with Terminal(tmp_path, "run", "code.py", "--config", hub, "--plan-first") as terminal:
        at = terminal.wait_for("│ 2. hub.keep")
        terminal.wait_for(PROMPT, after=at)
        terminal.type("y\n")
        ended = terminal.wait_ended()
    assert (ended.result["data"], arrived(tmp_path)) == (True, [NASTY, "create"])


def test_a_plan_is_shown_again_and_a_person_says_yes_to_that(tmp_path: Path, hub: Path) -> None:
    plan_id = run(tmp_path, hub, "--dry-run").result["metrics"]["plan_id"]
    for typed, exit_code in (("n\n", 2), ("y\n", 0)):
        with Terminal(tmp_path, "plans", "approve", plan_id) as terminal:
            at = terminal.wait_for("│ 2. hub.keep")
            terminal.wait_for(PROMPT, after=at)
            terminal.type(typed)
            assert terminal.wait_ended().exit_code == exit_code
    assert run(tmp_path, hub, "--plan", plan_id).result["data"] is True


def test_plan_first_with_a_no_runs_nothing(tmp_path: Path, hub: Path) -> None:
    with Terminal(tmp_path, "run", "code.py", "--config", hub, "--plan-first") as terminal:
        terminal.wait_for(PROMPT)
        terminal.type("n\n")
        ended = terminal.wait_ended()
    assert (ended.exit_code, ended.stdout, arrived(tmp_path)) == (2, b"", [])


def test_declared_placeholders_come_from_a_file(tmp_path: Path, hub: Path) -> None:
    (tmp_path / "answers.toml").write_text('["hub.*"]\ntool = "declared"\n', encoding="utf-8")
    rehearsed = run(tmp_path, hub, "--dry-run", "--placeholders", "answers.toml")
    plan_id = rehearsed.result["metrics"]["plan_id"]
    plan = json.loads(moonpool(tmp_path, "plans", "show", plan_id, "--json").stdout)
    assert [json.loads(one["arguments"])["title"] for one in plan["effects"]][1] == "declared"
    assert [one["placeholder"] for one in plan["effects"]] == ["declared", "declared"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--dry-run", "--plan-first"], "--dry-run and --plan-first exclude each other"),
        (["--dry-run", "--session", "s"], "--dry-run cannot be used with --session"),
        (["--plan-first", "--workspace", "."], "--plan-first cannot be used with --workspace"),
        (["--placeholders", "answers.toml"], "--placeholders answers the calls of a dry run"),
        (["--plan", "plan_0123456789"], "there is no plan 'plan_0123456789'"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, hub: Path, options: list[str], told: str) -> None:
    assert told in run(tmp_path, hub, *options).sentence


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hub = 1", "names no tool"),
        ('"hub.x" = 1', "must be a table or a string"),
        ("= 1", "is not TOML"),
    ],
)
def test_a_file_of_placeholders_that_cannot_be_used_is_named(tmp_path: Path, hub: Path, text: str, told: str) -> None:
    (tmp_path / "answers.toml").write_text(text, encoding="utf-8")
    sentence = run(tmp_path, hub, "--dry-run", "--placeholders", "answers.toml").sentence
    assert "answers.toml" in sentence
    assert told in sentence


def test_how_long_a_plan_may_wait_is_told_in_a_readable_unit() -> None:
    left = [shown_left(time.time() + seconds + 0.9) for seconds in (-9, 100, 600, 86_400, 5 * 86_400)]
    assert left == ["0 s", "101 s", "10 min", "24 h", "5 days"]
