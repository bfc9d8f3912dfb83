"""Types of environments: the environment itself, progress of a build, its errors.

Every path in an `Environment` exists, is complete, and can be read by the sandbox uid it was resolved for. Sandboxes
bind `binds` read-only, set `variables`, and start `python` with `-s -P -S -B` and their own `sys.path`. Neighbours:
`recipes` (the list of environments), `resolve` (the entry point), `guest` (the guest's own code).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Interpreter, packages and preload list that sandboxes start from."""

    name: str
    digest: str  # of interpreter, locked packages and recipe; two environments with one digest are interchangeable
    python: Path
    stdlib_paths: tuple[Path, ...]
    site_paths: tuple[Path, ...] = ()
    prepare: tuple[str, ...] = ()  # cheap modules that every kernel imports first, preloaded or not
    preload: tuple[str, ...] = ()  # what the zygote imports once, in this order, after `prepare`
    binds: tuple[Path, ...]  # read-only host folders; mounted at the same path unless sandboxes cover it
    libs: tuple[Path, ...] = ()  # LD_LIBRARY_PATH, when the interpreter's own shared library is not in a system folder
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def sys_path(self) -> tuple[Path, ...]:
        return (*self.stdlib_paths, *self.site_paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildProgress:
    """One step of a build: `done` of `total`, and the current item."""

    environment: str
    done: int
    total: int
    note: str


ProgressSink = Callable[[BuildProgress], None]


class EnvironmentBuildError(MoonpoolError):
    """An environment or the guest bundle could not be built. No partial build is left."""

    code = "environment_build_failed"
    fault = Fault.HOST
    retryable = True


class EnvironmentFolderError(MoonpoolError):
    """The folder for environments cannot be used by the sandboxes. Nothing was built."""

    code = "environment_folder_unusable"
    fault = Fault.HOST
