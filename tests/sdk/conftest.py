"""Sessions in tests use the data folder of the worker; its environments are built already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import moonpool
from apps import DATA
from sdk.faces import CONNECTED, FACES, LOCAL_FACES
from sdk.service import ServiceThread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sdk.faces import Coroutines, Face, PlainCalls


@pytest.fixture(scope="session")
def _engine() -> Iterator[None]:
    """Keep the engine open that sessions without options of their own share: opening one takes half a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOONPOOL_DATA_DIR", str(DATA))
        with moonpool.sync.session():
            yield


@pytest.fixture(autouse=True)
def _data(_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONPOOL_DATA_DIR", str(DATA))


@pytest.fixture(scope="session")
def served(_engine: None) -> Iterator[ServiceThread]:
    """A service that the tests of this process share, with an organisation that keeps its engine open."""
    CONNECTED.service = service = ServiceThread().start()
    over = service.keep_open()
    try:
        yield service
    finally:
        over()
        service.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """At a service the heart of the suite is quick; the rest is among the slow tests."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or callspec.params.get("face") is not CONNECTED:
            continue
        if item.path.name != "test_sessions.py" or "test_bad_options" in item.name:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=FACES, ids=lambda face: face.name)
def face(request: pytest.FixtureRequest) -> Face:
    """The one place where implementations of the interface enter the contract suite."""
    if request.param is CONNECTED:
        request.getfixturevalue("served")
    return request.param


@pytest.fixture(params=LOCAL_FACES, ids=lambda face: face.name)
def local_face(request: pytest.FixtureRequest) -> Coroutines | PlainCalls:
    """A face of sessions on this machine, for what a service does not have: its folders."""
    return request.param
