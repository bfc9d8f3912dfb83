"""Golden trees: `tests/goldens/<case>/tools.json` and beside it the tree and the stubs that must come of it.

Of the recorded lists of published servers, `toollists/<server>/` keeps what Node and programs read: `index.js`,
`index.d.ts` and `index.json`.

Regenerate all of them with `python -m tests.wrappers.regenerate` and read the diff.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from moonpool.core.manifest import Manifest
from moonpool.wrappers.stubs import render_stub
from moonpool.wrappers.tree import render_tree

from .roundtrip import TESTS, TOOLLISTS, load_toollist, make_listing

GOLDENS = TESTS / "goldens"
CASES = sorted(path.parent.name for path in GOLDENS.glob("*/tools.json"))
PUBLISHED = sorted(path.stem for path in TOOLLISTS.glob("*.json"))


def load_case(name: str) -> Manifest:
    """The manifest of one golden case: its own `tools.json`, or the recorded list that this names."""
    case = json.loads((GOLDENS / name / "tools.json").read_text(encoding="utf-8"))
    if "toollist" in case:
        return Manifest(servers=(load_toollist(TESTS / "data" / "toollists" / case["toollist"]),))
    return Manifest(
        servers=tuple(make_listing(each["serverId"], each["tools"], title=each["title"]) for each in case["servers"])
    )


def render_case(name: str) -> dict[str, bytes]:
    """Every golden file of a case, by its path below the case's folder."""
    manifest = load_case(name)
    tree = render_tree(manifest)
    stubs = "\n\n".join(render_stub(tool, names=tree.names) for tool in manifest.tools())
    warnings = "".join(f"{warning.tool!a}: {warning.text!a}\n" for warning in tree.warnings)
    files = {f"tree/{path}": content for path, content in tree.files.items()}
    return {**files, "stubs.txt": f"{stubs}\n".encode(), "warnings.txt": warnings.encode()}


def read_golden(name: str) -> dict[str, bytes]:
    folder = GOLDENS / name
    files = [path for path in folder.rglob("*") if path.is_file() and path != folder / "tools.json"]
    files = [path for path in files if "__pycache__" not in path.parts]  # tests import the trees, too
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def render_published(name: str) -> dict[str, bytes]:
    """The golden files of one recorded list."""
    tree = render_tree(Manifest(servers=(load_toollist(TOOLLISTS / f"{name}.json"),)))
    kept = [path for path in tree.files if path.endswith(("/index.js", "/index.d.ts")) or path == "index.json"]
    return {Path(path).name: tree.files[path] for path in kept}


def main() -> None:
    for name in PUBLISHED:
        folder = GOLDENS / "toollists" / name
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in render_published(name).items():
            (folder / path).write_bytes(content)
    for name in CASES:
        folder = GOLDENS / name
        rendered = render_case(name)
        shutil.rmtree(folder / "tree", ignore_errors=True)
        for path, content in rendered.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            Path(folder / path).write_bytes(content)


if __name__ == "__main__":
    main()
