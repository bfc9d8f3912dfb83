"""`Executions`: code with stored trees, each in a sandbox of its own."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import anyio

from moonpool.engine.code_request import CodeRequest
from moonpool.engine.stored_files.model import Mount
from moonpool.engine.stored_files.run_storage import RunStorage
from moonpool.engine.stored_files.volumes import ShownVolumes
from moonpool.features.storage.model import TreeName
from stored_files.memory_trees import MemoryTree

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.bootstrap import Tenant
    from moonpool.core.envelope import Envelope


def in_workspace(thread: MemoryTree) -> Mount:
    return Mount(place="/workspace", snapshot=thread.snapshot, held=thread)


def in_data(volume: MemoryTree, *, writable: bool, sub_paths: tuple[str, ...] = ()) -> Mount:
    place = f"/data/{volume.name.name}"
    held = volume if writable else None
    return Mount(place=place, snapshot=volume.snapshot, held=held, sub_paths=sub_paths)


def new_volume(slug: str = "vol") -> MemoryTree:
    return MemoryTree(TreeName(kind="volume", name=slug))


class Executions:
    def __init__(self, app: Tenant, folder: Path) -> None:
        self.app = app
        self.volumes = ShownVolumes(folder)

    async def execute(self, code: str, *mounts: Mount | MemoryTree, **request: Any) -> Envelope:
        shown = tuple(in_workspace(one) if isinstance(one, MemoryTree) else one for one in mounts)
        storage = RunStorage(mounts=shown, timeout_s=30, volumes=self.volumes)
        asked = CodeRequest(code=textwrap.dedent(code).encode(), **request)
        with anyio.fail_after(60):
            return await self.app.runtime.run(asked, self.app.caller_grant, storage=storage)

    async def run(self, code: str, *mounts: Mount | MemoryTree, **request: Any) -> Any:
        """The result of code that must not fail."""
        envelope = await self.execute(code, *mounts, **request)
        assert envelope.error is None, (envelope.error, envelope.extras["stderr"])
        return envelope.data if request.get("language", "python") == "python" else envelope.extras["stdout"]
