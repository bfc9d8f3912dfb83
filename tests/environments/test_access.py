"""Whether an unprivileged uid reaches a file, judged without being that uid."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from moonpool.environments.access import first_obstacle

if TYPE_CHECKING:
    from pathlib import Path

STRANGER = 54321


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A folder whose own parents are open, as far as this test can see them."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.geteuid() and path.is_relative_to(tmp_path.parent.parent.parent):
            path.chmod(0o755)
    return folder


def test_an_open_folder_has_no_obstacle(open_folder: Path) -> None:
    assert first_obstacle(open_folder, STRANGER) is None


def test_a_closed_parent_is_named(open_folder: Path) -> None:
    open_folder.parent.chmod(0o700)

    assert first_obstacle(open_folder, STRANGER) == open_folder.parent


def test_a_closed_parent_is_open_to_its_owner(open_folder: Path) -> None:
    open_folder.parent.chmod(0o700)

    assert first_obstacle(open_folder, os.geteuid()) is None


def test_an_unreadable_file_is_its_own_obstacle(open_folder: Path) -> None:
    file = open_folder / "python"
    file.write_bytes(b"")
    file.chmod(0o711)

    assert first_obstacle(file, STRANGER) == file


def test_a_folder_that_can_only_be_passed_is_not_readable(open_folder: Path) -> None:
    open_folder.chmod(0o711)

    assert first_obstacle(open_folder, STRANGER) == open_folder


def test_a_link_is_judged_by_where_it_leads(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / "python").write_bytes(b"")
    link = open_folder / "link"
    link.symlink_to(closed / "python")

    assert first_obstacle(link, STRANGER) == closed
