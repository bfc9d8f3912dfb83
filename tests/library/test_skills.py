"""A skill's files become an entry: what it is called, what reading it shows, and what is refused."""

from __future__ import annotations

import pytest

from moonpool.core.errors import InputError
from moonpool.features.library.model.bounds import DESCRIPTION_CHARS_MAX
from moonpool.features.library.model.entries import Library, LibrarySource
from moonpool.features.library.model.skills import (
    BODY_CHARS_MAX,
    FILES_LISTED_MAX,
    SKILL_FILE_BYTES_MAX,
    TEXT_CHARS_MAX,
    importable,
    module_name,
    read_head,
    read_skill,
    skill_source,
)
from tables import every_row

HEAD = "---\nname: forms\ndescription: Fill forms.\n---\n"


def files(text: str = HEAD + "Do it.\n", **others: bytes) -> dict[str, bytes]:
    return {"SKILL.md": text.encode(), **{path.replace("__", "/"): content for path, content in others.items()}}


def test_a_skill_is_named_by_its_head_and_read_by_its_text() -> None:
    source = skill_source({**files(), "scripts/fill.py": b"x = 1\n", "assets/a.bin": b"\0\xff"}, place="forms/")
    entry = read_skill(source)

    assert (entry.path, entry.description, entry.parameters) == ("skills.forms", "Fill forms.", {})
    assert entry.definition == (
        "skill forms: its files are in /wrappers/current/skills/forms, and paths below are relative to it\n"
        "files: assets/a.bin (2 bytes), scripts/fill.py (6 bytes)\n"
        "scripts can be imported: from skills.forms.scripts import fill\n"
        "\nDo it."
    )
    assert entry.files["forms/assets/a.bin"] == b"\0\xff"
    assert entry.digest == source.digest


def test_a_skill_of_one_file_and_no_text_is_a_skill() -> None:
    entry = read_skill(skill_source({"SKILL.md": HEAD.rstrip().encode()}, place="forms/"))
    assert "\n" not in entry.definition


def test_what_else_the_head_says_is_kept_short_and_grants_nothing() -> None:
    long = "x" * 2_000
    text = f"---\nname: forms\ndescription: d\nlicense: {long}\nallowed-tools: Bash(rm:*), Read\n"
    text += f"metadata:\n  a: {long}\n---\n"
    head = read_head(files(text), place="forms/")
    assert head.allowed_tools == ("Bash(rm:*)", "Read")
    assert len(head.license) == len(head.metadata["a"]) == TEXT_CHARS_MAX
    assert "Bash" not in read_skill(skill_source(files(text), place="forms/")).definition


@every_row(
    ("text", "says"),
    [
        pytest.param("no head", "does not begin with a line `---`", id="no head"),
        pytest.param("---\ndescription: d\n---\n", "says nothing under `name`; add a line", id="no name"),
        pytest.param("---\nname: a\n---\n", "says nothing under `description`", id="no description"),
        pytest.param("---\nname: a\ndescription: ''\n---\n", "says nothing under `description`", id="an empty one"),
        pytest.param("---\nName: a\ndescription: d\n---\n", "it has `Name`, write that in lower case", id="Name"),
        pytest.param("---\nname: [a]\ndescription: d\n---\n", "`name` must be one string", id="a list for a name"),
        pytest.param("---\nname: PDF Forms\ndescription: d\n---\n", "'PDF Forms' is no name", id="a name with spaces"),
        pytest.param("---\nname: ../forms\ndescription: d\n---\n", "is no name", id="a name that leads out"),
        pytest.param("---\nname: -a\ndescription: d\n---\n", "is no name", id="a hyphen first"),
        pytest.param("---\nname: a--b\ndescription: d\n---\n", "is no name", id="two hyphens"),
        pytest.param(f"---\nname: {'a' * 65}\ndescription: d\n---\n", "is no name", id="a long name"),
        pytest.param("---\nname: ａ\ndescription: d\n---\n", "is no name", id="a letter that only looks like a"),
        pytest.param(
            f"---\nname: a\ndescription: {'d' * (DESCRIPTION_CHARS_MAX + 1)}\n---\n", "1,025 characters", id="too long"
        ),
    ],
)
def test_a_head_that_does_not_name_and_describe_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        skill_source(files(text), place="forms/")
    assert says in str(refused.value)


