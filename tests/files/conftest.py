"""Sessions in real sandboxes of both backends; one application each for all tests of the room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from apps import open_app
from files.moving import Workbench
from moonpool.core.errors import HostUnfitError
from sandboxes.images import skip_unless_required
from worker import lasting

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.bootstrap import Tenant


@pytest.fixture(scope="session", params=[pytest.param("bubblewrap", marks=pytest.mark.slow), "zygote"])
async def app(request: pytest.FixtureRequest) -> AsyncGenerator[Tenant]:
    backend = request.param
    try:
        context = open_app(backend=backend, file_bytes_max=8 * 1024**2, disk_bytes_max=32 * 1024**2)
        with lasting():
            opened = await context.__aenter__()
    except HostUnfitError as error:
        skip_unless_required(backend, error.missing)
        raise
    yield opened
    await context.__aexit__(None, None, None)


@pytest.fixture
async def bench(request: pytest.FixtureRequest, app: Tenant) -> AsyncGenerator[Workbench]:
    """A session of its own."""
    request.node.user_properties.append(("sandbox backend", app.settings.backend))
    session = app.runtime.session(app.caller_grant)
    yield Workbench(app, session)
    with anyio.fail_after(20):
        await session.close()
