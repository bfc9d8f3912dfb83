"""An installation that is cancelled while the host unpacks: it ends soon, and blocks nobody meanwhile."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.engine.packages.fetching import FoundWheel
from moonpool.engine.packages.installer import PackageInstaller
from moonpool.engine.packages.store import WheelStore
from waiting import until

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from moonpool.engine.packages.model import StoredWheel

pytestmark = pytest.mark.anyio
WHEEL = FoundWheel(name="large", version="1", url="https://example.com/large", sha256="")


class _Store(WheelStore):
    """Unpacks until it is told to stop. Nothing of it may run in the thread of the loop, which makes it."""

    unpacking = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 10**9)
        self._loop = threading.get_ident()

    @contextmanager
    def working_folder(self) -> Generator[Path]:
        assert threading.get_ident() != self._loop
        with super().working_folder() as folder:
            yield folder
            assert threading.get_ident() != self._loop

    def keep(self, *_: object, given_up: threading.Event | None = None, **__: object) -> StoredWheel:
        self.unpacking = True
        assert given_up is not None
        assert given_up.wait(30), "nobody told it to stop"
        raise InterruptedError


class _Build:
    """A build sandbox as far as it is used here."""

    async def download(self, wheels: object) -> None:
        pass

    async def take(self, *place: object) -> str:
        target: Any = place[-1]
        await anyio.Path(target).touch()
        return "a" * 64


async def test_unpacking_stops_and_leaves_nothing(tmp_path: Path) -> None:
    store = _Store(tmp_path / "store")
    services: Any = SimpleNamespace(store=store, bytes_max=1000)
    unused: Any = None
    installer = PackageInstaller(services, unused, unused, unused, scope="a")
    build: Any = _Build()
    with anyio.fail_after(20):
        storing = asyncio.ensure_future(installer._stored(build, [WHEEL]))
        await until(lambda: store.unpacking)
        storing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await storing
    assert not list((tmp_path / "store").iterdir())
