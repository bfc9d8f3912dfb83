"""Environments of the peers, made at first use from hash-locked requirements into a folder that git ignores.

What is installed stands in `requirements/bench-NAME.txt`; where it comes from is this machine's own setting. A changed
lock, or another Python, makes another folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

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
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode() + str(_ROOT).encode()).hexdigest()[:16]
    folder = _FOLDER / f"{name}-{digest}"
    _FOLDER.mkdir(exist_ok=True)
    with (_FOLDER / f"{name}.lock").open("w", encoding="utf-8") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (folder / ".done").exists():
            print(f"bench: installing the peer {name} …", file=sys.stderr, flush=True)
            _install(lock, folder)
            (folder / ".done").touch()
    return folder / "bin" / "python"


def _install(lock: Path, folder: Path) -> None:
    for old in _FOLDER.glob(f"{folder.name.rpartition('-')[0]}-*"):
        shutil.rmtree(old)
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
