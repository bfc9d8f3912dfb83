"""One backend for the applications that a worker's tests open: starting a zygote costs more than most of the tests."""

from __future__ import annotations

import dataclasses
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from zlib import crc32

from moonpool.bootstrap.sandboxes import limit_groups, make_backend
from moonpool.engine.run_folder import run_folder
from worker import UNTIL_THE_END, in_shared_loop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from moonpool.sandboxes.base import Sandbox, SandboxBackend, SandboxSpec
    from moonpool.settings import Settings


class SharedBackend:
    """One application's view of the backend that all share."""

    def __init__(self, backend: SandboxBackend) -> None:
        self._backend = backend
        self.name, self.limits_mode = backend.name, backend.limits_mode
        self._sandboxes: list[Sandbox] = []

    def missing_features(self) -> Sequence[str]:
        return self._backend.missing_features()

    async def open_sandbox(self, spec: SandboxSpec) -> Sandbox:
        # A backend knows an image by its digest, but one test has Node.js on its PATH and the next has not.
        image = dataclasses.replace(spec.image, digest=f"{spec.image.digest}-{crc32(repr(spec.image).encode()):x}")
        sandbox = await self._backend.open_sandbox(dataclasses.replace(spec, image=image))
        self._sandboxes.append(sandbox)
        return sandbox

    async def close_scope(self, scope: str) -> None:
        """Other applications of this worker have the same scope."""

    async def close(self) -> None:
        """End what is left, and fail for it: nobody but the application ends its sandboxes on a backend of several."""
        left = [sandbox for sandbox in self._sandboxes if not sandbox.has_ended]
        for sandbox in left:
            await sandbox.close()
        assert left == []


_opened: list[SandboxBackend] = []


@asynccontextmanager
async def shared_backend(settings: Settings, data: Path) -> AsyncGenerator[SandboxBackend | None]:
    """The backend of all tests, opened as `settings` ask by the first; None in a loop that a test made itself."""
    if not in_shared_loop():
        yield None
        return
    if not _opened:
        folder = UNTIL_THE_END.enter_context(run_folder(data / "run"))
        backend = make_backend(settings, folder, await limit_groups(UNTIL_THE_END, settings), data)
        UNTIL_THE_END.push_async_callback(backend.close)
        _opened.append(backend)
    view = SharedBackend(_opened[0])
    yield view
    await view.close()
