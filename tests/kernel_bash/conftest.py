"""Sandboxes with a Bash. The zygote lives as long as the tests do; each test gets a sandbox of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from kernel_bash.probing import BashProbe
from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.zygote import ZygoteBackend
from sandboxes.images import image_of, working

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.sandboxes.base import ImageSpec


@pytest.fixture(scope="session")
async def image() -> ImageSpec:
    image = await image_of("base")
    assert "MOONPOOL_BASH" in image.variables, "bash is not installed"
    return image


@pytest.fixture(scope="session")
async def backend() -> AsyncGenerator[ZygoteBackend]:
    async with working(ZygoteBackend) as backend:
        yield backend


@pytest.fixture
async def bash(request: pytest.FixtureRequest, backend: ZygoteBackend, image: ImageSpec) -> AsyncGenerator[BashProbe]:
    """A fresh sandbox with an echoing broker; bash starts at the first execution."""
    request.node.user_properties.append(("sandbox backend", backend.name))
    with anyio.fail_after(20):
        sandbox = await backend.open_sandbox(SandboxSpec(image=image))
    yield BashProbe(sandbox)
    with anyio.fail_after(20):
        await sandbox.close()
