"""A skill's folder is read as it lies there, or refused with the first thing that cannot be taken."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from moonpool.core.errors import InputError
from moonpool.features.library.model.skills import read_skill, skill_source
from moonpool.features.library.skill_folder import DEPTH_MAX, ENTRIES_MAX, read_skill_folder
from moonpool.features.library.table import LibraryStore

PUBLISHED = Path(__file__).parent.parent / "data" / "skills" / "invoice-check"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "forms"
    (place / "scripts").mkdir(parents=True)
    (place / "SKILL.md").write_text("---\nname: forms\ndescription: Fill forms.\n---\n", encoding="utf-8")
    (place / "scripts" / "fill.py").write_text("x = 1\n", encoding="utf-8")
    return place


def test_a_skill_as_people_publish_them_is_read_kept_and_read_again(tmp_path: Path) -> None:
    found = read_skill_folder(PUBLISHED)
    assert set(found.files) == {
        "LICENSE.txt", "SKILL.md", "assets/logo.png", "assets/template.csv", "references/formats/ubl.md",
        "references/tax-rates.md", "scripts/check_totals.py", "scripts/count-rows.sh",
    }  # fmt: skip
    source = skill_source(found.files, place=str(PUBLISHED))
    store = LibraryStore(tmp_path / "library")
    store.save(source)
    (again,) = store.load().sources
    assert (again.name, again.digest, again.files) == ("invoice-check", source.digest, found.files)
    assert read_skill(again).description.startswith("Check supplier invoices: adds up positions")


def test_what_begins_with_a_dot_is_left_out_and_named(folder: Path) -> None:
    objects = folder / ".git" / "objects"
    objects.mkdir(parents=True)
    for number in range(ENTRIES_MAX + 100):  # as many as a repository has; they are not even looked at
        (objects / str(number)).touch()
    (folder / ".env").write_text("TOKEN=1", encoding="utf-8")
    (folder / "scripts" / "__pycache__").mkdir()
    (folder / "scripts" / ".DS_Store").touch()
    (folder / "scripts" / ".link").symlink_to("/etc/passwd")

    found = read_skill_folder(folder)

    assert set(found.files) == {"SKILL.md", "scripts/fill.py"}
    assert found.left_out == [".env", ".git", "scripts/.DS_Store", "scripts/.link", "scripts/__pycache__"]


def test_neither_owner_nor_mode_matters(folder: Path) -> None:
    before = skill_source(read_skill_folder(folder).files, place="x").digest
    (folder / "scripts" / "fill.py").chmod(0o4755)
    assert skill_source(read_skill_folder(folder).files, place="x").digest == before


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param("link.md", "/etc/passwd", id="to a file outside"),
        pytest.param("inside.md", "SKILL.md", id="to a file inside"),
        pytest.param("up", "..", id="to a folder above"),
        pytest.param("loop", "loop", id="to itself"),
        pytest.param("gone", "nowhere", id="to nothing"),
    ],
)
def test_symbolic_links_are_refused(folder: Path, name: str, target: str) -> None:
    (folder / name).symlink_to(target)
    with pytest.raises(InputError, match=f"'{name}': it is a symbolic link; put what it leads to"):
        read_skill_folder(folder)


def test_pipes_and_sockets_are_refused_and_never_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(InputError, match="'pipe': it is a pipe"):
        read_skill_folder(folder)
    (folder / "pipe").unlink()
    monkeypatch.chdir(folder)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
        with pytest.raises(InputError, match="'sock': it is a socket"):
            read_skill_folder(folder)


def test_a_file_that_becomes_a_link_meanwhile_is_not_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stat sees a plain file; the opening meets a link."""
    secret = folder.parent / "secret"
    secret.write_text("s", encoding="utf-8")
    really_open = os.open

    def swap(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        if path == "fill.py":
            (folder / "scripts" / "fill.py").unlink()
            (folder / "scripts" / "fill.py").symlink_to(secret)
        return really_open(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap)
    with pytest.raises(InputError, match="'scripts'"):
        read_skill_folder(folder)


def test_10_000_files_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = folder / "many"
    many.mkdir()
    for number in range(ENTRIES_MAX + 1):
        (many / f"{number}").touch()
    with pytest.raises(InputError, match="holds more than 2,000 files and folders; give a folder that holds one skill"):
        read_skill_folder(folder)
    for number in range(200, ENTRIES_MAX + 1):
        (many / f"{number}").unlink()
    with pytest.raises(InputError, match="holds more than 100 files"):
        read_skill_folder(folder)


def test_no_more_than_the_cap_is_read_of_a_huge_file(folder: Path) -> None:
    with (folder / "huge.bin").open("wb") as file:
        file.truncate(10 * 1024**4)  # sparse: nobody could hold it
    with pytest.raises(InputError, match=r"holds more than 1,048,576 bytes.*'huge.bin' is one too many"):
        read_skill_folder(folder)


def test_folders_without_end_are_refused(folder: Path) -> None:
    folder.joinpath(*"abcdefghi").mkdir(parents=True)
    with pytest.raises(InputError, match=f"it is {DEPTH_MAX} folders deep"):
        read_skill_folder(folder)


def test_a_name_that_is_no_text_is_refused(folder: Path) -> None:
    (folder / os.fsdecode(b"a\xff")).touch()
    with pytest.raises(InputError, match="its name is not UTF-8") as refused:
        read_skill_folder(folder)
    assert str(refused.value).isprintable()


def test_a_folder_that_becomes_a_link_between_a_look_and_its_opening_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "key").write_text("not theirs", encoding="utf-8")
    look = os.stat

    def look_and_replace(name: str, **options: Any) -> os.stat_result:
        state = look(name, **options)
        if name == "scripts":
            (folder / name).rename(folder.parent / "moved")
            (folder / name).symlink_to(elsewhere)
        return state

    monkeypatch.setattr(os, "stat", look_and_replace)
    with pytest.raises(InputError, match=r"not a directory|too many levels"):
        read_skill_folder(folder)


def test_a_link_to_the_folder_itself_is_the_person_s_own(folder: Path) -> None:
    (folder.parent / "link").symlink_to(folder)
    assert "SKILL.md" in read_skill_folder(folder.parent / "link").files


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("forms/SKILL.md", "is not a folder; give the folder that SKILL.md is in"),
        ("nowhere", "no such file or directory; give the folder"),
        ("a\0b", "no path; give the folder"),
    ],
)
def test_what_is_no_folder_is_refused(folder: Path, name: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_skill_folder(folder.parent / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_says_so(folder: Path) -> None:
    (folder / "scripts").chmod(0)
    with pytest.raises(InputError, match="permission denied"):
        read_skill_folder(folder)
    (folder / "scripts").chmod(0o700)
