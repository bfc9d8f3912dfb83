"""What tests open sandboxes from: the image, backends that work here, folders that sandbox uids can read."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
import pytest

from moonpool.bootstrap import find_runtimes, image_spec
from moonpool.environments.resolve import resolve_environment
from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from moonpool.sandboxes.identity import UID_FIRST
from moonpool.sandboxes.zygote import ZygoteBackend
from run_folder import environments

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from moonpool.sandboxes.base import ImageSpec

BackendT = TypeVar("BackendT", ZygoteBackend, BubblewrapBackend)

REQUIRED = frozenset(filter(None, os.environ.get("MOONPOOL_REQUIRE_BACKENDS", "").split(",")))
"""Backends whose absence is a failure: on the machine that must prove them a skip would hide everything."""


def skip_unless_required(name: str, missing: object) -> None:
    """End the test when something is missing for backend `name`: as a failure where the backend is required."""
    if missing and name in REQUIRED:
        pytest.fail(f"{name} is required here, but: {missing}")
    if missing:
        pytest.skip(f"{name}: {missing}")


@asynccontextmanager
async def working(kind: Callable[[Path], BackendT]) -> AsyncGenerator[BackendT]:
    """A backend of its own folder, closed at the end. Skips where it lacks something; see `skip_unless_required`."""
    with readable_folder() as folder:
        backend = kind(folder)
        skip_unless_required(backend.name, backend.missing_features())
        yield backend
        with anyio.fail_after(20):
            await backend.close()


async def image_of(name: str) -> ImageSpec:
    """Environment `name`; built at first use, then shared by the run's workers."""
    root = environments()
    environment = await resolve_environment(name, root=root, uid=os.geteuid() or UID_FIRST)
    return image_spec(environment, root, await find_runtimes(root.parent, os.environ))


@contextmanager
def readable_folder() -> Generator[Path]:
    """A folder that every uid may pass. Not below /tmp, which a sandbox covers with its own."""
    folder = Path(tempfile.mkdtemp(prefix="moonpool-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
