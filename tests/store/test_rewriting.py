"""A file of somebody's own that is changed in place: whole, alone, and nobody else's."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from moonpool.store.private_files import rewrite_own_file

if TYPE_CHECKING:
    from pathlib import Path


def add(path: Path, line: bytes) -> None:
    rewrite_own_file(path, lambda content: content + line, bytes_max=10_000)


def test_no_change_of_many_at_once_is_lost_and_link_and_mode_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "real", tmp_path / "link"
    file.write_bytes(b"")
    file.chmod(0o664)
    link.symlink_to(file)
    lines = [f"{number}\n".encode() for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda line: add(link, line), lines))
    assert sorted(file.read_bytes().splitlines(keepends=True)) == sorted(lines)
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o664
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_what_an_editor_saved_meanwhile_stays(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")

    def change(content: bytes) -> bytes:
        file.write_bytes(b"an editor's")
        return content + b"!"

    with pytest.raises(ValueError, match="by another program meanwhile"):
        rewrite_own_file(file, change, bytes_max=10_000)
    assert file.read_bytes() == b"an editor's"
    assert len(list(tmp_path.iterdir())) == 1


def test_somebody_elses_file_or_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"old")
    link.symlink_to(file)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not your file"):
        add(tmp_path / "pipe", b"x")
    with pytest.raises(ValueError, match="larger than"):
        rewrite_own_file(file, bytes.upper, bytes_max=2)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ValueError, match="not your file"):
        add(file, b"x")
    with pytest.raises(ValueError, match="is a link of uid"):
        add(link, b"x")
    assert file.read_bytes() == b"old"
