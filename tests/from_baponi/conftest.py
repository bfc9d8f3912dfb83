"""A service as an operator starts it, with a key as `moonpool keys create --profile baponi` makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from from_baponi.clients import sdk
from from_baponi.service import serving_baponi

if TYPE_CHECKING:
    from collections.abc import Generator

    from from_baponi.clients import Client
    from from_baponi.service import BaponiService


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Generator[BaponiService]:
    with serving_baponi(tmp_path_factory.mktemp("baponi")) as started:
        yield started


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest, service: BaponiService) -> Generator[Client]:
    with sdk(request.param, service.url, service.key) as opened:
        yield opened
