"""Fixtures shared by every test. Rooms keep their own fixtures in their folder's conftest."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The host runs on asyncio only: it registers raw file descriptors with the loop (decision 0002)."""
    return "asyncio"
