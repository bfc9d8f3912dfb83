"""Actions and skills on disk: private, atomic, one at a time, and a damaged one loses only itself."""

from __future__ import annotations

import errno
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from moonpool.core.errors import InputError
from moonpool.features.library import table as module
from moonpool.features.library.model.bounds import ACTION_FILE, ENTRIES_MAX
from moonpool.features.library.model.entries import LibrarySource
from moonpool.features.library.table import LibraryStore
from moonpool.store.private_files import StoreFolderError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def action(name: str, code: bytes = b"def run(): ...\n") -> LibrarySource:
    return LibrarySource(kind="action", name=name, files={ACTION_FILE: code})


def skill(name: str, body: bytes = b"# A skill\n") -> LibrarySource:
    return LibrarySource(kind="skill", name=name, files={"SKILL.md": body, "scripts/a.py": b"x = 1\n"})


def names(store: LibraryStore) -> list[str]:
    return [source.name for source in store.load().sources]


def test_what_is_saved_is_found_again_by_kind_and_name(tmp_path: Path) -> None:
    store = LibraryStore(tmp_path / "library")
    assert store.load().sources == ()
    assert store.save(action("b")) is None
    assert store.save(action("a.x")) is None
    assert store.save(skill("pdf-forms")) is None

    assert store.load().sources == (action("a.x"), action("b"), skill("pdf-forms"))
    assert store.load().problems == ()
    assert store.find("action", "a.x") == action("a.x")
    assert store.find("skill", "b") is None


def test_folders_and_files_are_for_their_owner_only(tmp_path: Path) -> None:
    LibraryStore(tmp_path / "library").save(action("a"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "library").rglob("*")}
    assert modes == {".changes": 0o600, "actions": 0o700, "skills": 0o700, "a.json": 0o600}


def test_a_name_that_is_taken_is_replaced_only_on_demand(tmp_path: Path) -> None:
    store = LibraryStore(tmp_path)
    store.save(action("a"))
    with pytest.raises(InputError, match="exists already; --replace"):
        store.save(action("a", b"other"))
    assert store.save(action("a", b"other"), replace=True) == action("a")
    assert store.load().sources == (action("a", b"other"),)


@pytest.mark.parametrize(("first", "second"), [("git", "git.x"), ("git.x", "Git"), ("git.x", "GIT.y")])
def test_a_name_that_clashes_is_refused(tmp_path: Path, first: str, second: str) -> None:
    store = LibraryStore(tmp_path)
    store.save(action(first))
    with pytest.raises(InputError, match="choose another name"):
        store.save(action(second))
    assert names(store) == [first]


def test_removing_says_what_was_removed(tmp_path: Path) -> None:
    store = LibraryStore(tmp_path)
    store.save(action("a"))
    assert store.remove("action", "a") == action("a")
    assert names(store) == []
    with pytest.raises(InputError, match="there is no action 'a'"):
        store.remove("action", "a")
    with pytest.raises(InputError, match="is no name"):
        store.remove("action", "../../etc/passwd")


def test_the_stamp_moves_with_every_change(tmp_path: Path) -> None:
    store = LibraryStore(tmp_path)
    stamps = [store.stamp()]
    for change in (
        lambda: store.save(action("a")),
        lambda: store.save(action("a", b"2"), replace=True),
        lambda: store.save(action("b")),
        lambda: store.remove("action", "a"),
    ):
        change()
        stamps.append(store.stamp())
    assert len(set(stamps)) == len(stamps)
    assert store.stamp() == stamps[-1]


