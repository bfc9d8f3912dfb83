"""A service with stored trees and callers of every kind, for tests of its files."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moonpool.bootstrap.stored_files import StorageOfService
from moonpool.features.sandbox_configurations.model import SandboxConfiguration, VolumeMount
from moonpool.features.storage.memory import MemoryHeads
from moonpool.features.storage.model import TreeName
from moonpool.features.storage.service import StoredTrees
from moonpool.store.blobs.addresses import blob_address
from moonpool.store.blobs.opening import open_blobs
from server.services import caller, serving

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    import httpx2

    from moonpool.features.storage.heads import TreeBounds
    from moonpool.server.http.callers import HttpCaller
    from server.services import OpenService

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
    blobs: Path  # the folder of their contents

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
        """Changes on record."""
        tenant = await self.service.service.organisations.tenant("default")
        rows = tenant.journal_place.reader().rows()
        return [dict(row.to_json()) for row in rows if row.kind == "stored_files"]


@asynccontextmanager
async def storing(folder: Path, *, bounds: TreeBounds | None = None, **settings: Any) -> AsyncGenerator[Storing]:
    async def configuration_of(one: HttpCaller) -> SandboxConfiguration:
        return WITHOUT_STORAGE if one.principal == "key:bare" else WITH_STORAGE

    folder.mkdir(exist_ok=True)
    blobs, state = folder / "blobs", folder / "state"
    state.mkdir()
    async with open_blobs(blob_address("", blobs, {})) as opened:
        trees = StoredTrees(MemoryHeads(bounds), opened)
        storage = StorageOfService(trees=trees, configuration_of=configuration_of)
        async with serving({**CALLERS, **OTHERS}, state=state, storage=storage, **settings) as service:
            yield Storing(service, trees, blobs)


def bearer(by: str) -> dict[str, str]:
    return {"authorization": f"Bearer {by}"}


def sent_with(signed: Mapping[str, Any]) -> dict[str, str]:
    """The headers that came with a signed URL."""
    return {one["name"]: one["value"] for one in signed["headers"]}


def thread(name: str = "t1", owner: str = "") -> TreeName:
    return TreeName(kind="thread", name=name, owner=owner)
