"""The tree itself: nothing of one machine in it, every module explains itself, the locks are fresh."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from house.tracked import ROOT, tracked_files

# Written so that this file does not match itself.
PACKAGE_HOSTS = ("pypi" + r"\.org", "pythonhosted" + r"\.org", "registry" + r"\.npmjs", "test" + r"\.pypi")
MACHINE_PATHS = ("/work" + "/main", "/work" + "/shared", r"\.\./" + "shared", "/root/" + r"\.pyenv", "/opt" + "/pypi")
FOREIGN_FOLDERS = ("tests/data/", "tests/goldens/", "tests/samples/")


def lines_matching(patterns: tuple[str, ...]) -> list[str]:
    pattern = re.compile("|".join(patterns))
    return [
        f"{path}:{number}"
        for path in tracked_files()
        if not str(path).startswith(FOREIGN_FOLDERS)
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_a_package_host() -> None:
    assert lines_matching(PACKAGE_HOSTS) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert lines_matching(MACHINE_PATHS) == []


def test_the_ci_entry_is_executable() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@cache
def parsed_modules() -> dict[str, ast.Module]:
    """Every module below `src`. Parsing them takes seconds."""
    paths = [path for path in tracked_files() if path.suffix == ".py" and path.parts[0] == "src"]
    return {str(path): ast.parse((ROOT / path).read_text(encoding="utf-8")) for path in paths}


def modules_of_the_host() -> dict[str, ast.Module]:
    return {path: tree for path, tree in parsed_modules().items() if path.startswith("src/moonpool/")}


def test_every_module_says_what_it_is_for() -> None:
    says = {path: ast.get_docstring(tree) for path, tree in parsed_modules().items()}

    assert len(says) > 500
    assert [path for path, said in says.items() if not said] == []


def test_no_two_modules_import_each_other_directly_or_around() -> None:
    graph = grimp.build_graph("moonpool", cache_dir=None)  # imports for types included
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}

    assert len(imports) > 400
    assert sum(map(len, imports.values())) > 1000
    try:
        cycle: list[str] = []
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        cycle = error.args[1]
    assert cycle == []


def test_the_locks_match_what_they_were_compiled_from() -> None:
    checked = subprocess.run(
        [sys.executable, "requirements/locks.py", "check"], cwd=ROOT, check=False, capture_output=True, encoding="utf-8"
    )

    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("name", ["runtime", "examples", "dev"])
def test_the_uv_that_installs_is_the_uv_that_is_installed(name: str) -> None:
    def pinned(file: str) -> list[str]:
        text = (ROOT / "requirements" / file).read_text(encoding="utf-8")
        return re.findall(r"^uv==(\S+)", text, flags=re.MULTILINE)

    assert pinned(f"{name}.txt") == pinned("bootstrap.txt")


@pytest.mark.parametrize(
    "lock",
    [*sorted((ROOT / "requirements").glob("*.txt")), ROOT / "src/moonpool/environments/data.txt"],
    ids=lambda p: p.name,
)
def test_every_locked_package_has_hashes(lock: object) -> None:
    text = (ROOT / str(lock)).read_text(encoding="utf-8")
    packages = re.findall(r"^[a-z0-9][^=\s]*==[^\\\n]*(\\?)", text, flags=re.MULTILINE)

    assert packages
    assert set(packages) == {"\\"}


@pytest.mark.slow
@pytest.mark.timeout(900)  # it installs every package, which takes minutes on a busy machine
@pytest.mark.req("I-001", "P-001")
def test_the_wheel_installs_in_a_clean_environment_and_its_command_starts() -> None:
    done = subprocess.run(
        ["sh", ROOT / ".ci/wheel.sh"], capture_output=True, check=False, encoding="utf-8", timeout=850
    )
    assert done.stdout.endswith("wheel: complete\n"), done.stderr


@pytest.mark.req("A-042")
def test_revisions_of_the_protocol_are_named_by_constants() -> None:
    inline: list[str] = []
    for path, tree in modules_of_the_host().items():
        revisions = {
            node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in KNOWN_PROTOCOL_VERSIONS
        }
        if not revisions:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.AnnAssign) and "Final" in ast.unparse(node.annotation):
                revisions.difference_update(ast.walk(node))
        inline += [f"{path}:{node.lineno}" for node in revisions]
    assert inline == []


@pytest.mark.req("A-089", "A-090")
def test_only_the_room_of_upstreams_speaks_to_servers() -> None:
    speaking = {
        path
        for path, tree in modules_of_the_host().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (
            (node.module or "").startswith("mcp.client")
            or (node.module == "mcp" and {name.name for name in node.names} & {"Client", "ClientSession"})
        )
    }
    assert speaking
    assert {path for path in speaking if not path.startswith("src/moonpool/upstreams/")} == set()
