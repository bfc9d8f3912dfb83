"""`moonpool threads` and `moonpool volumes`, on the data folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from moonpool.cli.main import app
from moonpool.core.errors import MoonpoolError
from moonpool.features.storage.model import UnknownFileError, UnknownTreeError
from moonpool.settings import Settings
from moonpool.store.journals import journal_reader

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


class Shell:
    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"

    def __call__(self, *words: object) -> Result:
        given = [*map(str, words), "--data-dir", str(self.data)]
        result = CliRunner().invoke(app, given)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def recorded(self) -> list[dict[str, Any]]:
        rows = journal_reader(Settings.load({}, data_dir=self.data), self.data).rows()
        return [dict(row.to_json()) for row in rows if row.kind == "stored_files"]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.req("J-023")
def test_a_file_of_a_thread_goes_in_is_shown_and_comes_out(shell: Shell, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_bytes(b"1,2\n")
    assert "put data/in.csv (4 bytes) into thread t1" in shell("threads", "put", "t1", source, "data/in.csv").stderr
    shell("threads", "put", "t1", source)
    (listed,) = shell("threads", "list", "--json").stdout.splitlines()
    assert {name: json.loads(listed)[name] for name in ("id", "owner", "size", "entries", "held_by")} == {
        "id": "t1", "owner": None, "size": 8, "entries": 2, "held_by": None,
    }  # fmt: skip
    shown = json.loads(shell("threads", "show", "t1", "--json").stdout)
    assert [one["path"] for one in shown["files"]] == ["data", "data/in.csv", "in.csv"]
    assert "data/in.csv" in shell("threads", "show", "t1", "--path", "data").stdout
    target = tmp_path / "out.csv"
    shell("threads", "get", "t1", "data/in.csv", target)
    assert target.read_bytes() == b"1,2\n"
    with pytest.raises(MoonpoolError, match=r"is there already|exists"):
        shell("threads", "get", "t1", "data/in.csv", target)
    shell("threads", "get", "t1", "data/in.csv", target, "--force")
    shell("threads", "delete", "t1")
    assert [(one["action"], one["tree"], one["path"]) for one in shell.recorded()] == [
        ("put", "thread:t1", "data/in.csv"), ("put", "thread:t1", "in.csv"), ("deleted", "thread:t1", ""),
    ]  # fmt: skip
    with pytest.raises(UnknownTreeError, match="list the threads of the organisation"):
        shell("threads", "show", "t1")


def test_threads_of_a_user_are_named_with_their_owner(shell: Shell, tmp_path: Path) -> None:
    source = tmp_path / "x"
    source.write_bytes(b"")
    shell("threads", "put", "t1", source, "--owner", "user:https://login#alice")
    with pytest.raises(UnknownTreeError):
        shell("threads", "show", "t1")
    assert "alice" in shell("threads", "list").stdout
    assert "--org names an organisation" in shell("threads", "list", "--owner", "user:https://login#bob").stderr


@pytest.mark.req("J-036")
def test_volumes_are_made_filled_and_deleted(shell: Shell, tmp_path: Path) -> None:
    source = tmp_path / "x.bin"
    source.write_bytes(b"\0\1")
    with pytest.raises(UnknownTreeError):
        shell("volumes", "put", "shared", source)
    shell("volumes", "create", "shared")
    shell("volumes", "put", "shared", source)
    assert json.loads(shell("volumes", "list", "--json").stdout)["slug"] == "shared"
    shell("volumes", "get", "shared", "x.bin", tmp_path / "y.bin")
    assert (tmp_path / "y.bin").read_bytes() == b"\0\1"
    with pytest.raises(UnknownFileError):
        shell("volumes", "get", "shared", "missing", tmp_path / "z")
    shell("volumes", "delete", "shared")
    assert "--org names an organisation" in shell("volumes", "list").stderr


@pytest.mark.req("F-022")
@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x"])
def test_paths_that_lead_out_are_refused(shell: Shell, tmp_path: Path, path: str) -> None:
    source = tmp_path / "x"
    source.write_bytes(b"1")
    with pytest.raises(MoonpoolError, match="cannot be used"):
        shell("threads", "put", "t1", source, path)
    with pytest.raises(MoonpoolError, match="cannot be used"):
        shell("threads", "get", "t1", path, tmp_path / "y")


def test_an_organisation_that_is_not_there_is_said(shell: Shell) -> None:
    with pytest.raises(MoonpoolError, match="no organisation 'nobody'"):
        shell("threads", "list", "--org", "nobody")
