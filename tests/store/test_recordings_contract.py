"""What both keepers of recordings promise, and what only the file does: bounds, retention, seals, damage."""

from __future__ import annotations

import math
import secrets
import sqlite3
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import msgspec
import pytest

from moonpool.core.shares import fair_share
from moonpool.features.recordings.model import (
    RUN_BYTES_MAX,
    NotReplayable,
    RecordedCall,
    RecordedInstall,
    RecordedPackage,
    RecordedReply,
    RecordingError,
    RecordingRef,
    RunEnd,
    RunHeader,
    SharedPart,
)
from moonpool.features.recordings.table import RecordingsFile
from moonpool.features.recordings.writer import RecordingWriter
from moonpool.store.sealing import Sealer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from moonpool.features.recordings.model import RecordingReader, Recordings

    Keeper = Callable[[Callable[[Recordings], None]], RecordingReader]

SHARED = SharedPart(tree_digest="t", manifest_digest="m", servers=(b"{}",))


def header(run_id: str, code: str = "x = 1", *, position: int = 0) -> RunHeader:
    return RunHeader(
        run_id=run_id,
        at="2026-11-21T00:00:00Z",
        session_id="s",
        sandbox_id="box",
        position=position,
        language="python",
        name="<code>",
        code=code,
        principal="local:me",
        environment="base",
        environment_id="base@1",
        backend="zygote",
        version="1",
        hash_seed=7,
        final=True,
        timeout_s=60.0,
        shared="d",
        settings={"memory_bytes_max": 1},
    )


def ref(run_id: str, position: int = 0, principal: str = "local:me") -> RecordingRef:
    return RecordingRef(
        run_id=run_id,
        at="2026-11-21T00:00:00Z",
        principal=principal,
        session_id="s",
        sandbox_id="box",
        position=position,
        bytes=0,
    )


def begin(
    storage: Recordings, run_id: str, code: str = "x = 1", *, position: int = 0, principal: str = "local:me"
) -> None:
    storage.begin(
        ref(run_id, position, principal), ("d", lambda: SHARED), lambda: header(run_id, code, position=position)
    )


def call(seq: int) -> RecordedCall:
    return RecordedCall(
        seq=seq,
        call_id=seq,
        server_id="s",
        tool_name="t",
        arguments_digest="sha256:0",
        arguments=b"{}",
        redacted=False,
        at_s=0.0,
    )


def reply(seq: int, body: bytes = b"{}") -> RecordedReply:
    return RecordedReply(seq=seq, place=seq, reply=body, result_digest="", result_bytes=2, at_s=0.0)


def sealer(folder: Path, key: str = "") -> Sealer:
    return Sealer(folder / "secrets", {"MOONPOOL_SECRETS_KEY": key} if key else {}, "recordings")


@contextmanager
def writing(
    folder: Path,
    *,
    days: float = 7,
    bytes_max: int = 10**9,
    key: str = "",
    take: Callable[[int], str] = lambda _: "",
) -> Generator[RecordingWriter]:
    path = folder / "private" / "r.sqlite3"
    writer = RecordingWriter(path, sealer(folder, key), days=days, bytes_max=bytes_max, take=take)
    try:
        yield writer
    finally:
        writer.close()


def reader(folder: Path, key: str = "") -> RecordingsFile:
    return RecordingsFile(folder / "private" / "r.sqlite3", sealer(folder, key), make=False)


def come_so_far(writer: RecordingWriter, run_id: str) -> None:
    """Return when the writer's thread has this run before it."""
    there = threading.Event()

    def make() -> RecordedCall:
        there.set()
        return call(1)

    writer.add(run_id, make)
    assert there.wait(30)


@pytest.fixture
def storage(tmp_path: Path) -> Keeper:
    """Writes with a function, and gives what reads it."""

    def keep(write: Callable[[Recordings], None]) -> RecordingReader:
        with writing(tmp_path) as writer:
            write(writer)
        return reader(tmp_path)

    return keep


def test_a_recording_comes_back_as_it_was_written(storage: Keeper) -> None:
    def write(recordings: Recordings) -> None:
        begin(recordings, "run_1", "print(1)")
        recordings.add("run_1", lambda: call(1))
        recordings.add("run_1", lambda: reply(1, b'{"ok": true}'))
        recordings.add("run_1", lambda: installed)
        recordings.add("run_1", lambda: RunEnd(envelope=b"{}", nondeterminism_log=b"log"))

    package = RecordedPackage(name="numpy", version="2", sha256="0" * 64)
    installed = RecordedInstall(asked_digest="sha256:1", reply=b"{}", packages=(package,))
    found = storage(write).load("run_1")
    assert (found.header, found.shared) == (header("run_1", "print(1)"), SHARED)
    assert (found.calls, found.replies) == ((call(1),), (reply(1, b'{"ok": true}'),))
    assert found.installs == (installed,)
    assert found.end == RunEnd(envelope=b"{}", nondeterminism_log=b"log")


