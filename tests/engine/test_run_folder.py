"""Folders of dead processes go, those of living ones stay, wherever the dead ones were killed."""

from __future__ import annotations

import os
import resource
import threading
from typing import TYPE_CHECKING

import pytest

from moonpool.core.manifest import Manifest
from moonpool.engine.run_folder import run_folder
from moonpool.store.private_files import StoreFolderError
from moonpool.tools.wrapper_tree import write_tree

if TYPE_CHECKING:
    from pathlib import Path


def test_what_a_killed_process_left_is_removed_even_without_its_lock_file(tmp_path: Path) -> None:
    (tmp_path / "killed-early").mkdir()
    (tmp_path / "killed-late" / "slots").mkdir(parents=True)
    (tmp_path / "killed-late" / "lock").touch()
    with run_folder(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]


def test_sandboxes_can_pass_through_it_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0o77)
    try:
        with run_folder(tmp_path) as folder:
            assert folder.stat().st_mode & 0o777 == 0o755
    finally:
        os.umask(before)


def test_a_data_folder_that_cannot_be_written_is_one_sentence_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = r"file/run cannot be written: not a directory; make it writable, or choose another folder: MOONPOOL_DATA_DIR"
    with pytest.raises(StoreFolderError, match=said), run_folder(tmp_path / "file" / "run"):
        pass


def test_a_tree_that_does_not_fit_on_the_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))  # Python ignores the signal: a write fails
    try:
        with pytest.raises(StoreFolderError, match="trees cannot be written: file too large"):
            write_tree(tmp_path / "trees" / "t", Manifest(servers=()), ["one"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((tmp_path / "trees").iterdir()) == []


def test_the_folder_of_a_living_process_stays(tmp_path: Path) -> None:
    with run_folder(tmp_path) as first, run_folder(tmp_path) as second:
        assert {first, second} == set(tmp_path.iterdir())


def test_starts_at_the_same_time_do_not_remove_each_others_folders(tmp_path: Path) -> None:
    together, lost = threading.Barrier(8), list[str]()

    def start() -> None:
        for _ in range(20):
            together.wait()
            with run_folder(tmp_path) as folder:
                together.wait()
                if not (folder / "lock").exists():
                    lost.append(folder.name)
                together.wait()

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == []
