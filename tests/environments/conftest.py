"""Roots for environments: one that any uid can read, and the one that this machine really uses."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from blockbuster import blockbuster_ctx

from run_folder import environments

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.fixture(autouse=True)
def never_block_the_loop() -> Generator[None]:
    """Whoever resolves an environment may be serving others on the same loop."""
    with blockbuster_ctx("moonpool.environments") as watch:
        for function in watch.functions.values():  # importing reads files anyway; once for each module
            function.can_block_in("<frozen importlib._bootstrap>", {"_find_and_load"})
        yield


@pytest.fixture(scope="session")
def readable_root() -> Generator[Path]:
    """A fresh root outside pytest's own folder, which is closed to everybody else."""
    folder = Path(tempfile.mkdtemp(prefix="moonpool-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder / "environments"
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def real_root() -> Path:
    """Where this run's environments live: `data` is built there once."""
    return environments()


@pytest.fixture(scope="session")
def sandbox_uid() -> int:
    """Who sandboxes run as: a uid of their own where we may choose, else ourselves."""
    return 54321 if os.geteuid() == 0 else os.geteuid()
