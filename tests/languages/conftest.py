"""One application with an echoing server for all tests; every test opens sandboxes of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apps import fixture_server, open_app

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.bootstrap import Tenant


@pytest.fixture(scope="module")
async def app() -> AsyncGenerator[Tenant]:
    async with open_app({"echo": fixture_server("echo.py", allow=["*"], deny=["text"])}) as opened:
        yield opened