def written(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def changed_code(path: Path) -> None:
    stored = json.loads(path.read_bytes())
    stored["files"] = action("b", b"other").to_json()["files"]
    path.write_text(json.dumps(stored), encoding="utf-8")


def renamed(path: Path) -> None:
    path.write_text(json.dumps({"format": 1, **action("c").to_json()}), encoding="utf-8")


def link(path: Path) -> None:
    path.rename(path.with_suffix(".aside"))
    path.symlink_to(path.with_suffix(".aside"))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        pytest.param(written(b""), "not JSON", id="empty"),
        pytest.param(written(b"\xff"), "not JSON", id="no text"),
        pytest.param(written(b"[" * 100_000), "damaged", id="deep"),
        pytest.param(written(b"[1]"), "another format", id="a list"),
        pytest.param(written(b'{"format":9}'), "another format", id="another format"),
        pytest.param(written(b'{"format":1}'), "not an entry", id="no entry"),
        pytest.param(written(b" " * (module.FILE_BYTES_MAX + 1)), "larger than", id="large"),
        pytest.param(changed_code, "changed after it had been saved", id="changed by hand"),
        pytest.param(renamed, "another name", id="renamed"),
        pytest.param(link, "cannot be read", id="a link"),
        pytest.param(pipe, "not a file of this user", id="a pipe"),
        pytest.param(folder, "not a file of this user|cannot be read", id="a folder"),
    ],
)
def test_a_damaged_entry_loses_only_itself(tmp_path: Path, harm: Callable[[Path], object], reason: str) -> None:
    store = LibraryStore(tmp_path)
    for name in ("a", "b", "d"):
        store.save(action(name))
    harm(tmp_path / "actions" / "b.json")

    found = store.load()
    assert [source.name for source in found.sources] == ["a", "d"]
    [problem] = found.problems
    assert (problem.kind, problem.name) == ("action", "b")
    assert str(problem).startswith("action 'b' is left out: its file ")
    with pytest.raises(InputError, match=reason):
        store.find("action", "b")


def test_a_damaged_entry_can_be_removed_and_replaced(tmp_path: Path) -> None:
    store = LibraryStore(tmp_path)
    for name in ("a", "b"):
        store.save(action(name))
        (tmp_path / "actions" / f"{name}.json").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="exists already"):
        store.save(action("a"))
    assert store.save(action("a"), replace=True) is None
    assert store.remove("action", "b") is None
    assert names(store) == ["a"]
    assert store.load().problems == ()


def test_a_file_of_a_name_that_cannot_be_one_is_left_out(tmp_path: Path) -> None:
    store = LibraryStore(tmp_path)
    store.save(action("a"))
    (tmp_path / "actions" / "no-name.json").write_text(
        json.dumps({"format": 1, **action("a").to_json()}), encoding="utf-8"
    )
    assert names(store) == ["a"]
    assert [problem.name for problem in store.load().problems] == ["no-name"]


def test_a_full_library_takes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LibraryStore(tmp_path)
    monkeypatch.setattr(module, "LIBRARY_BYTES_MAX", 100)
    store.save(action("a", b"x" * 90))
    with pytest.raises(InputError, match="larger than 100 bytes; remove something"):
        store.save(action("b", b"x" * 11))
    store.save(action("a", b"x" * 100), replace=True)
    monkeypatch.setattr(module, "ENTRIES_MAX", 1)
    with pytest.raises(InputError, match="there are 1 actions already"):
        store.save(action("c", b""))
    store.save(action("a", b"y" * 100), replace=True)


def test_more_entries_than_are_allowed_are_left_out(tmp_path: Path) -> None:
    store = LibraryStore(tmp_path)
    store.save(action("a0"))
    for number in range(ENTRIES_MAX + 1):
        stored = {"format": 1, **action(f"b{number:03}").to_json()}
        (tmp_path / "actions" / f"b{number:03}.json").write_text(json.dumps(stored), encoding="utf-8")
    found = store.load()
    assert len(found.sources) == ENTRIES_MAX
    assert [problem.name for problem in found.problems] == ["b199", "b200"]


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(LibraryStore(tmp_path).save, [action(f"a{number}") for number in range(24)]))
    assert len(names(LibraryStore(tmp_path))) == 24


def test_a_folder_that_is_a_file_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "library").write_bytes(b"")
    store = LibraryStore(tmp_path / "library")
    assert store.load().sources == ()
    with pytest.raises(StoreFolderError, match="library"):
        store.save(action("a"))


def test_a_disk_that_is_full_leaves_the_library_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LibraryStore(tmp_path)
    store.save(action("a"))

    def full(_handle: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module.os, "write", full)  # of the file that tells of changes; entries go through a file object
    for change in (lambda: store.save(action("b")), lambda: store.remove("action", "a")):
        with pytest.raises(StoreFolderError, match="No space left"):
            change()
    assert names(store) == ["a"]
