"""Golden trees: `tests/goldens/<case>/tools.json` and beside it the tree and the stubs that must come of it.

The JavaScript client is the same in every tree. It lies in `tests/goldens/client/` and in no tree; whoever runs the
files of a case takes them from `put_golden_tree`.

Of the recorded lists of published servers, `toollists/<server>/` keeps what Node and programs read: `index.js`,
`index.d.ts` and `index.json`.

Regenerate all of them with `python -m tests.wrappers.regenerate` and read the diff.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.core.manifest import Manifest
from moonpool.wrappers.stubs import render_stub
from moonpool.wrappers.tree import render_tree

from .roundtrip import TESTS, TOOLLISTS, load_toollist, make_listing

if TYPE_CHECKING:
    from moonpool.wrappers.tree import WrapperTree

GOLDENS = TESTS / "goldens"
CASES = sorted(path.parent.name for path in GOLDENS.glob("*/tools.json"))
PUBLISHED = sorted(path.stem for path in TOOLLISTS.glob("*.json"))
_CLIENT = "client/"


def load_case(name: str) -> Manifest:
    """The manifest of one golden case: its own `tools.json`, or the recorded list that this names."""
    case = json.loads((GOLDENS / name / "tools.json").read_text(encoding="utf-8"))
    if "toollist" in case:
        return Manifest(servers=(load_toollist(TESTS / "data" / "toollists" / case["toollist"]),))
    return Manifest(
        servers=tuple(make_listing(each["serverId"], each["tools"], title=each["title"]) for each in case["servers"])
    )


@cache
def tree_of_case(name: str) -> WrapperTree:
    return render_tree(load_case(name))


@cache
def tree_of_published(name: str) -> WrapperTree:
    return render_tree(Manifest(servers=(load_toollist(TOOLLISTS / f"{name}.json"),)))


def render_case(name: str) -> dict[str, bytes]:
    """Every golden file of a case but those of the client, by its path below the case's folder."""
    tree = tree_of_case(name)
    stubs = "\n\n".join(render_stub(tool, names=tree.names) for tool in load_case(name).tools())
    warnings = "".join(f"{warning.tool!a}: {warning.text!a}\n" for warning in tree.warnings)
    files = {f"tree/{path}": content for path, content in tree.files.items() if not path.startswith(_CLIENT)}
    return {**files, "stubs.txt": f"{stubs}\n".encode(), "warnings.txt": warnings.encode()}


def read_golden(name: str) -> dict[str, bytes]:
    folder = GOLDENS / name
    files = [path for path in folder.rglob("*") if path.is_file() and path != folder / "tools.json"]
    files = [path for path in files if "__pycache__" not in path.parts]  # tests import the trees, too
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def client_of(tree: WrapperTree) -> dict[str, bytes]:
    """The files of the JavaScript client, by their names."""
    return {path.removeprefix(_CLIENT): text for path, text in tree.files.items() if path.startswith(_CLIENT)}


def put_golden_tree(name: str, folder: Path) -> Path:
    """The golden tree of a case as a sandbox has it, with the client in its place."""
    shutil.copytree(GOLDENS / name / "tree", folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(GOLDENS / "client", folder / "client")
    return folder


def render_published(name: str) -> dict[str, bytes]:
    """The golden files of one recorded list."""
    tree = tree_of_published(name)
    kept = [path for path in tree.files if path.endswith(("/index.js", "/index.d.ts")) or path == "index.json"]
    return {Path(path).name: tree.files[path] for path in kept}


def main() -> None:
    shutil.rmtree(GOLDENS / "client", ignore_errors=True)
    _write(GOLDENS / "client", client_of(tree_of_case(CASES[0])))
    for name in PUBLISHED:
        _write(GOLDENS / "toollists" / name, render_published(name))
    for name in CASES:
        rendered = render_case(name)
        shutil.rmtree(GOLDENS / name / "tree", ignore_errors=True)
        _write(GOLDENS / name, rendered)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


if __name__ == "__main__":
    main()
