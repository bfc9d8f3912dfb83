"""Finding Node.js and Bash on the host, and installing what TypeScript needs: no sandbox is opened here."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from kernel_node.probe import wheel_program
from moonpool.environments import node_tools, runtimes
from moonpool.environments.base import EnvironmentBuildError
from moonpool.environments.runtimes import Absence, Runtime, find_bash, find_node
from moonpool.sandboxes import code_writable
from sandboxes.images import readable_folder

if TYPE_CHECKING:
    from collections.abc import Generator

pytestmark = pytest.mark.anyio


@pytest.fixture
def root() -> Generator[Path]:
    with readable_folder() as folder:
        yield folder


def program(folder: Path, name: str, said: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho {said}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def find(root: Path, *candidates: Path, monkeypatch: pytest.MonkeyPatch) -> Runtime | Absence:
    monkeypatch.setattr(runtimes, "_node_candidates", lambda *_: iter(candidates))
    return find_node(root=root, uid=200_000, environ={}, home=root)


def test_a_program_of_the_system_is_used_where_it_is(root: Path) -> None:
    found = find_bash(root=root, uid=200_000, environ={})
    assert isinstance(found, Runtime)
    assert str(found.program) == "/usr/bin/bash"
    assert found.binds == ()
    assert found.variables == {"MOONPOOL_BASH": "/usr/bin/bash"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", found.version)


def test_any_other_program_is_copied_and_remembered(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = root / "home"
    there = program(home / "bin", "node", "v20.12.0")
    home.chmod(0o700)
    first = find(root, there, monkeypatch=monkeypatch)
    monkeypatch.setattr(runtimes, "_ask_version", pytest.fail)
    assert isinstance(first, Runtime)
    assert first.program.is_relative_to(root / "runtimes")
    assert first.program.parent.parent in first.binds
    assert first.program.stat().st_mode & 0o777 == 0o555
    assert find(root, there, monkeypatch=monkeypatch) == first


@pytest.mark.req("H-010")
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("v18.20.4", "is Node.js 18.20.4, too old"),
        ("v20.11.1", "is Node.js 20.11.1, too old"),
        ("hello", "does not tell its version"),
    ],
)
def test_a_program_that_will_not_do_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch, said: str, reason: str
) -> None:
    found = find(root, program(root / "a", "node", said), monkeypatch=monkeypatch)
    assert isinstance(found, Absence)
    assert found.reason.startswith("no Node.js 20.12 or newer was found")
    assert found.reason.endswith(reason)
    assert list(root.glob("runtimes/*")) == []


def test_the_next_candidate_is_tried(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = program(root / "a", "node", "v18.0.0"), program(root / "b", "node", "v22.1.0")
    found = find(root, old, new, monkeypatch=monkeypatch)
    assert isinstance(found, Runtime)
    assert found.version == "22.1.0"


def test_a_program_that_others_can_change_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loose = program(root / "a", "node", "v22.1.0")
    loose.chmod(0o777)
    found = find(root, loose, monkeypatch=monkeypatch)
    assert isinstance(found, Absence)
    assert "can be changed by other users" in found.reason


def test_what_code_may_write_is_neither_run_nor_taken_in(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = root / "mark"
    codes = program(root / "code", "node", f"v22.1.0; touch {mark}")
    (root / "link").symlink_to(codes)
    (root / "code" / "version").write_text(f"#!/bin/sh\necho v22.1.0; touch {mark}\n", encoding="utf-8")
    (root / "code" / "version").chmod(0o755)
    asks = program(root / "own", "node", "$(version)")
    monkeypatch.setattr(code_writable, "_written", {(root / "code", ())})
    monkeypatch.setattr(runtimes, "_node_candidates", lambda *_: iter([codes, root / "link", asks]))
    found = find_node(root=root, uid=200_000, environ={"PATH": f"{codes.parent}:/usr/bin:/bin"}, home=root)
    assert isinstance(found, Absence)
    assert found.reason.count("lies where code of a sandbox may write") == 2
    assert not mark.exists()


def test_path_and_version_managers_are_searched_newest_first(root: Path) -> None:
    for version in ("v20.9.0", "v20.18.1", "v9.1.0"):
        program(root / ".nvm" / "versions" / "node" / version / "bin", "node", version)
    own = program(root / "tools", "node", "v22.1.0")
    found = list(runtimes._node_candidates({"PATH": f"relative:{own.parent}"}, root))
    assert own in found
    assert wheel_program() in found
    assert [path.parts[-3] for path in found if ".nvm" in path.parts] == ["v20.18.1", "v20.9.0", "v9.1.0"]


@pytest.mark.parametrize(("version", "needed"), [("20.20.2", True), ("22.12.9", True), ("22.13.0", False)])
def test_only_older_versions_need_tools_for_typescript(version: str, needed: bool) -> None:
    assert node_tools.are_needed(version) == needed


def test_the_lock_names_hashes_and_no_address() -> None:
    lock = json.loads(node_tools._locked("package-lock.json"))
    packages = [one for path, one in lock["packages"].items() if path]
    assert len(packages) > 5
    assert all(one["integrity"].startswith("sha512-") and "resolved" not in one for one in packages)
    assert "://" not in json.dumps(lock)


async def test_without_npm_the_error_names_the_remedy(root: Path) -> None:
    with pytest.raises(EnvironmentBuildError, match="install the package `npm`"):
        await node_tools.installed_tools(root, npm="", environ={})


async def test_an_installation_that_fails_leaves_nothing(root: Path) -> None:
    npm = program(root / "bin", "npm", "'npm error code E404'; exit 1")
    with anyio.fail_after(20), pytest.raises(EnvironmentBuildError, match="npm error code E404"):
        await node_tools.installed_tools(root, npm=str(npm), environ={"PATH": "/usr/bin:/bin"})
    assert list((root / "node-tools").iterdir()) == []


async def test_code_provides_neither_npm_nor_its_node(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark, ran = root / "mark", f"$(touch {root / 'mark'})"
    codes = [program(root / "code", name, ran) for name in ("npm", "node")]
    monkeypatch.setattr(code_writable, "_written", {(root / "code", ())})
    own = program(root / "bin", "npm", "$(node --version)")
    environ = {"PATH": f"{codes[0].parent}:/usr/bin:/bin"}
    with pytest.raises(EnvironmentBuildError, match="code may write"), anyio.fail_after(20):
        await node_tools.installed_tools(root, npm=str(codes[0]), environ=environ)
    with anyio.fail_after(20):
        await node_tools.installed_tools(root, npm=str(own), environ=environ)
    assert not mark.exists()


async def test_tools_that_are_there_are_not_installed_again(root: Path) -> None:
    npm = program(root / "bin", "npm", f"hello; {shutil.which('mkdir')} -p node_modules/sucrase")
    with anyio.fail_after(20):
        first = await node_tools.installed_tools(root, npm=str(npm), environ={})
        again = await node_tools.installed_tools(root, npm="/nonexistent", environ={})
    assert first == again == node_tools.tools_place(root)
    assert (first / "node_modules" / "sucrase").is_dir()


async def test_an_installation_that_is_given_up_leaves_neither_files_nor_processes(root: Path) -> None:
    started = root / "started"
    npm = program(root / "bin", "npm", f"hello; sleep 600 & echo $! > {started}.new; mv {started}.new {started}; wait")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: node_tools.installed_tools(root, npm=str(npm), environ={"PATH": "/usr/bin:/bin"}))
        with anyio.fail_after(20):
            while not started.exists():  # noqa: ASYNC110  another process makes it
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    child = int(started.read_text(encoding="utf-8"))
    with anyio.fail_after(20):
        while _is_running(child):  # noqa: ASYNC110  nobody here can wait for it
            await anyio.sleep(0.01)
    assert list((root / "node-tools").iterdir()) == []


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
