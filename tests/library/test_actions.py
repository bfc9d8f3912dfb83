"""What is read off an action's code: its interface, and nothing of its implementation."""

from __future__ import annotations

import ast
import json
import textwrap
from typing import cast

import pytest

from moonpool.core.errors import InputError
from moonpool.features.library.model.action_types import SCHEMA_CHARS_MAX
from moonpool.features.library.model.actions import NODES_MAX, read_action, trim
from moonpool.features.library.model.bounds import ACTION_FILE
from moonpool.features.library.model.entries import Library, LibraryEntry, LibrarySource
from tables import every_row

CODE = '''
"""Commits of a repository."""
from __future__ import annotations
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal

import servers.github as github

IMPLEMENTATION = "IMPLEMENTATION"
Order = Literal["asc", "desc"]

class Kind(StrEnum):
    MERGE = "merge"
    PLAIN = "plain"

class Unused:
    IMPLEMENTATION: int = 1

@dataclass(frozen=True)
class Commit:
    sha: str
    kind: Kind = Kind.PLAIN
    tags: list[str] = field(default_factory=lambda: [IMPLEMENTATION])
    parent: "Commit | None" = None

    def implementation(self):
        return IMPLEMENTATION

async def run(
    repo: str,
    limit: int = 10,
    *,
    order: Order = "desc",
    since: Annotated[str, "a date"] = IMPLEMENTATION.lower(),
    odd: (lambda: IMPLEMENTATION) = 3,
) -> list[Commit]:
    """The newest commits
    of a repository.

    Args:
        repo: owner/name
        limit: how many
    Returns:
        what there is
    """
    IMPLEMENTATION = 1
    return await github.list_commits(repo=repo)
'''


def read(code: str, name: str = "github.top_commits", description: str = "") -> LibraryEntry:
    files = {ACTION_FILE: textwrap.dedent(code).encode()}
    return read_action(LibrarySource(kind="action", name=name, files=files, description=description))


@pytest.mark.req("I-103")
def test_the_definition_is_the_interface_without_the_implementation() -> None:
    definition = read(CODE).definition
    assert definition == textwrap.dedent('''\
        from actions.github.top_commits import run

        @dataclass
        class Commit:
            sha: str
            kind: Kind = ...
            tags: list[str] = ...
            parent: Commit | None = None

        Order = Literal['asc', 'desc']

        class Kind(StrEnum):
            MERGE = 'merge'
            PLAIN = 'plain'

        async def run(repo: str, limit: int = 10, *, order: Order = 'desc', since: Annotated[str, 'a date'] = ..., odd: Any = 3) -> list[Commit]:
            """The newest commits
            of a repository.

            Args:
                repo: owner/name
                limit: how many
            Returns:
                what there is"""
        ''')  # noqa: E501
    ast.parse(definition)
    assert "IMPLEMENTATION" not in definition
    assert "servers" not in definition


def test_parameters_are_a_schema_with_what_the_docstring_says_of_them() -> None:
    assert read(CODE).parameters == {
        "type": "object",
        "properties": {
            "repo": {"type": "string", "description": "owner/name"},
            "limit": {"type": "integer", "description": "how many", "default": 10},
            "order": {"enum": ["asc", "desc"], "default": "desc"},
            "since": {"type": "string", "description": "a date"},
            "odd": {"default": 3},
        },
        "additionalProperties": False,
        "required": ["repo"],
    }


def test_an_entry_has_the_code_and_its_interface_as_files() -> None:
    entry = read(CODE)
    assert entry.description == "The newest commits of a repository."
    assert set(entry.files) == {"github/top_commits.py", "github/top_commits.pyi"}
    assert entry.files["github/top_commits.py"].decode() == CODE
    assert entry.files["github/top_commits.pyi"].decode() == entry.definition
    assert read(CODE, description="Top commits").description == "Top commits"


