"""Fixture servers over HTTP, for the tests of this room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from upstreams.peers import HttpServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def echo_http() -> Iterator[HttpServer]:
    server = HttpServer("echo.py")
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def own_echo_http() -> Iterator[HttpServer]:
    """One that the test may kill and start again."""
    server = HttpServer("echo.py")
    try:
        yield server
    finally:
        server.kill()
