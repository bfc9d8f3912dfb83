"""The bound on what all tenants keep: who writes is counted, those that have most make room, open runs are spared."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from contextlib import closing
from typing import TYPE_CHECKING

from moonpool.bootstrap.kept_files import make_disk_room
from moonpool.bootstrap.recordings import make_sealer
from moonpool.engine.artifacts import ArtifactLimits, Artifacts
from moonpool.features.recordings.model import RecordedCall, RecordingRef
from moonpool.features.recordings.table import RecordingsFile
from moonpool.settings import Settings
from moonpool.store.disk_room import DiskRoom
from moonpool.store.paths import artifacts_dir, plans_path, recordings_path, tenant_dir
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from pathlib import Path

KIB = 1024


def test_what_does_not_fit_is_refused_until_room_was_made() -> None:
    swept: list[tuple[int, AbstractSet[str]]] = []
    go_on = threading.Event()

    def sweep(bytes_max: int, spare: AbstractSet[str]) -> int:
        go_on.wait(30)
        swept.append((bytes_max, spare))
        return 500

    room = DiskRoom(1000, sweep)
    room.open_runs.add("run")
    assert room.take(900) == ""  # much at once, so it looks what others have
    assert "would be larger than 0 MiB (kept_bytes_max)" in room.take(101)
    room.give_back(100)
    assert room.take(150) == ""
    go_on.set()
    wait_until(lambda: room.take(500) == "", within_s=30)  # 500 were found, nothing was written since
    assert room.take(1) != ""
    asyncio.run(room.close())
    assert swept[0] == (750, {"run"})


def test_a_sweep_that_fails_leaves_the_count_as_it_was() -> None:
    looked = threading.Event()

    def sweep(bytes_max: int, spare: AbstractSet[str]) -> int:
        looked.set()
        raise OSError(5, "no disk")

    room = DiskRoom(1000, sweep)
    assert room.take(1000) == ""
    assert looked.wait(30)
    asyncio.run(room.close())
    assert room.take(1) != ""


def record(home: Path, run_id: str, *, at: int) -> None:
    """A recording of some 64 KiB."""
    path = recordings_path(home)
    with closing(RecordingsFile(path, make_sealer(home, {}))) as file, file.transaction():
        where = RecordingRef(
            run_id=run_id, at=f"{at}", principal="p", session_id="s", sandbox_id="x", position=at, bytes=0, problem=""
        )
        file.add_run(where, "d")
        part = RecordedCall(
            seq=1, call_id=1, server_id="s", tool_name="t", arguments_digest="", redacted=False, at_s=0.0,
            arguments=secrets.token_bytes(64 * KIB),
        )  # fmt: skip
        file.add_part(run_id, 1, part)


def artifact(home: Path, run_id: str, *, age_s: int) -> None:
    folder = artifacts_dir(home) / run_id
    folder.mkdir(parents=True)
    (folder / "stdout").write_bytes(bytes(64 * KIB))
    os.utime(folder, (1_000_000 - age_s, 1_000_000 - age_s))


def test_those_tenants_that_have_most_make_room_and_the_oldest_of_theirs_goes_first(tmp_path: Path) -> None:
    settings = Settings.load({}, data_dir=tmp_path, kept_bytes_max=800 * KIB)
    much, little = tenant_dir(tmp_path, "much"), tenant_dir(tmp_path, "little")
    for number in range(6):
        artifact(much, f"run_{number}", age_s=100 - number)
        record(much, f"run_{number}", at=number)
    artifact(little, "run_x", age_s=1000)
    record(little, "run_x", at=0)
    plans_path(much).write_bytes(bytes(32 * KIB))
    room = make_disk_room(settings, tmp_path, {})
    limits = ArtifactLimits(session_bytes_max=10**9, total_bytes_max=10**9, free_bytes_min=0)
    full = Artifacts(artifacts_dir(little), limits, room)
    Artifacts(artifacts_dir(much), limits, room).of_run("run_0", "s").grant(1)  # it goes on
    refused = full.of_run("run_y", "s").grant(801 * KIB)
    assert "all tenants keep would be larger than 0 MiB (kept_bytes_max); run it again" in refused
    full.of_run("run_y", "s").grant(64 * KIB)  # enough to look
    asyncio.run(room.close())
    left = {path.name for path in artifacts_dir(much).iterdir()}
    assert "run_0" in left, "a run that goes on lost its files"
    assert left != {f"run_{number}" for number in range(6)}
    assert "run_5" in left
    assert [path.name for path in artifacts_dir(little).iterdir()] == ["run_x"]
    with closing(RecordingsFile(recordings_path(much), make_sealer(much, {}))) as file:
        kept = [one.run_id for one in file.newest(10)]
    assert kept == [f"run_{number}" for number in (5, 4, 3, 2, 1, 0)][: len(kept)]
    assert 0 < len(kept) < 6
    sizes = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert sizes <= 800 * KIB
    assert room.take(64 * KIB) == ""
