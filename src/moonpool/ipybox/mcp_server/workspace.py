"""The workspace: the folder of the host in which code works, and from which servers are started.

It is attached to the sandbox as `moonpool run --workspace` attaches it. What the host writes there besides, it writes
without following a link: pictures (`images`), and packages of servers (`mcptools`), which code cannot change.

SECURITY: `.env` and the sandbox configuration are read once, before any code runs. Code can neither read nor replace
`.env`, also where it was not there, and cannot change the configuration.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.bootstrap import host_folders
from moonpool.core.errors import InputError
from moonpool.ipybox.env_file import with_env_file
from moonpool.ipybox.kernel_code import guest_call, pictures_of
from moonpool.ipybox.pictures import save_pictures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.sandboxes.host_folders import HostFolders
    from moonpool.sdk.results import Result
    from moonpool.settings import Settings

PACKAGES: Final = "mcptools"
_KERNEL_PREFIX: Final = "KERNEL_ENV_"


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """One folder, which is the current directory of this process; a `KernelHome`."""

    root: Path
    variables: Mapping[str, str]
    """What `${VAR}` of servers stands for: the environment, and what `.env` adds to it."""

    @property
    def packages(self) -> Path:
        """Where the packages of servers are."""
        return self.root / PACKAGES

    @property
    def kernel_variables(self) -> dict[str, str]:
        """The kernel's variables: those called `KERNEL_ENV_X`, as `X`."""
        return {
            name.removeprefix(_KERNEL_PREFIX): value
            for name, value in self.variables.items()
            if name.startswith(_KERNEL_PREFIX) and name != _KERNEL_PREFIX
        }

    @property
    def calls(self) -> tuple[str, ...]:
        """Pictures stay out of the project: the host writes them to `images`."""
        return (guest_call("pictures", "keep_in('/tmp')"),)

    @property
    def is_here(self) -> bool:
        return True

    def keep_pictures(self, result: Result) -> list[tuple[str, str]]:
        """Save them in `images`. Blocking. Raises OSError."""
        return [(path.stem, str(path)) for path in save_pictures(self.root / "images", pictures_of(result))]

    def make_packages(self) -> None:
        """Make the folder of packages, which a kernel needs to be there when it starts. Raises InputError."""
        try:
            self.packages.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.packages} cannot be made: {error.strerror or error}") from None
        if self.packages.is_symlink():
            raise InputError(f"{self.packages} is a link; the packages of servers need a folder of their own")

    def folders(self, settings: Settings, environ: Mapping[str, str], fixed: tuple[Path, ...] = ()) -> HostFolders:
        """It as a kernel sees it: read-write, but for the packages and the files `fixed`. Blocking; FolderError."""
        found = host_folders(settings, environ, [self.root], fixed=fixed)
        (own,) = found.shown
        # SECURITY: else code could bring back a server whose package somebody removes while it runs
        return replace(found, shown=(replace(own, fixed=tuple(sorted({*own.fixed, PACKAGES}))),))


def enter_workspace(folder: Path, environ: Mapping[str, str]) -> Workspace:
    """Make it the current directory; it is made where it is missing. Raises InputError, ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
    except OSError as error:
        raise InputError(f"the workspace {folder} cannot be used: {error.strerror or error}") from None
    return Workspace(root=Path.cwd(), variables=with_env_file(environ))
