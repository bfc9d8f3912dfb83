"""The image that tests open sandboxes from, and folders that sandbox uids can read."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.bootstrap import find_runtimes, image_spec
from moonpool.environments.publishing import default_root
from moonpool.environments.resolve import resolve_environment
from moonpool.sandboxes.identity import UID_FIRST

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.sandboxes.base import ImageSpec

REQUIRED = frozenset(filter(None, os.environ.get("MOONPOOL_REQUIRE_BACKENDS", "").split(",")))
"""Backends whose absence is a failure: on the machine that must prove them a skip would hide everything."""


async def image_of(name: str) -> ImageSpec:
    """Environment `name` where environments really live on this machine; built at first use, then reused."""
    root = default_root(os.environ, os.geteuid(), Path.home())
    environment = await resolve_environment(name, root=root, uid=os.geteuid() or UID_FIRST)
    return image_spec(environment, root, await find_runtimes(root.parent, os.environ))


@contextmanager
def readable_folder() -> Generator[Path]:
    """A folder that every uid may pass. Not below /tmp, which a sandbox covers with its own."""
    folder = Path(tempfile.mkdtemp(prefix="moonpool-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