def test_the_end_of_a_recording_of_0_1_0_is_read() -> None:
    stored = msgspec.msgpack.encode({"envelope": b"{}", "forced": "timeout", "tape": b"log"})
    end = RunEnd(envelope=b"{}", forced="timeout", nondeterminism_log=b"log")
    assert msgspec.msgpack.decode(stored, type=RunEnd) == end


def test_a_recording_without_an_end_is_read_as_far_as_it_goes(storage: Keeper) -> None:
    def write(recordings: Recordings) -> None:
        begin(recordings, "run_1")
        recordings.add("run_1", lambda: call(1))

    found = storage(write).load("run_1")
    assert found.end is None
    assert found.calls == (call(1),)


def test_what_cannot_be_recorded_says_why_and_keeps_nothing_else(storage: Keeper) -> None:
    def write(recordings: Recordings) -> None:
        def refuse() -> RecordedCall:
            raise NotReplayable("it holds a secret")

        begin(recordings, "run_1")
        recordings.add("run_1", refuse)
        recordings.add("run_1", lambda: call(2))

    with pytest.raises(RecordingError, match="it holds a secret"):
        storage(write).load("run_1")


def test_executions_of_a_sandbox_are_listed_in_their_order_and_can_be_removed(storage: Keeper) -> None:
    def write(recordings: Recordings) -> None:
        begin(recordings, "run_b", position=1)
        begin(recordings, "run_a", position=0)

    found = storage(write)
    assert [one.run_id for one in found.of_sandbox("box")] == ["run_a", "run_b"]
    assert found.remove(["run_a", "run_x"]) == 1
    assert [one.run_id for one in found.newest(10)] == ["run_b"]
    assert found.remove(None) == 1


def test_an_execution_that_was_never_recorded_is_an_error_with_a_remedy(storage: Keeper) -> None:
    with pytest.raises(RecordingError, match="not recorded"):
        storage(lambda recordings: begin(recordings, "run_1")).load("run_2")


