"""Artifacts of old runs make room for new ones."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import pytest

from apps import open_app, run
from moonpool.engine import artifacts
from moonpool.engine.artifacts import ArtifactLimits, Artifacts, remove_oldest
from moonpool.engine.code_request import CodeRequest
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


def test_files_in_folders_of_a_run_are_counted(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "old")):
        artifact(tmp_path, name, 10, age)
        (tmp_path / name / "files" / "deep").mkdir(parents=True)
        (tmp_path / name / "files" / "deep" / "made").write_bytes(b"x" * 90)
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    assert remove_oldest(tmp_path, bytes_max=199) == 100
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_no_folder_is_no_error(tmp_path: Path) -> None:
    assert remove_oldest(tmp_path / "none", bytes_max=1) is None


def test_what_is_no_folder_of_a_run_holds_up_nothing(tmp_path: Path) -> None:
    (tmp_path / "stray").touch()
    artifact(tmp_path, "old", 10, 1)
    artifact(tmp_path, "new", 10, 0)
    assert remove_oldest(tmp_path, bytes_max=10) == 10
    assert {path.name for path in tmp_path.iterdir()} == {"stray", "new"}


def test_a_run_that_goes_on_is_spared(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        artifact(tmp_path, name, 10, age)
    assert remove_oldest(tmp_path, bytes_max=15, spare={"old"}) == 10
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def kept_in(folder: Path, *, session: int = 10**9, total: int = 10**9, free: int = 0) -> Artifacts:
    return Artifacts(folder, ArtifactLimits(session_bytes_max=session, total_bytes_max=total, free_bytes_min=free))


def test_a_session_the_total_and_the_disk_each_have_their_say(tmp_path: Path) -> None:
    ours = kept_in(tmp_path / "none" / "yet", session=100, total=150)
    one, again, other = (ours.of_run(run, session) for run, session in (("r1", "a"), ("r2", "a"), ("r3", "b")))
    assert one.grant(60) == ""
    assert "artifacts of this session would be larger than 100 bytes (artifact_session_bytes_max)" in again.grant(41)
    assert other.grant(90) == ""
    assert "larger than 150 bytes (artifact_total_bytes_max)" in other.grant(1)
    one.give_back(60)
    assert again.grant(60) == ""
    full = kept_in(tmp_path, free=10**18).of_run("r", "s")
    assert full.grant(1) == "less than 953,674,316,406 MiB is free on the disk (artifact_free_bytes_min)"


@pytest.mark.anyio
async def test_room_is_made_for_those_under_way_and_what_was_found_counts(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "old")):
        artifact(tmp_path, name, 400, age)
    ours = kept_in(tmp_path, total=1000)
    assert ours.of_run("r", "s").grant(0) == ""
    await ours.make_room()
    assert [path.name for path in tmp_path.iterdir()] == ["new"]  # a quarter is free
    assert ours.of_run("r", "s").grant(600) == ""
    assert "artifact_total_bytes_max" in ours.of_run("r", "s").grant(1)


@pytest.mark.anyio
async def test_a_session_that_keeps_much_output_leaves_the_others_theirs() -> None:
    async with open_app(artifact_session_bytes_max=150_000) as app:
        noisy, quiet = (app.runtime.session(app.caller_grant) for _ in range(2))
        print_much = CodeRequest(code=b"print('x' * 100_000)")
        texts = [(await session.execute(print_much)).extras["stdout"] for session in (noisy, noisy, quiet)]
        for session in (noisy, quiet):
            await session.close()
    assert ["all of it: " in str(text) for text in texts] == [True, False, True]
    assert "could not be kept: the artifacts of this session would be larger" in str(texts[1])


@pytest.mark.anyio
async def test_an_execution_that_writes_one_makes_room(tmp_path: Path) -> None:
    artifact(tmp_path, "old", 950_000, 0)
    async with open_app() as app:
        app.runtime.artifacts = kept_in(tmp_path, total=1_000_000)
        envelope = await run(app, "print('x' * 100_000)")
    assert envelope.ok
    assert [path.name for path in tmp_path.iterdir()] == [envelope.run_id]


@pytest.mark.anyio
async def test_a_cancellation_while_room_is_made_still_leaves_an_end_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, release = threading.Event(), threading.Event()

    def slowly(folder: Path, **how: object) -> None:
        del folder, how
        reached.set()
        release.wait(10)

    monkeypatch.setattr(artifacts, "remove_oldest", slowly)
    journal = MemoryJournal()
    async with open_app() as app:
        app.runtime.artifacts, app.runtime.journal = kept_in(tmp_path), journal
        running = asyncio.ensure_future(run(app, "print('x' * 100_000)"))
        await asyncio.to_thread(reached.wait, 10)
        running.cancel()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert [entry.kind for entry in journal.entries] == ["execution_start", "execution_end"]


@pytest.mark.anyio
async def test_a_file_is_kept_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    limits = ArtifactLimits(session_bytes_max=10, total_bytes_max=100, free_bytes_min=0)
    room = Artifacts(tmp_path, limits).of_run("run_1", "s")
    assert await room.keep("cell", b"12345678") == f"all of it: {tmp_path / 'run_1/cell'}"
    assert (tmp_path / "run_1/cell").read_bytes() == b"12345678"
    assert "artifact_session_bytes_max" in await room.keep("more", b"123")
    (tmp_path / "run_1/folder").mkdir()
    assert await room.keep("folder", b"1") == "it could not be kept: Is a directory"
    assert await room.keep("last", b"12") == f"all of it: {tmp_path / 'run_1/last'}"  # nothing counts that was not kept
