"""`python -m bench.tokens`: three tasks through Moonpool and through fastmcp's CodeMode, over the same servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apps import DATA
from run_folder import made_once

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def compared() -> dict[str, Any]:
    with made_once("bench-tokens.json") as path:
        if not path.exists():
            path.write_text(_compare(), encoding="utf-8")
        return json.loads(path.read_text(encoding="utf-8"))["tasks"]


def _compare() -> str:
    command = [sys.executable, "-m", "bench.tokens", "--only", "tasks", "--quick", "--json"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MOONPOOL_")}
    env = {**kept, "MOONPOOL_DATA_DIR": str(DATA)}
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=550, check=False, env=env)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return ended.stdout


def test_every_task_ends_right_at_the_first_try(compared: dict[str, Any]) -> None:
    ours = compared["sides"]["Moonpool"]

    assert {name: (task["right"], task["repairs"]) for name, task in ours.items()} == dict.fromkeys(ours, (True, 0))
    assert len(ours) == 3


@pytest.mark.req("H-077")
def test_a_model_reads_and_writes_no_more_than_with_codemode(compared: dict[str, Any]) -> None:
    assert compared["missing"] == {}
    assert all(task["right"] for task in compared["sides"]["CodeMode"].values())
    assert compared["totals"]["Moonpool"] <= compared["totals"]["CodeMode"]


@pytest.mark.req("H-052")
def test_the_definitions_stay_within_their_budget(compared: dict[str, Any]) -> None:
    assert {task["read"]["definitions"] <= 600 for task in compared["sides"]["Moonpool"].values()} == {True}
