"""What may stand in a library, under which names and paths, and what its digest says."""

from __future__ import annotations

import pytest

from moonpool.core.errors import InputError
from moonpool.features.library.model.bounds import ACTION_FILE, BYTES_MAX, Kind, check_name, clash
from moonpool.features.library.model.entries import Library, LibraryEntry, LibrarySource
from tables import every_row

CODE = b'"""Say hello."""\ndef run() -> str:\n    return "hello"\n'


def source(**changes: object) -> LibrarySource:
    values: dict[str, object] = {"kind": "action", "name": "github.top_commits", "files": {ACTION_FILE: CODE}}
    return LibrarySource(**{**values, **changes})  # pyright: ignore[reportArgumentType]


def entry(name: str, *, kind: Kind = "action", files: dict[str, bytes] | None = None, text: str = "") -> LibraryEntry:
    files = {f"{name.replace('.', '/')}.py": CODE} if files is None else files
    return LibraryEntry(kind=kind, name=name, description=text, files=files, digest="sha256:" + "0" * 64)


@pytest.mark.parametrize("name", ["run", "github.top_commits", "A.b2", "x" * 64])
def test_an_action_is_called_like_what_is_imported(name: str) -> None:
    assert check_name("action", name) == name


@every_row(
    "name",
    [
        *("", ".", "a.", ".a", "a.b.c", "a/b", "../a", "a..b", "a-b", "a b", "1a", "_a", "__init__", "a.__init__"),
        *("class", "a.import", "None", "ä", "ａ", "a\n", "a\0", "a.b\n", "x" * 65),
    ],
)
def test_what_is_no_name_of_an_action_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="is no name for an action"):
        check_name("action", name)


@every_row("name", ["", "-a", "a-", "a--b", "A", "a_b", "a.b", "../a", "a\n", "x" * 65])
def test_what_is_no_name_of_a_skill_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="is no name for a skill"):
        check_name("skill", name)


@pytest.mark.parametrize(
    ("name", "other", "problem"),
    [
        ("a", "A", "case only"),
        ("git.x", "git.X", "case only"),
        ("git.x", "Git.y", "category differs"),
        ("git", "git.x", "an action and a category"),
        ("git.x", "git", "an action and a category"),
        ("git.x", "git.y", ""),
        ("git.x", "git.x", ""),
        ("x", "git.x", ""),
    ],
)
def test_names_that_one_file_system_may_not_tell_apart_clash(name: str, other: str, problem: str) -> None:
    found = clash("action", name, [other])
    assert (problem in found) if problem else not found


@every_row(
    "path",
    ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/.", "a\nb", "a\0b", "a\\b", "x" * 201, "a/" * 8 + "b"],
)
def test_a_file_that_leaves_its_folder_is_no_file_of_an_entry(path: str) -> None:
    with pytest.raises(InputError, match="has a file"):
        entry("a", files={path: b""})
    with pytest.raises(InputError, match="has a file"):
        source(name="a", kind="skill", files={path: b""})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"files": {}}, "has no files"),
        ({"files": {"other.py": CODE}}, "is one file, action.py"),
        ({"files": {ACTION_FILE: b"x" * (BYTES_MAX["action"] + 1)}}, "at most 65,536"),
        ({"kind": "skill", "name": "a", "files": {f"f{n}": b"" for n in range(101)}}, "101 files; at most 100"),
        ({"kind": "skill", "name": "a", "files": {"a": b"x" * (1024**2 + 1)}}, "at most 1,048,576"),
        ({"description": "x" * 1025}, "longer than 1024"),
        ({"description": "two\nlines"}, "one line of printable"),
        ({"description": "\ud800"}, "one line of printable"),
    ],
)
def test_a_source_is_bounded(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        source(**changes)


def test_a_source_comes_back_from_json_as_it_was() -> None:
    kept = source(description="Count commits", run_id="run_1")
    assert LibrarySource.from_json(kept.to_json()) == kept
    assert kept.digest == source(description="Count commits").digest  # wherever it came from
    assert kept.digest != source().digest


@pytest.mark.parametrize(
    "changes",
    [
        {"files": {ACTION_FILE: "AAAA"}},
        {"files": {ACTION_FILE: "no base64!"}},
        {"files": {ACTION_FILE: 3}},
        {"files": []},
        {"kind": "tool"},
        {"name": 3},
        {"description": "another"},
    ],
)
def test_a_changed_source_is_not_read(changes: dict[str, object]) -> None:
    stored = {**source().to_json(), **changes}
    with pytest.raises((ValueError, InputError)):
        LibrarySource.from_json(stored)  # pyright: ignore[reportArgumentType]


def test_a_library_is_in_order_whatever_order_it_was_made_in() -> None:
    skill = entry("pdf", kind="skill", files={"pdf/SKILL.md": b"# PDF"})
    one, two = entry("a.x"), entry("b")
    library = Library(entries=(skill, two, one))

    assert [found.path for found in library.entries] == ["actions.a.x", "actions.b", "skills.pdf"]
    assert library.digest == Library(entries=(one, two, skill)).digest
    assert library.find("action", "b") is two
    assert library.find("skill", "b") is None
    assert library.of("skill") == (skill,)


def test_the_digest_of_a_library_changes_with_all_that_is_shown() -> None:
    libraries = [
        Library(),
        Library(entries=(entry("a"),)),
        Library(entries=(entry("a", text="Says a"),)),
        Library(entries=(entry("a", files={"a.py": b"other"}),)),
        Library(entries=(entry("a"), entry("b"))),
    ]
    assert len({library.digest for library in libraries}) == len(libraries)


@pytest.mark.parametrize(
    "entries",
    [
        (entry("a"), entry("a")),
        (entry("a", files={"x.py": b""}), entry("b", files={"X.py": b""})),
        (entry("a", files={"x": b""}), entry("b", files={"x/y.py": b""})),
        (entry("a", files={"x": b"", "x/y/z.py": b""}),),
    ],
    ids=["same name", "same path", "a file and a folder", "a file and a folder further up"],
)
def test_entries_that_would_overwrite_each_other_are_no_library(entries: tuple[LibraryEntry, ...]) -> None:
    with pytest.raises(InputError, match="share a name or a path"):
        Library(entries=entries)


def test_a_library_comes_back_from_json_as_it_was() -> None:
    library = Library(entries=(entry("a.x", text="Says x"), entry("b")))
    again = Library.from_json(library.to_json())
    assert again == library
    assert again.digest == library.digest
