"""A server is forgotten with its package, in the folders that are named and in no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from moonpool.core.errors import ConfigError
from moonpool.store.private_files import private_folder
from moonpool.store.server_registrations import (
    forget_removed,
    read_registrations,
    registrations_folder,
    write_registrations,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    private_folder(tmp_path / "data/private")
    return private_folder(registrations_folder(tmp_path / "data"))


def test_what_has_no_package_is_forgotten_below_the_folders_only(folder: Path, tmp_path: Path) -> None:
    for name in ("work", "work2", "gone"):
        root = tmp_path / name / "mcptools"
        if name != "gone":
            (root / "kept").mkdir(parents=True)
            (root / "file").touch()
        servers = {server: {"command": server} for server in ("kept", "removed", "file")}
        write_registrations(folder / f"{name}.json", root, servers, {"kept": True, "removed": True})
    roots = forget_removed(tmp_path / "data", [tmp_path / "work", tmp_path / "gone" / "mcptools"])
    assert roots == [tmp_path / "work" / "mcptools"]
    assert read_registrations(folder / "work.json") == {"kept": {"command": "kept"}}
    assert read_registrations(folder / "work.json", "async_api") == {"kept": True}
    assert read_registrations(folder / "gone.json") == {}
    assert len(read_registrations(folder / "work2.json")) == 3


def test_a_document_that_cannot_be_read_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "broken.json").write_text("[", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"broken\.json cannot be read .*; remove it and generate"):
        forget_removed(tmp_path / "data", [tmp_path])


def test_nothing_is_made_where_no_server_was_registered(tmp_path: Path) -> None:
    assert forget_removed(tmp_path / "data", [tmp_path]) == []
    assert not (tmp_path / "data").exists()
