"""Opens backends for attacks, as they are or with a layer taken away. Test-only: no product code has such a switch."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio.to_thread

from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from moonpool.sandboxes.cgroups import LimitsMode, open_groups
from moonpool.sandboxes.zygote import ZygoteBackend
from sandboxes.images import image_of, readable_folder, skip_unless_required
from security.machine import offered_mode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.sandboxes.base import ImageSpec

BACKENDS = {"zygote": ZygoteBackend, "bubblewrap": BubblewrapBackend}
MODES = ("auto", "rlimits") if offered_mode() or os.environ.get("MOONPOOL_REQUIRE_LIMITS") else ("rlimits",)
"""What `limits` may be here. Where groups can be made, `auto` must find them: a test that falls back shows nothing."""

_CHANGEABLE = ("confine.py", "linux.py")


@asynccontextmanager
async def opened(
    name: str, guest_changes: dict[str, str] | None = None, *, limits: str = "rlimits"
) -> AsyncGenerator[tuple[ZygoteBackend | BubblewrapBackend, SandboxSpec]]:
    """A backend and a spec for it. `guest_changes` replaces text in a copy of the guest's confinement."""
    image = await image_of("base")
    groups = await anyio.to_thread.run_sync(open_groups, limits)
    if limits == "auto":
        required = os.environ.get("MOONPOOL_REQUIRE_LIMITS", "")
        assert str(groups.mode).startswith(required), f"{required} is required here, but limits are {groups.mode}"
        assert groups.mode is not LimitsMode.RLIMITS, "this machine offers control groups; they were not used"
    with readable_folder() as folder:
        if guest_changes:
            image = weakened(image, folder / "guest", guest_changes)
        backend = BACKENDS[name](folder / "run", groups)
        skip_unless_required(name, backend.missing_features())
        try:
            yield backend, SandboxSpec(image=image)
        finally:
            await backend.close()
            await groups.close()


def weakened(image: ImageSpec, folder: Path, changes: dict[str, str]) -> ImageSpec:
    """`image` with a copy of the guest whose confinement was changed; the compiled files go, or they would be used."""
    shutil.copytree(image.guest, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)  # a published guest is read-only, and so would be its copy
    sources = {path: path.read_text(encoding="utf-8") for path in (folder / "moonpool_guest" / n for n in _CHANGEABLE)}
    for old, new in changes.items():
        places = [path for path, text in sources.items() for _ in range(text.count(old))]
        assert len(places) == 1, f"the confinement has changed: {old!r} is there {len(places)} times"
        sources[places[0]] = sources[places[0]].replace(old, new)
    for path, text in sources.items():
        path.write_text(text, encoding="utf-8")
    return replace(image, guest=folder, digest=f"{image.digest}-weakened")
