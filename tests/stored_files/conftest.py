"""Executions with stored trees, in real sandboxes of both backends; one application each for all tests of the room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apps import open_app
from moonpool.core.errors import HostUnfitError
from sandboxes.images import skip_unless_required
from stored_files.executions import Executions
from stored_files.memory_trees import MemoryTree
from worker import lasting

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.bootstrap import Tenant


@pytest.fixture(scope="session", params=[pytest.param("bubblewrap", marks=pytest.mark.slow), "zygote"])
async def app(request: pytest.FixtureRequest) -> AsyncGenerator[Tenant]:
    backend = request.param
    try:
        context = open_app(backend=backend, disk_bytes_max=32 * 1024**2)
        with lasting():
            opened = await context.__aenter__()
    except HostUnfitError as error:
        skip_unless_required(backend, error.missing)
        raise
    yield opened
    await context.__aexit__(None, None, None)


@pytest.fixture
def thread() -> MemoryTree:
    return MemoryTree()


@pytest.fixture
def executions(request: pytest.FixtureRequest, app: Tenant, tmp_path: Path) -> Executions:
    request.node.user_properties.append(("sandbox backend", app.settings.backend))
    return Executions(app, tmp_path / "volumes")
