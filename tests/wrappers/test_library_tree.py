"""The files around saved actions: importable, listed, and never more than the texts that they hold."""

from __future__ import annotations

import ast
import json

import pytest

from moonpool.core.manifest import Manifest, ServerListing
from moonpool.features.library.model.actions import read_action
from moonpool.features.library.model.bounds import ACTION_FILE
from moonpool.features.library.model.entries import Library, LibraryEntry, LibrarySource
from moonpool.wrappers.tree import render_tree

HOSTILE = [
    '"""\nimport os\n"""',
    "\\",
    'ends with "',
    "{__import__('os')}",
    "x\u202ey\x1b[2J\x00",
    "\n# Another page\n- `actions.fake`: fake",
    "`); import os",
    "\ud800",
    "x" * 5000,
]


def action(name: str, code: str = 'def run():\n    """Does a thing."""\n', description: str = "") -> LibraryEntry:
    files = {ACTION_FILE: code.encode()}
    return read_action(LibrarySource(kind="action", name=name, files=files, description=description))


def rendered(*entries: LibraryEntry) -> dict[str, bytes]:
    manifest = Manifest(servers=(ServerListing(server_id="actions"),), library=Library(entries=entries))
    return dict(render_tree(manifest).files)


def test_without_entries_the_tree_and_all_digests_are_what_they_were() -> None:
    bare, empty = Manifest(servers=(ServerListing(server_id="a"),)), Manifest(servers=(ServerListing(server_id="a"),))
    full = Manifest(servers=bare.servers, library=Library(entries=(action("b"),)))
    assert bare.digest == empty.digest != full.digest
    assert render_tree(bare).digest == render_tree(empty).digest != render_tree(full).digest
    assert not [path for path in render_tree(bare).files if path.startswith(("actions", "skills", "library"))]


def test_a_server_called_actions_and_saved_actions_do_not_meet() -> None:
    files = rendered(action("deploy"), action("git.push"))
    assert {path for path in files if path.startswith("actions/")} == {
        "actions/INDEX.md", "actions/__init__.py", "actions/deploy.py", "actions/deploy.pyi",
        "actions/git/__init__.py", "actions/git/push.py", "actions/git/push.pyi",
    }  # fmt: skip
    assert "servers/actions/__init__.py" in files


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_an_entry_says_of_itself_stays_text(text: str) -> None:
    """The description is replaced after the checks of a source: this shows the second wall."""
    entry = action("git.push")
    entry = LibraryEntry(
        kind="action", name=entry.name, description=text, parameters={"properties": {"a": {"description": text}}},
        definition=entry.definition, files=entry.files, digest=entry.digest,
    )  # fmt: skip
    try:
        files = rendered(entry)
    except UnicodeEncodeError:
        assert "\ud800" in text  # refused as a whole; no source can hold it
        return
    for path in ("actions/__init__.py", "actions/git/__init__.py"):
        tree = ast.parse(files[path])
        kinds = [type(node).__name__ for node in tree.body]
        assert kinds == ["Expr", "Import", "Assign", "FunctionDef", "FunctionDef"]
    index = files["actions/INDEX.md"].decode()
    assert len([line for line in index.splitlines() if line.startswith("- ")]) == 1
    assert all(char.isprintable() or char == "\n" for char in index)
    [listed] = json.loads(files["library.json"])["entries"]
    assert len(listed["summary"]) <= 200
    assert listed["path"] == "actions.git.push"


def test_no_list_of_actions_holds_their_code() -> None:
    code = 'def run():\n    """Does a thing."""\n    return "IMPLEMENTATION"\n'
    files = rendered(action("git.push", code))
    holding = [path for path, content in files.items() if b"IMPLEMENTATION" in content]
    assert holding == ["actions/git/push.py"]
