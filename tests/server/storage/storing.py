"""A service with stored trees and callers of every kind, for tests of its files."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync

from moonpool.bootstrap.storage import open_trees
from moonpool.bootstrap.stored_files import StorageOfService
from moonpool.features.sandbox_configurations.model import SandboxConfiguration, VolumeMount
from moonpool.features.storage.model import TreeName
from moonpool.settings import Settings
from moonpool.store.database.addresses import database_address
from moonpool.store.database.opening import open_database
from moonpool.store.paths import files_dir
from server.services import caller, in_turn, serving
from service_stores import FOLDER

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    import httpx2

    from moonpool.core.audit import AuditRow
    from moonpool.features.storage.service import StoredTrees
    from moonpool.server.http.callers import HttpCaller
    from server.services import OpenService
    from service_stores import Stores

FILES = frozenset({"files"})
WITH_STORAGE = SandboxConfiguration(
    configuration_id="c1",
    name="storing",
    has_storage=True,
    volumes=(VolumeMount(slug="shared", writable=True), VolumeMount(slug="library")),
)
WITHOUT_STORAGE = SandboxConfiguration(configuration_id="c2", name="bare")
CALLERS: dict[str, HttpCaller] = {
    "key": caller("key", scopes=FILES),
    "baponi": caller("baponi", scopes=FILES, profile="baponi"),
    "admin": caller("admin", scopes=FILES | {"admin"}),
    "alice": caller("alice", principal="user:https://login.example#alice", scopes=FILES),
    "runs": caller("runs", scopes=frozenset({"execute"})),
    "bare": caller("bare", scopes=FILES),
    "direct": caller("direct", scopes=FILES, profile="direct"),
}
OTHERS: dict[str, HttpCaller] = {"other": caller("other", "other", scopes=FILES)}
"""Of another organisation, for which a process that is not root's has no tenant: it can list, but not change."""
THREAD = {"source": "thread", "id": "t1"}


@dataclass(frozen=True)
class Storing:
    """A service that has them."""

    service: OpenService
    trees: StoredTrees
    blobs: Path  # the folder of their contents, where they are in one
    _earlier: list[AuditRow] = field(default_factory=list, init=False)

    async def post(self, path: str, body: Mapping[str, Any] | None = None, *, by: str = "key") -> httpx2.Response:
        return await self.service.http.post(f"/v1/{path}", json=body or {}, headers=bearer(by))

    async def get(self, path: str, *, by: str = "key") -> httpx2.Response:
        return await self.service.http.get(f"/v1/{path}", headers=bearer(by))

    async def delete(self, path: str, *, by: str = "key") -> httpx2.Response:
        return await self.service.http.delete(f"/v1/{path}", headers=bearer(by))

    async def upload_url(self, path: str, size: int, *, by: str = "key", **more: Any) -> dict[str, Any]:
        answer = await self.post("files/upload_url", {**THREAD, "path": path, "content_length": size, **more}, by=by)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def download_url(self, path: str, *, by: str = "key", **more: Any) -> dict[str, Any]:
        answer = await self.post("files/download_url", {**THREAD, "path": path, **more}, by=by)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def put(self, path: str, content: bytes, *, by: str = "key", **more: Any) -> httpx2.Response:
        """Both steps of an upload."""
        signed = await self.upload_url(path, len(content), by=by, **more)
        return await self.service.http.put(signed["url"], content=content, headers=sent_with(signed))

    async def listed(self, path: str = "", *, by: str = "key", **more: Any) -> dict[str, Any]:
        answer = await self.post("files/list", {**THREAD, "path": path, **more}, by=by)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def write(self, name: TreeName, **files: bytes) -> None:
        """Files by name, with __ for /, without HTTP."""
        own = self.trees.of("default")
        writer = own.writer(name)
        for path, content in files.items():
            await writer.begin_file(path.replace("__", "/"), size=len(content), modified_ns=10**18)
            await writer.write(content)
        await own.commit(name, writer)

    async def recorded(self) -> list[dict[str, Any]]:
        """Changes on record since it was cleared."""
        return [dict(row.to_json()) for row in (await self._rows())[len(self._earlier) :]]

    async def clear(self) -> None:
        """As at first, for the next test."""
        own = self.trees.of("default")
        for kind in ("thread", "volume"):
            for state in await own.all(kind):
                await own.delete(state.name)
        self._earlier[:] = await self._rows()

    async def _rows(self) -> list[AuditRow]:
        tenant = await self.service.service.organisations.tenant("default")
        rows = await run_sync(lambda: list(tenant.journal_place.reader().rows()))
        return [row for row in rows if row.kind == "stored_files"]


@asynccontextmanager
async def storing(
    folder: Path, *, stores: Stores = FOLDER, replicas: int = 1, **settings: Any
) -> AsyncGenerator[Storing]:
    """`replicas`: so many, where stores are shared, that answer in turn."""
    async with AsyncExitStack() as stack:
        places = [folder / str(number) for number in range(replicas if stores.are_shared else 1)]
        opened = [await stack.enter_async_context(_opened(place, stores, settings)) for place in places]
        service = await stack.enter_async_context(in_turn([one for one, _ in opened]))
        yield Storing(service, opened[0][1], files_dir(places[0]))


@asynccontextmanager
async def _opened(
    folder: Path, stores: Stores, settings: dict[str, Any]
) -> AsyncGenerator[tuple[OpenService, StoredTrees]]:
    async def configuration_of(one: HttpCaller) -> SandboxConfiguration:
        return WITHOUT_STORAGE if one.principal == "key:bare" else WITH_STORAGE

    folder.mkdir(parents=True)
    chosen = Settings.load({}, **stores.settings, **settings)
    async with (
        open_database(database_address(chosen.database_url, folder)) as database,
        open_trees(chosen, folder, stores.secrets, database, alone=not stores.are_shared) as trees,
        serving(
            {**CALLERS, **OTHERS},
            state=folder,
            storage=StorageOfService(trees=trees, configuration_of=configuration_of),
            environ=stores.secrets,
            **stores.settings,
            **settings,
        ) as service,
    ):
        yield service, trees


def bearer(by: str) -> dict[str, str]:
    return {"authorization": f"Bearer {by}"}


def sent_with(signed: Mapping[str, Any]) -> dict[str, str]:
    """The headers that came with a signed URL."""
    return {one["name"]: one["value"] for one in signed["headers"]}


def thread(name: str = "t1", owner: str = "") -> TreeName:
    return TreeName(kind="thread", name=name, owner=owner)
