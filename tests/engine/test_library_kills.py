"""kill -9 before every step of a change of the library: nothing is in it that is not on record, nothing stays open."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.library_wrecks import CHANGES, FIRST, SECOND, action, change
from moonpool.core.audit import JournalError
from moonpool.core.audit_records import LibraryIntentRecord, LibraryRecord
from moonpool.features.library import table as module
from moonpool.features.library.service import LibraryChanges
from moonpool.features.library.table import LibraryStore
from moonpool.store.fake import MemoryJournal
from moonpool.store.journal_reading import read_rows, verify_file
from moonpool.store.private_files import StoreFolderError

if TYPE_CHECKING:
    from moonpool.core.audit_records import AuditRecord

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WRECKS = Path(__file__).parents[1] / "fixtures" / "library_wrecks.py"
OTHER = action("other", 3)


def digests(data: Path) -> set[str]:
    return {source.digest for source in LibraryStore(data / "library").load().sources}


def records(data: Path) -> list[dict[str, Any]]:
    return [json.loads(row.body) for row in read_rows(data / "audit.sqlite3")]


@pytest.fixture(scope="module")
def wrecks(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Path, str]]:
    """A library for every step of every change, as the death of the process left it."""
    folder = tmp_path_factory.mktemp("wrecks")
    for name in CHANGES:
        (folder / name).mkdir()
        if name != "save":
            asyncio.run(change(folder / name, CHANGES["save"]))
    (folder / "mend" / "library" / "actions" / "one.json").write_bytes(b"damaged")
    done = subprocess.run([sys.executable, str(WRECKS), str(folder)], stdout=subprocess.PIPE, check=True)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return [(name, folder / place, where) for name, place, where in told]


def test_every_step_of_a_change_was_met_by_a_kill(wrecks: list[tuple[str, Path, str]]) -> None:
    for name in CHANGES:
        met = [where.split()[0] for one, _, where in wrecks if one == name and where]
        assert met.count("record") == met.count("recorded") == 2, met
        assert {"write", "replace", "unlink"} <= set(met), met
    assert [name for name, _, where in wrecks if not where] == list(CHANGES)


@pytest.mark.req("H-058")
def test_no_kill_leaves_anything_in_the_library_that_is_not_on_record(wrecks: list[tuple[str, Path, str]]) -> None:
    for place, (name, data, where) in enumerate(wrecks):
        about = (name, where)
        before = records(data) if name != "save" or (data / "audit.sqlite3").exists() else []
        intended = {record["after_digest"] for record in before if record["kind"] == "library_intent"}
        assert digests(data) <= intended, about

        if place % 2:  # the next start of anything
            asyncio.run(change(data, lambda changes: changes.settle()))
        else:  # or the next change
            asyncio.run(change(data, lambda changes: changes.save(OTHER)))

        after = records(data)
        assert verify_file(data / "audit.sqlite3").ok, about
        outcomes = Counter(record["run_id"] for record in after if record["kind"] == "library")
        intents = {record["run_id"] for record in after if record["kind"] == "library_intent"}
        assert set(outcomes.values()) <= {1}, about
        assert intents <= set(outcomes), about
        assert all(record["error_type"] for record in after if record["run_id"] in set(outcomes) - intents), about
        expected: dict[str, str] = {}
        for record in after:
            if record["kind"] == "library" and not record["error_type"]:
                expected[record["entry"]] = record["after_digest"]
        damaged = {FIRST.digest} if name == "mend" else set()
        assert digests(data) == set(expected.values()) - {""} - (damaged - {SECOND.digest}), about
        left = {path.name for path in (data / "library").iterdir()} if (data / "library").exists() else set()
        assert left <= {".changes", "actions", "skills"} | {one for one in left if one.startswith("..change.")}, about
        settled = [record for record in after if record["kind"] == "library" and record["settled"]]
        assert {record["error_type"] for record in settled} <= {"", "interrupted"}, about


def test_a_damaged_entry_is_there_again_when_what_was_to_replace_it_is_not(
    wrecks: list[tuple[str, Path, str]],
) -> None:
    left = {(data / "library" / "actions" / "one.json").read_bytes() for name, data, _ in wrecks if name == "mend"}
    assert len(left) == 2
    assert b"damaged" in left


class LateRefusal(MemoryJournal):
    """Keeps intents; what came of the first change cannot be kept."""

    def __init__(self) -> None:
        super().__init__()
        self._refused = False

    def record(self, entry: AuditRecord) -> asyncio.Future[None]:
        if isinstance(entry, LibraryRecord) and not self._refused:
            self._refused = True
            raise JournalError("the disk is full")
        return super().record(entry)


@pytest.mark.parametrize("harm", [b"", b"damaged"])
async def test_a_change_whose_outcome_cannot_be_recorded_is_taken_back_on_record(tmp_path: Path, harm: bytes) -> None:
    store, journal = LibraryStore(tmp_path), LateRefusal()
    place = tmp_path / "actions" / "one.json"
    await asyncio.to_thread(store.save, FIRST)
    if harm:
        await asyncio.to_thread(place.write_bytes, harm)
    before = await asyncio.to_thread(place.read_bytes)
    changes = LibraryChanges(store, journal, "somebody", has_ended=lambda _: False)
    with pytest.raises(JournalError, match="the disk is full"):
        await changes.save(SECOND, replace=True)
    assert await asyncio.to_thread(place.read_bytes) == before
    [intent, outcome] = journal.entries
    assert isinstance(intent, LibraryIntentRecord)
    assert isinstance(outcome, LibraryRecord)
    assert (outcome.run_id, outcome.error_type) == (intent.run_id, "journal_unavailable")
    assert await changes.settle() is None


async def test_a_first_entry_whose_outcome_cannot_be_recorded_is_gone_again(tmp_path: Path) -> None:
    store = LibraryStore(tmp_path)
    changes = LibraryChanges(store, LateRefusal(), "somebody", has_ended=lambda _: False)
    with pytest.raises(JournalError, match="the disk is full"):
        await changes.save(FIRST)
    assert (await asyncio.to_thread(store.load)).sources == ()


async def test_what_another_saves_meanwhile_is_not_taken_back_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_asks, both = threading.Event(), threading.Barrier(2)
    flock = module.fcntl.flock

    def asking(handle: int, how: int) -> None:
        if threading.current_thread().name == "other":
            other_asks.set()
        flock(handle, how)

    class Failing:
        principal = "somebody"

        def begins(self, _change: object, /) -> None: ...
        def has_ended(self, _change: object, /) -> bool:
            return False

        def ended(self, _change: object, /, *, error_type: str = "", settled: bool = False) -> None:
            if not error_type and not settled:
                both.wait(60)
                assert other_asks.wait(60)
                raise JournalError("the disk is full")

    def another() -> None:
        both.wait(60)
        LibraryStore(tmp_path).save(SECOND, replace=True)

    monkeypatch.setattr(module.fcntl, "flock", asking)
    other = threading.Thread(target=another, name="other")
    other.start()
    with pytest.raises(JournalError):
        await asyncio.to_thread(LibraryStore(tmp_path).save, FIRST, records=Failing())
    await asyncio.to_thread(other.join)
    assert (await asyncio.to_thread(LibraryStore(tmp_path).load)).sources == (SECOND,)


def test_a_damaged_note_stops_changes_and_says_what_to_do(tmp_path: Path) -> None:
    store = LibraryStore(tmp_path)
    store.save(FIRST)
    (tmp_path / ".change").write_bytes(b"{}")
    with pytest.raises(StoreFolderError, match="is damaged, so what became of the last change"):
        store.save(SECOND, replace=True)
    assert store.load().sources == (FIRST,)


def test_a_change_that_goes_on_elsewhere_is_not_settled(tmp_path: Path) -> None:
    going_on, go_on = threading.Event(), threading.Event()

    class Slow:
        principal = "somebody"

        def begins(self, _change: object, /) -> None:
            going_on.set()
            assert go_on.wait(60)

        def has_ended(self, _change: object, /) -> bool:
            return False

        def ended(self, _change: object, /, *, error_type: str = "", settled: bool = False) -> None:
            assert (error_type, settled) == ("", False)

    at_work = threading.Thread(target=LibraryStore(tmp_path).save, args=(FIRST,), kwargs={"records": Slow()})
    at_work.start()
    assert going_on.wait(60)
    assert LibraryStore(tmp_path).settle(Slow()) is None
    go_on.set()
    at_work.join()
    assert LibraryStore(tmp_path).load().sources == (FIRST,)
