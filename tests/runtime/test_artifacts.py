"""Artifacts of old runs make room for new ones."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import pytest

from apps import open_app, run
from moonpool.runtime import artifacts, runs
from moonpool.runtime.artifacts import remove_oldest
from moonpool.store.fake import MemoryJournal

if TYPE_CHECKING:
    from pathlib import Path


def artifact(folder: Path, name: str, size: int, age: int) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "stdout").write_bytes(b"x" * size)
    os.utime(folder / name, (1_000_000 - age, 1_000_000 - age))


@pytest.mark.parametrize(
    ("bytes_max", "left"),
    [
        pytest.param(30, {"old", "middle", "new"}, id="all fit"),
        pytest.param(29, {"middle", "new"}, id="the oldest goes"),
        pytest.param(10, {"new"}, id="as many as it takes"),
        pytest.param(9, set[str](), id="one alone is too large"),
    ],
)
def test_the_oldest_go_until_the_rest_fits(tmp_path: Path, bytes_max: int, left: set[str]) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        artifact(tmp_path, name, 10, age)
    remove_oldest(tmp_path, bytes_max=bytes_max)
    assert {path.name for path in tmp_path.iterdir()} == left


def test_no_folder_is_no_error(tmp_path: Path) -> None:
    remove_oldest(tmp_path / "none")


@pytest.mark.anyio
async def test_an_execution_that_writes_one_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = remove_oldest.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "bytes_max", 1_000_000)
    artifact(tmp_path, "old", 950_000, 0)
    async with open_app() as app:
        app.runtime.artifacts = tmp_path
        envelope = await run(app, "print('x' * 100_000)")
    assert envelope.ok
    assert [path.name for path in tmp_path.iterdir()] == [envelope.run_id]
    assert artifacts.ARTIFACTS_BYTES_MAX > 1_000_000


@pytest.mark.anyio
async def test_a_cancellation_while_room_is_made_still_leaves_an_end_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, release = threading.Event(), threading.Event()

    def slowly(folder: Path) -> None:
        del folder
        reached.set()
        release.wait(10)

    monkeypatch.setattr(runs, "remove_oldest", slowly)
    journal = MemoryJournal()
    async with open_app() as app:
        app.runtime.artifacts, app.runtime.journal = tmp_path, journal
        running = asyncio.ensure_future(run(app, "print('x' * 100_000)"))
        await asyncio.to_thread(reached.wait, 10)
        running.cancel()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert [entry.kind for entry in journal.entries] == ["execution_start", "execution_end"]
