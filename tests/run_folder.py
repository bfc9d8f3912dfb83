"""The folder of one run of the tests: environments, data folders, installed programs. It begins empty.

It is shared by the run's workers and removed when the run ends. Below /var/tmp, because a sandbox covers /tmp with its
own; short, because a socket's path holds 107 bytes.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

_VARIABLE: Final = "TEST_RUN_FOLDER"  # what this process starts finds the same folder
_PREFIX: Final = "moonpool-run-"
_PARENT: Final = Path("/var/tmp")


def run_folder() -> Path:
    """The folder of this run. The first process that asks makes it, and removes it when it ends."""
    if (named := os.environ.get(_VARIABLE)) is None:
        named = os.environ[_VARIABLE] = str(_create())
    return Path(named)


def environments() -> Path:
    """Where this run's environments are built, at first use."""
    folder = run_folder() / "environments"
    folder.mkdir(exist_ok=True)
    return folder


def fresh_data(folder: Path) -> Path:
    """Make `folder` a data folder with the environments of this run, and nothing else in it."""
    folder.mkdir(exist_ok=True)
    (folder / "environments").symlink_to(environments())
    return folder


@contextmanager
def made_once(name: str) -> Generator[Path]:
    """A file of this run. The first worker that asks finds none and writes it; the others wait for that."""
    place = run_folder() / name
    with place.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield place


def _create() -> Path:
    for left in _PARENT.glob(f"{_PREFIX}[0-9]*"):
        if not Path(f"/proc/{left.name.removeprefix(_PREFIX)}").exists():
            shutil.rmtree(left, ignore_errors=True)  # of a run that was killed; another account's may not be removed
    folder = _PARENT / f"{_PREFIX}{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    folder.chmod(0o755)  # sandbox uids must be able to pass, whatever the umask
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a child
        shutil.rmtree(folder, ignore_errors=True)
