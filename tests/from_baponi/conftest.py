"""A service as an operator starts it, with a key as `moonpool keys create --profile baponi` makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from anyio.from_thread import start_blocking_portal

from from_baponi.clients import sdk
from from_baponi.service import serving_baponi
from service_stores import FOLDER, shared_stores

if TYPE_CHECKING:
    from collections.abc import Generator

    from from_baponi.clients import Client
    from from_baponi.service import BaponiService
    from service_stores import Stores


@pytest.fixture(scope="module", params=["sqlite, folder", "postgresql, s3"])
def stores(request: pytest.FixtureRequest) -> Generator[Stores]:
    """Empty ones."""
    if request.param == "sqlite, folder":
        yield FOLDER
        return
    servers = (request.getfixturevalue("postgres"), request.getfixturevalue("s3_server"))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(shared_stores(*servers)) as made:
        yield made


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, stores: Stores) -> Generator[BaponiService]:
    with serving_baponi(tmp_path_factory.mktemp("baponi"), stores=stores) as started:
        yield started


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest, service: BaponiService) -> Generator[Client]:
    with sdk(request.param, service.url, service.key) as opened:
        yield opened


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Both of the SDK's clients on files, where all of it is tried; one of them where only the stores are others."""
    twice = [one for one in items if "[postgresql, s3-async" in one.name or "[async-postgresql, s3" in one.name]
    if twice:
        config.hook.pytest_deselected(items=twice)
        items[:] = [one for one in items if one not in twice]
