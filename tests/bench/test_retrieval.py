"""`python -m bench.retrieval` on a folder of two tools: what it counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from bench.retrieval.__main__ import main
from bench.retrieval.sessions import FIXED_TOKENS

if TYPE_CHECKING:
    from pathlib import Path

TOOLS = [
    {"server": "weather", "name": "get_forecast", "description": "Weather of a city."},
    {"server": "files", "name": "read_file", "description": "Read a file."},
]
TASKS = [
    {"id": "1", "query": "Will it rain in Oslo?", "gold": ["weather/get_forecast"]},
    {"id": "2", "query": "xylograph", "gold": ["files/read_file"]},
    {"id": "3", "query": "nothing is right here", "gold": []},
]
SEARCHES = [
    {"id": "a", "task_id": "1", "query": "rainfall", "gold": [], "executed": ["weather/get_forecast"]},
    {"id": "b", "task_id": "1", "query": "weather of a city", "gold": []},
]


@pytest.fixture
def measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    folder = tmp_path / "small"
    folder.mkdir()
    for name, rows in (("tools", TOOLS), ("tasks", TASKS), ("agent_queries", SEARCHES)):
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    assert main(["--data", str(tmp_path), "--json", "--no-peers", "--no-scale"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_set_counts_the_questions_with_gold(measured: dict[str, Any]) -> None:
    found = measured["sets"]["small"]

    assert (found["n"], found["skipped"], found["R@5"]) == (2, 1, 0.5)


def test_discovery_is_counted_as_the_study_does_and_all_in(measured: dict[str, Any]) -> None:
    session = measured["sessions"]["small"]
    answers = session["discovery_tokens"] - FIXED_TOKENS

    assert answers > 0
    assert session["coverage"] == 1.0
    assert session["discovery_tokens_all_in"] == answers + session["face_tokens"] + session["instructions_tokens"]
    assert session["face_tokens"] > FIXED_TOKENS
