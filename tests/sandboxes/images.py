"""The image that tests open sandboxes from, and folders that sandbox uids can read."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.environments.guest import publish_guest
from moonpool.environments.publishing import default_root
from moonpool.environments.resolve import resolve_environment
from moonpool.sandboxes.base import ImageSpec
from moonpool.sandboxes.identity import UID_FIRST

if TYPE_CHECKING:
    from collections.abc import Generator

REQUIRED = frozenset(filter(None, os.environ.get("MOONPOOL_REQUIRE_BACKENDS", "").split(",")))
"""Backends whose absence is a failure: on the machine that must prove them a skip would hide everything."""


async def image_of(name: str) -> ImageSpec:
    """Environment `name` where environments really live on this machine; built at first use, then reused."""
    root = default_root(os.environ, os.geteuid(), Path.home())
    environment = await resolve_environment(name, root=root, uid=os.geteuid() or UID_FIRST)
    libraries = {"LD_LIBRARY_PATH": os.pathsep.join(map(str, environment.libs))} if environment.libs else {}
    return ImageSpec(
        name=environment.name,
        digest=environment.digest,
        python=environment.python,
        guest=publish_guest(root),
        binds=tuple(path for path in environment.binds if path != Path("/usr")),
        site_paths=environment.site_paths,
        preload=(*environment.prepare, *environment.preload),
        variables={**environment.variables, **libraries},
    )


@contextmanager
def readable_folder() -> Generator[Path]:
    """A folder that every uid may pass. Not below /tmp, which a sandbox covers with its own."""
    folder = Path(tempfile.mkdtemp(prefix="moonpool-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
