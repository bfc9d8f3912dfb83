"""Backends and images. A backend that this host lacks is skipped, unless `MOONPOOL_REQUIRE_BACKENDS` names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from moonpool.sandboxes.zygote import ZygoteBackend
from sandboxes.images import image_of, readable_folder, skip_unless_required

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from pathlib import Path

    from moonpool.sandboxes.base import ImageSpec

REAL = {"zygote": ZygoteBackend, "bubblewrap": BubblewrapBackend}


@pytest.fixture(scope="session")
def image() -> ImageSpec:
    """The `base` environment of this machine."""
    return anyio.run(image_of, "base")


@pytest.fixture
def state_dir() -> Generator[Path]:
    with readable_folder() as folder:
        yield folder


@pytest.fixture(params=sorted(REAL))
async def real_backend(
    request: pytest.FixtureRequest, state_dir: Path
) -> AsyncGenerator[ZygoteBackend | BubblewrapBackend]:
    """Each backend that really isolates; nothing of it may be left when the test ends."""
    backend = REAL[request.param](state_dir)
    skip_unless_required(request.param, backend.missing_features())
    request.node.user_properties.append(("sandbox backend", request.param))
    yield backend
    with anyio.fail_after(20):
        await backend.close()