def test_too_much_makes_one_recording_not_replayable(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        begin(writer, "run_1")
        writer.add("run_1", lambda: call(1))
        writer.add("run_1", lambda: reply(1, b"x" * RUN_BYTES_MAX))
        begin(writer, "run_2")
    with pytest.raises(RecordingError, match="larger than 16 MiB"):
        reader(tmp_path).load("run_1")
    assert reader(tmp_path).load("run_2").header.run_id == "run_2"


def test_a_bug_while_a_part_is_made_costs_that_recording_only(tmp_path: Path) -> None:
    def broken() -> RecordedCall:
        raise KeyError("the secret value")

    with writing(tmp_path) as writer:
        begin(writer, "run_1")
        writer.add("run_1", broken)
        begin(writer, "run_2")
    with pytest.raises(RecordingError, match=r"KeyError\); this is a bug"):
        reader(tmp_path).load("run_1")
    assert reader(tmp_path).load("run_2")


def test_the_oldest_make_room_and_what_nobody_shares_any_more_goes_too(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        for number in range(3):
            begin(writer, f"run_{number}", "#" * 10_000)
    file = reader(tmp_path)
    file.tidy(days=7, bytes_max=25_000)
    assert [one.run_id for one in file.newest(10)] == ["run_2", "run_1"]
    file.tidy(days=0, bytes_max=25_000)
    assert file.newest(10) == []
    assert not file.has_shared("d")


def test_large_recordings_make_room_before_they_are_many(tmp_path: Path) -> None:
    with writing(tmp_path, bytes_max=100_000) as writer:
        for number in range(60):
            begin(writer, f"run_{number:02}", "#" * 10_000)
            if number % 10 == 9:  # not all in one batch
                come_so_far(writer, f"run_{number:02}")
    kept = reader(tmp_path).newest(100)
    assert kept[0].run_id == "run_59"
    assert sum(one.bytes for one in kept) <= 100_000 + 100_000 // 8 + 10 * 10_500


def test_who_has_most_makes_room_with_his_oldest(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        begin(writer, "run_a0", "#" * 10_000, principal="a")
        for number in range(9):
            begin(writer, f"run_b{number}", "#" * 10_000, principal="b")
        begin(writer, "run_c0", "#" * 10_000, principal="c")
    file = reader(tmp_path)
    file.tidy(days=7, bytes_max=65_000)
    assert sorted((one.principal, one.run_id) for one in file.newest(20)) == [
        ("a", "run_a0"), *(("b", f"run_b{number}") for number in range(5, 9)), ("c", "run_c0"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "room", "share"),
    [
        pytest.param([], 10, math.inf, id="nobody"),
        pytest.param([3, 7], 10, math.inf, id="it fits"),
        pytest.param([20], 10, 10, id="alone"),
        pytest.param([20, 30], 10, 5, id="equal parts"),
        pytest.param([1, 2, 30], 10, 7, id="what the small leave is for the large"),
        pytest.param([3, 4, 4], 10, 3.5, id="hardly too much"),
    ],
)
def test_a_fair_share_takes_from_those_who_have_most(sizes: list[int], room: int, share: float) -> None:
    assert fair_share(sizes, room) == share


def test_a_recording_that_goes_while_it_is_written_leaves_nothing(tmp_path: Path) -> None:
    with writing(tmp_path, bytes_max=1_000) as writer:
        begin(writer, "run_1", "#" * 10_000)
        come_so_far(writer, "run_1")
        writer.add("run_1", lambda: call(1))  # in another batch, before which it had to make room
        writer.add("run_1", lambda: reply(1))
    with closing(sqlite3.connect(tmp_path / "private" / "r.sqlite3")) as connection:
        kept = connection.execute("SELECT run_id FROM run UNION ALL SELECT run_id FROM part").fetchall()
    assert kept == []


def test_a_file_of_before_tells_nobody_apart_and_is_read(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        begin(writer, "run_1")
    with closing(sqlite3.connect(tmp_path / "private" / "r.sqlite3")) as connection:
        connection.executescript(
            "DROP INDEX run_by_principal; ALTER TABLE run DROP COLUMN principal; PRAGMA user_version=1"
        )
    with writing(tmp_path) as writer:
        begin(writer, "run_2", principal="a")
    found = reader(tmp_path)
    assert [(one.run_id, one.principal) for one in found.newest(9)] == [("run_2", "a"), ("run_1", "")]
    assert found.load("run_1").header.principal == "local:me"


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        begin(writer, "run_1")
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "private" / "r.sqlite3").stat().st_mode & 0o777 == 0o600


def test_contents_are_sealed_where_there_is_a_key(tmp_path: Path) -> None:
    key = secrets.token_hex(32)
    with writing(tmp_path, key=key) as writer:
        begin(writer, "run_1", "print('canary-code')")
    kept = b"".join(one.read_bytes() for one in (tmp_path / "private").iterdir())
    assert b"canary-code" not in kept
    assert reader(tmp_path, key).load("run_1").header.code == "print('canary-code')"
    with pytest.raises(RecordingError, match="another key"):
        reader(tmp_path, secrets.token_hex(32)).load("run_1")


def test_a_part_that_was_changed_or_moved_is_refused(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        begin(writer, "run_1")
        writer.add("run_1", lambda: call(1))
    connection = sqlite3.connect(tmp_path / "private" / "r.sqlite3", isolation_level=None)
    connection.execute("UPDATE part SET body = x'00ff' WHERE number = 1")
    connection.close()
    with pytest.raises(RecordingError, match="damaged or was changed"):
        reader(tmp_path).load("run_1")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE part SET body = 'text' WHERE number = 1",
        "UPDATE part SET number = 'one' WHERE number = 1",
        "UPDATE part SET body = zeroblob(40000000) WHERE number = 1; UPDATE run SET bytes = 'few'",
    ],
)
def test_values_of_other_types_are_damage(tmp_path: Path, statement: str) -> None:
    with writing(tmp_path) as writer:
        begin(writer, "run_1")
        writer.add("run_1", lambda: call(1))
    connection = sqlite3.connect(tmp_path / "private" / "r.sqlite3", isolation_level=None)
    connection.executescript(statement)
    connection.execute("UPDATE run SET at = x'00ff', position = 'first'")
    connection.close()
    found = reader(tmp_path)
    with pytest.raises(RecordingError, match="damaged or was changed"):
        found.load("run_1")
    assert [(one.at, one.position) for one in found.newest(1)] == [("b'\\x00\\xff'", -1)]


def test_a_damaged_file_is_told_of_and_stops_no_execution(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "private" / "r.sqlite3").write_bytes(b"no database at all" * 100)
    with writing(tmp_path) as writer:
        begin(writer, "run_1")
        writer.add("run_1", lambda: call(1))
    assert "executions are not recorded from now on" in caplog.text
    with pytest.raises(RecordingError, match="is damaged; remove it"):
        reader(tmp_path)


def test_without_a_recording_there_is_no_file_to_read(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="MOONPOOL_RECORD"):
        reader(tmp_path)


def test_a_recording_above_what_all_tenants_may_keep_is_none_and_says_why(tmp_path: Path) -> None:
    taken: list[int] = []

    def take(count: int) -> str:
        taken.append(count)
        return "" if len(taken) < 3 else "all is full"

    with writing(tmp_path, take=take) as writer:
        for run in ("run_1", "run_2"):
            begin(writer, run)
            writer.add(run, lambda: call(1))
    assert reader(tmp_path).load("run_1").calls == (call(1),)
    with pytest.raises(RecordingError, match="run_2 cannot be replayed: all is full"):
        reader(tmp_path).load("run_2")
