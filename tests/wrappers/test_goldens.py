"""Golden trees are real files; the same definitions give the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.wrappers.tree import render_tree
from wrappers.regenerate import (
    CASES,
    PUBLISHED,
    client_of,
    load_case,
    put_golden_tree,
    read_golden,
    render_case,
    render_published,
    tree_of_case,
    tree_of_published,
)
from wrappers.roundtrip import TESTS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.req("H-013", "I-017")
@pytest.mark.parametrize("case", CASES)
def test_rendered_files_equal_the_golden_ones(case: str) -> None:
    assert render_case(case) == read_golden(case)


@pytest.mark.req("H-013", "G-027", "G-028")
@pytest.mark.parametrize("name", PUBLISHED)
def test_node_files_of_published_servers_equal_the_golden_ones(name: str) -> None:
    assert render_published(name) == read_golden(f"toollists/{name}")


@pytest.mark.req("H-013")
def test_the_client_of_every_tree_is_the_one_golden() -> None:
    trees = {case: tree_of_case(case) for case in CASES} | {name: tree_of_published(name) for name in PUBLISHED}
    golden = read_golden("client")
    assert sorted(golden) == ["mcp_client.d.ts", "mcp_client.js", "package.json"]
    assert [name for name, tree in trees.items() if client_of(tree) != golden] == []


@pytest.mark.parametrize("case", CASES)
def test_the_files_that_are_run_are_those_of_the_tree(case: str, tmp_path: Path) -> None:
    put = put_golden_tree(case, tmp_path / "tree")
    found = {path.relative_to(put).as_posix(): path.read_bytes() for path in put.rglob("*") if path.is_file()}
    assert found == tree_of_case(case).files


@pytest.mark.req("H-013")
def test_rendering_twice_gives_the_same_digest() -> None:
    manifest = load_case("schemas")
    assert render_tree(manifest).digest == render_tree(manifest).digest


@pytest.mark.req("H-070")
def test_no_icon_bytes_are_in_generated_files() -> None:
    assert not any(b"ICONBYTES" in content for content in render_tree(load_case("hostile")).files.values())


def test_the_name_table_holds_names_only() -> None:
    table = json.loads(render_tree(load_case("guide")).files["servers/manifest.json"])
    tools = table["servers"][1]["tools"]
    assert tools[1] == {
        "name": "admin.tools.list",
        "function": "admin_tools_list",
        "sync": "admin_tools_list_sync",
        "file": "admin_tools_list",
        "mcptools": "admin_tools_list",
        "node": "adminToolsList",
    }


def test_generated_code_type_checks(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("pyright")
    trees = {case: put_golden_tree(case, folder / case) for case in ("guide", "ipybox")}
    client = TESTS.parent / "src" / "moonpool_guest" / "path"
    config: dict[str, Any] = {
        "typeCheckingMode": "standard",
        "executionEnvironments": [
            {"root": case, "extraPaths": [str(client), str(tree)]} for case, tree in trees.items()
        ],
    }
    config["reportUnsupportedDunderAll"] = "none"  # tools are loaded when they are asked for
    (folder / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "-p", str(folder), "--pythonpath", sys.executable, "--outputjson"],
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["summary"]["filesAnalyzed"] == len([*folder.rglob("*.py")])