@every_row(
    ("annotation", "schema"),
    [
        ("int | None", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ("Optional[str]", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ("Union[int, str, None]", {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}),
        ("int | Unknown", {}),
        ("list[dict[str, X]]", {"type": "array", "items": {"type": "object", "additionalProperties": {}}}),
        ("tuple[int, str]", {"type": "array"}),
        ("dict", {"type": "object"}),
        ("datetime.datetime", {"type": "string", "format": "date-time"}),
        ("'Item'", {"type": "object", "properties": {"name": {"type": "string"}, "size": {}}, "required": ["name"]}),
        ("Any", {}),
        ("f()", {}),
        ("'not a type('", {}),
    ],
)  # fmt: skip
def test_annotations_become_schemas(annotation: str, schema: dict[str, object]) -> None:
    code = f"""
        class Item(TypedDict):
            name: str
            size: NotRequired[X]
        def run(x: {annotation}):
            "Takes one."
    """
    assert read(code).parameters["properties"] == {"x": schema}


def test_types_without_end_end() -> None:
    code = '''
        class Node(TypedDict):
            children: list["Node"]
        def run(x: Node) -> Node:
            """A tree."""
    '''
    entry = read(code)
    assert "class Node(TypedDict):" in entry.definition
    assert "Node" not in str(entry.parameters)


def test_every_kind_of_parameter_is_shown() -> None:
    entry = read('def run(a, /, b=(1, -2), *rest: int, c, d: str = f"{x}", **more: str):\n    "Many."')
    assert "def run(a, /, b=(1, -2), *rest: int, c, d: str = ..., **more: str):" in entry.definition
    assert entry.parameters["required"] == ["a", "c"]
    assert entry.parameters["additionalProperties"] is True


@every_row(
    ("code", "problem"),
    [
        ("x = 1", "no function `run`"),
        ("class A:\n    def run(self):\n        'x'", "no function `run`"),
        ("if True:\n    def run():\n        'x'", "no function `run`"),
        ("def run(): ...", "no docstring"),
        ("def run():\n    '  '", "no docstring"),
        ("def run():\n    'x'\ndef run():\n    'y'", "bound more than once .line 3"),
        ("def run():\n    'x'\nrun = 3", "bound more than once"),
        ("def run():\n    'x'\nfor run in []: pass", "bound more than once"),
        ("from x import run\ndef run():\n    'x'", "bound more than once"),
        ("def run(:\n    'x'", "does not parse: .*line 1"),
        ("def run():\n    'x'\nawait run()", "line 3 awaits outside a function"),
        ("def run():\n    'x'\nx = [await run() for _ in y]", "line 3 awaits outside"),
        ("def run():\n    'x'\n    from .other import run", "line 3 is a relative import"),
        ("def run():\n    'x'\nx = " + "[" * 300 + "]" * 300, "does not parse"),
        ("def run():\n    'x'\nx = [" + "1," * NODES_MAX + "]", "too large"),
        ("\0", "NUL"),
    ],
)
def test_code_that_is_no_action_is_refused_with_what_to_change(code: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read(code)


def test_code_that_is_no_text_is_refused() -> None:
    with pytest.raises(InputError, match="not UTF-8"):
        read_action(LibrarySource(kind="action", name="a", files={ACTION_FILE: b"\xff"}))


@pytest.mark.parametrize(
    "line",
    [
        b"# coding: utf-7\n",
        b"\xef\xbb\xbf \t\x0c# vim: set fileencoding=unicode_escape :\n",
        b"\r#-*- coding:latin-1 -*-\r",
        b"'x'\r\n# encoding=utf-16\r\n",
    ],
)
def test_code_that_python_would_read_in_another_encoding_is_refused(line: bytes) -> None:
    code = line + b"def run():\n    'x'\n# +AAo-print(1)"
    with pytest.raises(InputError, match="says that its encoding is"):
        read_action(LibrarySource(kind="action", name="a", files={ACTION_FILE: code}))


@pytest.mark.parametrize(
    "line", ["# -*- coding: utf-8 -*-", "# coding=UTF8", "x = 'coding: utf-7'", "\n\n# coding: utf-7"]
)
def test_code_that_is_utf_8_may_say_so(line: str) -> None:
    assert read(f"{line}\ndef run():\n    'x'").description == "x"


@pytest.mark.parametrize("doc", ['ends with """ quotes"', "back\\slash\\", '"""', "\\", "x\u202ey\x1b[0m"])
def test_a_docstring_cannot_end_its_stub(doc: str) -> None:
    entry = read(f"def run():\n    {doc!r}\n    IMPLEMENTATION = 1\n")
    [_, function] = ast.parse(entry.definition).body
    assert isinstance(function, ast.FunctionDef)
    assert len(function.body) == 1
    assert "IMPLEMENTATION" not in entry.definition
    assert all(char.isprintable() or char == "\n" for char in entry.definition)


def test_what_only_one_run_needed_is_left_out() -> None:
    code, left_out = trim(b'''"""Doc."""
import servers.time
LIMIT = 3

async def run(x: int) -> int:
    """Doc."""
    return x

print("hello")
for one in [1]:
    value = await run(one)
result = {
    "x": await run(3),
}
''')
    assert left_out == (
        'print("hello")', "for one in [1]:", "value = await run(one)", "result = {", '"x": await run(3),', "}",
    )  # fmt: skip
    assert (
        code.decode()
        == '''"""Doc."""
import servers.time
LIMIT = 3

async def run(x: int) -> int:
    """Doc."""
    return x
'''
    )


def test_a_line_that_is_shared_with_what_stays_is_not_left_out() -> None:
    code, left_out = trim(b'def run(): "x"\nx = 1; print(x)\n')
    assert code == b'def run(): "x"\nx = 1; print(x)\n'
    assert left_out == ()


HUGE = f"0x{'f' * 5000}"  # too many digits for Python to print


@every_row(
    "head",
    [
        f"def run(a: int = {HUGE}):",
        f"def run(a: int = -{HUGE}):",
        f"def run(a: dict = {{1: {HUGE}}}):",
        f"def run(a: Literal[{HUGE}]):",
        f"class E(Enum):\n    A = {HUGE}\ndef run(a: E):",
        "def run(a: float = 1e999):",
        "def run(a: str = '\\ud800'):",
        "def run(a: Annotated[str, '\\ud800']):",
        "def run(a: Literal['\\ud800']):",
        "class E(Enum):\n    A = '\\ud800'\ndef run(a: E):",
    ],
)
def test_a_constant_that_json_or_python_cannot_write_is_not_shown(head: str) -> None:
    code = f'{head}\n    """Do it.\n\n    :param b: odd \\ud800\x1b text\n    """\n'
    source = LibrarySource(kind="action", name="a", files={ACTION_FILE: code.encode()})
    entry = read_action(source)
    assert Library.from_json(json.loads(json.dumps(Library(entries=(entry,)).to_json(), allow_nan=False)))
    assert entry.shown_digest.startswith("sha256:")
    ast.parse(entry.definition)


def test_what_a_parameter_is_said_to_be_is_one_printable_line() -> None:
    code = 'def run(a):\n    """Do it.\n\n    :param a: red \\x1b[31m \\ud800 text\n    """\n'
    entry = read_action(LibrarySource(kind="action", name="a", files={ACTION_FILE: code.encode()}))
    assert entry.parameters["properties"] == {"a": {"description": "red  [31m   text"}}


@pytest.mark.parametrize(
    "classes",
    [
        "class A:\n" + "".join(f"    a{number}: 'A'\n" for number in range(7)),
        "class E(Enum):\n" + "".join(f"    e{number} = '{'x' * 250}'\n" for number in range(100))
        + f"A = Union[{', '.join(['E'] * 100)}]\n",
    ],
    ids=["classes of each other", "an enumeration again and again"],
)  # fmt: skip
def test_what_is_said_of_types_is_bounded_in_all(classes: str) -> None:
    code = f'{classes}def run(a: A, b: int):\n    """Do it."""\n'
    entry = read_action(LibrarySource(kind="action", name="a", files={ACTION_FILE: code.encode()}))
    assert len(json.dumps(entry.parameters)) < 4 * SCHEMA_CHARS_MAX
    assert list(cast("dict[str, object]", entry.parameters["properties"])) == ["a", "b"]


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_trimming_leaves_out_lines_as_the_parser_counts_them(mark: str) -> None:
    code = f'def run() -> str:\n    """Say{mark}something."""\n    return "{mark}"\n\nprint(run())\n'.encode()
    assert trim(code) == (code.partition(b"\n\nprint")[0] + b"\n", ("print(run())",))
