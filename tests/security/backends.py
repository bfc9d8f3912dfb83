"""Opens backends for attacks, as they are or with a layer taken away. Test-only: no product code has such a switch."""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from moonpool.sandboxes.zygote import ZygoteBackend
from sandboxes.images import REQUIRED, image_of, readable_folder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.sandboxes.base import ImageSpec

BACKENDS = {"zygote": ZygoteBackend, "bubblewrap": BubblewrapBackend}


@asynccontextmanager
async def opened(
    name: str, guest_changes: dict[str, str] | None = None
) -> AsyncGenerator[tuple[ZygoteBackend | BubblewrapBackend, SandboxSpec]]:
    """A backend and a spec for it. `guest_changes` replaces text in a copy of the guest's confinement."""
    image = await image_of("base")
    with readable_folder() as folder:
        if guest_changes:
            image = weakened(image, folder / "guest", guest_changes)
        backend = BACKENDS[name](folder / "run")
        if missing := backend.missing_features():
            if name in REQUIRED:
                pytest.fail(f"{name} is required here, but: {missing}")
            pytest.skip(f"{name}: {missing}")
        try:
            yield backend, SandboxSpec(image=image)
        finally:
            await backend.close()


def weakened(image: ImageSpec, folder: Path, changes: dict[str, str]) -> ImageSpec:
    """`image` with a copy of the guest whose confinement was changed; the compiled files go, or they would be used."""
    shutil.copytree(image.guest, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)  # a published guest is read-only, and so would be its copy
    source = folder / "moonpool_guest" / "confine.py"
    text = source.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert text.count(old) == 1, f"confine.py has changed: {old!r} is not there once"
        text = text.replace(old, new)
    source.write_text(text, encoding="utf-8")
    return replace(image, guest=folder, digest=f"{image.digest}-weakened")
