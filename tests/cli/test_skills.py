"""`moonpool skills`: a folder is kept, listed, shown, replaced and forgotten, and each change is on record."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from commands.process import SCRIPT, run_command
from moonpool.cli.skills import app
from moonpool.core.errors import ConfigError, InputError
from moonpool.features.library.model.skills import skill_source
from moonpool.features.library.skill_folder import read_skill_folder
from moonpool.features.library.table import LibraryStore
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path, library_dir

if TYPE_CHECKING:
    import subprocess

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "keep-actions-and-skills.md"
PUBLISHED = Path(__file__).parent.parent / "data" / "skills" / "invoice-check"


def skills(data: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a person starts it."""
    environ = {**os.environ, "MOONPOOL_DATA_DIR": str(data), "COLUMNS": "200"}
    return run_command([SCRIPT, "skills", *arguments], env=environ, cwd=folder, encoding="utf-8")


def _skills(*arguments: str) -> int:
    """The command here; its exit code."""
    return app.main(arguments, standalone_mode=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "mine"
    place.mkdir()
    text = '---\nname: forms\ndescription: "Fill forms\\e[31m."\nmetadata:\n  license: "x\\u202e"\n---\nText \x1b[2J.\n'
    (place / "SKILL.md").write_text(text, encoding="utf-8")
    (place / ".env").touch()
    return place


def keep(data: Path, folder: Path) -> None:
    LibraryStore(library_dir(data)).save(skill_source(read_skill_folder(folder).files, place=str(folder)))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of commands that are run in this process."""
    monkeypatch.setenv("MOONPOOL_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "data"


def test_the_commands_of_the_page_keep_list_show_replace_and_forget(data: Path, tmp_path: Path) -> None:
    """Every command of the section, in its order."""
    shutil.copytree(PUBLISHED, tmp_path / "invoice-check")
    section = PAGE.read_text(encoding="utf-8").partition("## Skills")[2]
    block = section.partition("```sh\n")[2].partition("```")[0]
    told: list[str] = []
    for line in block.splitlines():
        done = skills(data, *line.split()[2:], folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), line
        told.append(done.stdout)

    added, listed, shown, replaced, removed = told
    assert added.startswith("kept skills.invoice-check: 8 files, sha256:")
    assert "Check supplier invoices: adds up positions" in listed
    assert "wants these tools (grants nothing): Bash(python3:*) Read" in shown
    assert "# Checking invoices" in shown
    assert replaced == added
    assert removed == "skills.invoice-check is removed\n"
    digest = added.split()[-1]
    bodies = [json.loads(row.body) for row in read_rows(journal_path(data))]
    told = [(one["kind"], one["action"], one["entry"], one["before_digest"], one["after_digest"]) for one in bodies]
    assert [one[0] for one in told[0::2]] == ["library_intent"] * 3
    assert [one[1:] for one in told[0::2]] == [one[1:] for one in told[1::2]]
    assert told[1::2] == [
        ("library", "saved", "skills.invoice-check", "", digest),
        ("library", "replaced", "skills.invoice-check", digest, digest),
        ("library", "removed", "skills.invoice-check", digest, ""),
    ]


def test_a_name_that_is_taken_is_replaced_only_when_that_is_said(
    data: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(data, folder)
    with pytest.raises(InputError, match="exists already; --replace replaces it"):
        _skills("add", str(folder))
    _skills("add", str(folder), "--replace", "--json")
    report = json.loads(capsys.readouterr().out)
    assert (report["path"], report["files"], report["leftOut"]) == ("skills.forms", 1, [".env"])


def test_the_example_of_the_page_is_a_skill() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Skills")[2]
    example = section.partition("```markdown\n")[2].partition("```")[0]
    assert skill_source({"SKILL.md": example.encode()}, place="page").name == "invoice-check"


def test_what_an_author_wrote_does_not_act_on_the_terminal(
    data: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _skills("add", str(folder))
    assert capsys.readouterr().err == "moonpool: left out: .env\n"
    _skills("show", "forms")
    shown = capsys.readouterr().out
    assert "metadata: license = x\\u202e" in shown
    assert "Text \\x1b[2J." in shown
    assert all(char.isprintable() or char == "\n" for char in shown)
    _skills("show", "forms", "--json")
    members = json.loads(capsys.readouterr().out)
    assert (members["name"], members["allowedTools"], list(members["files"])) == ("forms", [], ["SKILL.md"])


def test_a_folder_that_cannot_be_kept_changes_nothing(data: Path, folder: Path) -> None:
    (folder / "link").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="'link': it is a symbolic link; put what it leads to in its place"):
        _skills("add", str(folder))
    assert list(read_rows(journal_path(data))) == []
    assert LibraryStore(library_dir(data)).load().sources == ()


def test_a_damaged_skill_is_named_and_the_others_are_listed(
    data: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(data, folder)
    keep(data, PUBLISHED)
    (data / "private/library/skills/forms.json").write_text("{", encoding="utf-8")
    _skills("list", "--json")
    told = capsys.readouterr()
    assert [json.loads(line)["name"] for line in told.out.splitlines()] == ["invoice-check"]
    assert "skill 'forms' is left out: its file is damaged (not JSON)" in told.err
    with pytest.raises(InputError, match="cannot be read"):
        _skills("show", "forms")
    assert _skills("remove", "forms") == 0


def test_a_configuration_that_cannot_be_read_keeps_nothing_from_being_removed(
    data: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(data, folder)
    monkeypatch.chdir(folder)
    (folder / "moonpool.json").write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError):
        _skills("add", str(folder), "--replace")
    assert _skills("remove", "forms") == 0


def test_what_looks_like_a_secret_is_refused_with_its_file(data: Path, folder: Path) -> None:
    (folder / "notes.md").write_text(
        "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n", encoding="utf-8"
    )
    (folder / "other.md").write_text("password: of the example", encoding="utf-8")
    with pytest.raises(InputError, match=r"skill 'forms' \(notes.md\) holds a secret or what looks like one"):
        _skills("add", str(folder))
    assert LibraryStore(library_dir(data)).load().sources == ()


def test_none_is_said_and_an_unknown_one_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _skills("list")
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "moonpool: no skills; `moonpool skills add FOLDER` keeps one\n")
    for command in (lambda: _skills("show", "forms", "--json"), lambda: _skills("remove", "forms")):
        with pytest.raises(InputError, match="there is no skill 'forms'; `moonpool skills list` shows all"):
            command()
