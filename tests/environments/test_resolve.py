"""Names become environments that a sandbox uid can really start; builds fail in one clear sentence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio import to_thread

from moonpool.cli.mcp import settings_of_service
from moonpool.core.errors import ConfigError
from moonpool.environments.access import first_obstacle
from moonpool.environments.base import BuildProgress, Environment, EnvironmentBuildError
from moonpool.environments.interpreter import copied_interpreter, describe_interpreter
from moonpool.environments.recipes import recipe_named
from moonpool.environments.resolve import _look_up, is_built, resolve_environment  # pyright: ignore[reportPrivateUsage]

if TYPE_CHECKING:
    from collections.abc import Generator

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files of one uid are read as another")

RESOLVE_BASE = """
import anyio, json, pathlib, sys
from moonpool.environments.resolve import resolve_environment
async def main():
    found = await resolve_environment("base", root=pathlib.Path(sys.argv[1]), uid=int(sys.argv[2]))
    print(json.dumps([str(found.python), [str(path) for path in found.sys_path], [str(path) for path in found.libs]]))
anyio.run(main)
"""


def start_in(environment: Environment, code: str, uid: int, tmp_folder: str = "") -> str:
    """Run code as sandboxes start: isolated, without site, with only the environment's own variables."""
    variables = {**environment.variables, "LD_LIBRARY_PATH": os.pathsep.join(map(str, environment.libs))}
    if tmp_folder:
        variables |= {"MPLCONFIGDIR": tmp_folder + "/matplotlib", "IPYTHONDIR": tmp_folder + "/ipython"}
    script = f"import sys; sys.path[:] = {[str(path) for path in environment.sys_path]!r}\n{code}"
    drop = {"user": uid, "group": uid, "extra_groups": []} if os.geteuid() == 0 else {}
    finished = subprocess.run(
        [str(environment.python), "-I", "-S", "-B", "-c", script],
        env=variables,
        cwd="/",
        capture_output=True,
        encoding="utf-8",
        check=False,
        **drop,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.anyio
async def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown environment 'dada'; known: base, data"):
        await resolve_environment("dada", root=tmp_path, uid=1)


@pytest.mark.anyio
async def test_base_starts_as_the_sandbox_uid_with_the_whole_library(readable_root: Path, sandbox_uid: int) -> None:
    base = await resolve_environment("base", root=readable_root, uid=sandbox_uid)

    said = start_in(base, "import asyncio, ctypes, json, sqlite3, ssl; print(json.dumps([1]))", sandbox_uid)

    assert said == "[1]\n"


@pytest.mark.anyio
async def test_every_path_of_base_is_readable_and_bound(readable_root: Path, sandbox_uid: int) -> None:
    base = await resolve_environment("base", root=readable_root, uid=sandbox_uid)

    paths = [base.python, *base.stdlib_paths, *base.libs, *base.binds]
    assert [path for path in paths if await to_thread.run_sync(first_obstacle, path, sandbox_uid)] == []
    assert [path for path in paths if not any(path.is_relative_to(bind) for bind in base.binds)] == []


@pytest.mark.anyio
async def test_base_is_the_same_when_asked_again(readable_root: Path, sandbox_uid: int) -> None:
    first = await resolve_environment("base", root=readable_root, uid=sandbox_uid)

    assert await resolve_environment("base", root=readable_root, uid=sandbox_uid) == first


def test_the_copy_leaves_packages_and_tests_behind(readable_root: Path) -> None:
    readable_root.mkdir(exist_ok=True)
    copy = copied_interpreter(describe_interpreter(), readable_root)

    assert not {"test", "idlelib", "tkinter", "ensurepip", "site-packages"} & {
        path.name for path in copy.stdlib.iterdir()
    }


@needs_root
def test_an_interpreter_and_home_below_a_closed_folder_work(readable_root: Path, sandbox_uid: int) -> None:
    readable_root.mkdir(exist_ok=True)
    home = readable_root.parent / "home"
    home.mkdir(mode=0o700)
    closed = copied_interpreter(describe_interpreter(), home)  # stands for a version manager in root's home
    path = [str(Path(__file__).parents[2] / "src"), *(entry for entry in sys.path if "site-packages" in entry)]
    variables = {"HOME": str(home), "PYTHONPATH": os.pathsep.join(path), "PATH": "/usr/bin:/bin"}
    variables["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, closed.libs))

    told = subprocess.run(
        [str(closed.python), "-c", RESOLVE_BASE, str(readable_root), str(sandbox_uid)],
        env=variables,
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    python, paths, libs = json.loads(told.stdout)

    assert first_obstacle(closed.python, sandbox_uid) == home
    started = subprocess.run(
        [python, "-I", "-S", "-c", f"import sys; sys.path[:] = {paths!r}; import ssl, json; print(sys.prefix)"],
        env={"LD_LIBRARY_PATH": os.pathsep.join(libs)},
        cwd="/",
        user=sandbox_uid,
        group=sandbox_uid,
        extra_groups=[],
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    assert Path(started.stdout.strip()).is_relative_to(readable_root)


@pytest.fixture
def own_tmp(sandbox_uid: int) -> Generator[Path]:
    """An empty folder of the sandbox uid, where a sandbox would have its tmpfs."""
    folder = Path(tempfile.mkdtemp(prefix="moonpool-test-", dir="/var/tmp"))
    os.chown(folder, sandbox_uid, sandbox_uid)
    yield folder
    shutil.rmtree(folder)


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.anyio
async def test_data_is_built_once_and_starts_single_threaded(real_root: Path, sandbox_uid: int, own_tmp: Path) -> None:
    data = await resolve_environment("data", root=real_root, uid=sandbox_uid)
    said: list[BuildProgress] = []
    again = await resolve_environment("data", root=real_root, uid=sandbox_uid, progress=said.append)

    assert (again, said) == (data, [])
    imports = "".join(f"import {name}\n" for name in (*data.prepare, *data.preload))
    count_threads = "import os; print(len(os.listdir('/proc/self/task')))"
    assert start_in(data, imports + count_threads, sandbox_uid, str(own_tmp)) == "1\n"
    # The font list came with the environment; nothing was scanned, no history was opened.
    assert [name.partition("-v")[0] for name in files_below(own_tmp)] == ["matplotlib", "matplotlib/fontlist"]


@pytest.mark.anyio
async def test_an_unreachable_index_is_one_clear_error_and_leaves_nothing(
    readable_root: Path, sandbox_uid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://someone:hunter2@127.0.0.1:9/simple")
    monkeypatch.setenv("UV_INDEX", "http://someone:hunter2@127.0.0.1:9/extra")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")

    with pytest.raises(EnvironmentBuildError) as failure:
        await resolve_environment("data", root=readable_root, uid=sandbox_uid)

    message = str(failure.value)
    assert message.startswith("environment 'data': uv could not install its packages; nothing was kept. It said:\n")
    assert "127.0.0.1:9" in message
    assert "hunter2" not in message
    assert list((readable_root / "data").iterdir()) == []


@pytest.mark.anyio
async def test_a_cancelled_build_leaves_nothing(
    readable_root: Path, sandbox_uid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path))
    with anyio.CancelScope() as scope:

        def cancel(progress: BuildProgress) -> None:
            scope.cancel()

        await resolve_environment("data", root=readable_root, uid=sandbox_uid, progress=cancel)

    assert scope.cancelled_caught
    assert list((readable_root / "data").iterdir()) == []


@pytest.mark.anyio
async def test_a_linked_folder_has_the_environments_that_are_there(readable_root: Path, sandbox_uid: int) -> None:
    _, digest = await to_thread.run_sync(_look_up, recipe_named("data"), readable_root, sandbox_uid)
    link = readable_root.with_name("linked")
    link.symlink_to(readable_root)
    folder = readable_root / "data" / digest
    folder.mkdir(parents=True)
    try:
        assert await is_built("data", root=link, uid=sandbox_uid)
    finally:
        link.unlink()
        shutil.rmtree(folder.parent)


@pytest.mark.anyio
async def test_mcp_starts_with_data_once_its_packages_are_built(
    monkeypatch: pytest.MonkeyPatch, readable_root: Path, sandbox_uid: int
) -> None:
    folder = readable_root / "data"
    monkeypatch.setenv("MOONPOOL_DATA_DIR", str(readable_root.parent))
    monkeypatch.delenv("MOONPOOL_ENVIRONMENT", raising=False)
    assert (await settings_of_service({})).environment == "base"
    _, digest = await to_thread.run_sync(_look_up, recipe_named("data"), readable_root, sandbox_uid)
    try:
        (folder / "of-an-older-lock").mkdir(parents=True)
        assert not await is_built("data", root=readable_root, uid=sandbox_uid)
        (folder / digest).mkdir()
        assert await is_built("data", root=readable_root, uid=sandbox_uid)

        assert (await settings_of_service({})).environment == "data"
        assert (await settings_of_service({"environment": "base"})).environment == "base"
        monkeypatch.setenv("MOONPOOL_ENVIRONMENT", "base")
        assert (await settings_of_service({})).environment == "base"
    finally:
        shutil.rmtree(folder)