@every_row(
    ("content", "says"),
    [
        pytest.param({}, "has no files", id="nothing at all"),
        pytest.param({"README.md": b"x"}, "has no SKILL.md", id="no SKILL.md"),
        pytest.param({"skill.md": HEAD.encode()}, "there is 'skill.md'", id="in lower case"),
        pytest.param({"forms/SKILL.md": HEAD.encode()}, "there is 'forms/SKILL.md'", id="one folder too deep"),
        pytest.param({"SKILL.md": b"---\nname: \xff\n"}, "is not UTF-8 (byte 10)", id="not UTF-8"),
        pytest.param({"SKILL.md": "﻿---\n".encode("utf-16")}, "is not UTF-8", id="UTF-16"),
        pytest.param({"SKILL.md": b"x" * (SKILL_FILE_BYTES_MAX + 1)}, "bytes large", id="a large SKILL.md"),
        pytest.param({**files(), "a.txt": b"", "A.txt": b""}, "the same name to some file systems", id="case"),
        pytest.param({**files(), "é": b"", "e\u0301": b""}, "the same name to some", id="composed and decomposed"),
        pytest.param({**files(), "a": b"", "a/b": b""}, "a file and the folder of", id="a file that is a folder"),
        pytest.param({**files(), "A": b"", "a/b": b""}, "a file and the folder of", id="the same in another case"),
        pytest.param({**files(), "a/x.pyc": b""}, "'a/x.pyc' is compiled code", id="compiled"),
        pytest.param({**files(), "a/x.so": b""}, "'a/x.so' is compiled code", id="compiled for this machine"),
        pytest.param({**files(), "a.py": b"", "a/__init__.py": b""}, "in the place of 'a.py'", id="two of one module"),
        pytest.param({**files(), "a.py": b"\n# coding: utf-7\n"}, "its encoding is 'utf-7'", id="another encoding"),
        pytest.param({**files(), "../x": b""}, "has a file '../x'", id="up"),
        pytest.param({**files(), "/etc/x": b""}, "has a file '/etc/x'", id="absolute"),
        pytest.param({**files(), "a\\b": b""}, "has a file", id="a backslash"),
        pytest.param({**files(), "a\u202eb": b""}, "has a file 'a\\u202eb'", id="letters that run backwards"),
        pytest.param({**files(), "a\x1bb": b""}, "has a file", id="an escape character"),
        pytest.param({**files(), "x" * 201: b""}, "has a file", id="a long name"),
        pytest.param({**files(), "/".join("abcdefgh"): b""}, "has a file", id="too deep below its own name"),
        pytest.param({**files(), **{f"f{n}": b"" for n in range(100)}}, "has 101 files; at most 100", id="many files"),
        pytest.param({**files(), "big": b"x" * 1024**2}, "bytes large; at most 1,048,576", id="10 MB and the like"),
    ],
)
def test_files_that_cannot_be_kept_or_shown_are_refused(content: dict[str, bytes], says: str) -> None:
    with pytest.raises(InputError) as refused:
        skill_source(content, place="forms/")
    assert says in str(refused.value)
    assert str(refused.value).isprintable()


def test_what_does_not_print_is_written_out_where_a_model_reads_it() -> None:
    text = HEAD + "A\x1b[2J b\u202e c\U000e0041 d\xa0e\n\tcode\x00\n"
    entry = read_skill(skill_source(files(text), place="forms/"))
    assert entry.definition.endswith("A\\x1b[2J b\\u202e c\\U000e0041 d e\n    code\\x00")
    assert entry.files["forms/SKILL.md"] == text.encode()  # code sees the file as it is


def test_a_description_is_shown_without_what_does_not_print() -> None:
    text = '---\nname: forms\ndescription: "Fill \\e[31m forms\\u202e"\n---\n'
    assert read_skill(skill_source(files(text), place="x")).description == "Fill \\x1b[31m forms\\u202e"


def test_a_long_text_ends_with_where_the_rest_is() -> None:
    entry = read_skill(skill_source(files(HEAD + "word " * 20_000), place="forms/"))
    assert len(entry.definition) < BODY_CHARS_MAX + 1_000
    assert entry.definition.endswith("[… the rest is in /wrappers/current/skills/forms/SKILL.md]")


def test_many_files_are_not_all_listed() -> None:
    many = {f"references/{n}.md": b"" for n in range(90)}
    entry = read_skill(skill_source({**files(), **many}, place="forms/"))
    assert entry.definition.count("references/") == FILES_LISTED_MAX
    assert "and 50 more" in entry.definition


def test_a_kept_skill_that_calls_itself_otherwise_is_refused() -> None:
    source = LibrarySource(kind="skill", name="other", files=files())
    with pytest.raises(InputError, match="calls itself 'forms'"):
        read_skill(source)


def test_two_skills_stand_beside_each_other() -> None:
    second = HEAD.replace("forms", "form-s")
    one, two = (read_skill(skill_source(files(text), place="x")) for text in (HEAD, second))
    assert [entry.name for entry in Library(entries=(one, two)).of("skill")] == ["form-s", "forms"]


def test_modules_of_two_names_are_never_the_same() -> None:
    names = ["a-b", "ab", "class", "class-1", "3d", "123", "import-3d", "none"]
    modules = [module_name(name) for name in names]
    assert modules == ["a_b", "ab", "class_", "class_1", "_3d", "_123", "import_3d", "none"]
    assert all(module.isidentifier() for module in modules)


def test_only_what_python_can_name_is_offered_for_import() -> None:
    paths = ["scripts/fill.py", "scripts/fill-all.py", "scripts/class.py", "a-b/c.py", "x.txt", "main.py"]
    assert importable(paths) == ("main", "scripts.fill")
