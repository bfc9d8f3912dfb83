"""Outcomes that nobody waited for: kept, found by their run, and not for ever."""

from __future__ import annotations

import stat
import uuid
from typing import TYPE_CHECKING

import pytest

from moonpool.engine.outcomes import AGE_S_MAX, COUNT_MAX, OutcomeStore

if TYPE_CHECKING:
    from pathlib import Path


def run_id() -> str:
    return f"run_{uuid.uuid4().hex}"


def test_what_is_kept_is_found_and_closed_to_others(tmp_path: Path) -> None:
    store, run = OutcomeStore(tmp_path / "outcomes"), run_id()
    store.keep(run, {"run_id": run})

    assert store.find(run) == {"run_id": run}
    assert stat.S_IMODE((tmp_path / "outcomes" / f"{run}.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["run_x", "../../etc/passwd", "", f"run_{'0' * 32}"])
def test_what_was_not_kept_is_not_found(tmp_path: Path, name: str) -> None:
    assert OutcomeStore(tmp_path / "outcomes").find(name) is None


def test_the_oldest_go_when_there_are_too_many_and_all_go_when_they_are_old(tmp_path: Path) -> None:
    now = [0.0]
    store = OutcomeStore(tmp_path / "outcomes", clock=lambda: now[0])
    for _ in range(COUNT_MAX + 3):
        store.keep(run_id(), {})
    assert len(list((tmp_path / "outcomes").iterdir())) == COUNT_MAX

    now[0] = 4e9 + AGE_S_MAX
    last = run_id()
    store.keep(last, {})
    assert store.find(last) is None
