"""Kernels in real sandboxes. The zygote lives as long as the tests do; each test gets a sandbox of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.zygote import ZygoteBackend
from sandboxes.images import image_of, working
from sandboxes.probe import Probe

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.sandboxes.base import ImageSpec


@pytest.fixture(scope="session")
async def image() -> ImageSpec:
    return await image_of("base")


@pytest.fixture(scope="session")
async def backend() -> AsyncGenerator[ZygoteBackend]:
    async with working(ZygoteBackend) as backend:
        yield backend


@pytest.fixture
async def kernel(request: pytest.FixtureRequest, backend: ZygoteBackend, image: ImageSpec) -> AsyncGenerator[Probe]:
    """A fresh kernel with an echoing broker."""
    request.node.user_properties.append(("sandbox backend", backend.name))
    with anyio.fail_after(20):
        sandbox = await backend.open_sandbox(SandboxSpec(image=image))
    yield Probe(sandbox)
    with anyio.fail_after(20):
        await sandbox.close()
