"""Vocabulary of environments: what a sandbox starts from, how a build reports its progress, how it fails.

An `Environment` is a promise: every path in it exists, is finished, and can be read by the sandbox uid it was resolved
for. Sandboxes bind `binds` read-only, set `variables`, and start `python` with `-s -P -S -B` and their own `sys.path`.
Neighbours: `recipes` (which environments there are), `resolve` (the way in), `guest` (the guest's own code).
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
    """Interpreter, packages and preload list that sandboxes of one kind start from."""

    name: str
    digest: str  # of interpreter, locked packages and recipe; two environments with one digest are interchangeable
    python: Path
    stdlib_paths: tuple[Path, ...]
    site_paths: tuple[Path, ...] = ()
    prepare: tuple[str, ...] = ()  # cheap modules every kernel imports first, preloaded or not
    preload: tuple[str, ...] = ()  # what the zygote imports once, in this order, after `prepare`
    binds: tuple[Path, ...]  # read-only host folders; seen at the same path unless sandboxes cover that place
    libs: tuple[Path, ...] = ()  # LD_LIBRARY_PATH, when the interpreter's own shared library is not in a system folder
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def sys_path(self) -> tuple[Path, ...]:
        return (*self.stdlib_paths, *self.site_paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildProgress:
    """One step of a build: `done` of `total`, and what is being worked on."""

    environment: str
    done: int
    total: int
    note: str


ProgressSink = Callable[[BuildProgress], None]


class EnvironmentBuildError(MoonpoolError):
    """An environment or the guest bundle could not be built. Nothing half-built is left."""

    code = "environment_build_failed"
    fault = Fault.HOST
    retryable = True


class EnvironmentFolderError(MoonpoolError):
    """The folder for environments cannot be used by the sandboxes. Nothing was built."""

    code = "environment_folder_unusable"
    fault = Fault.HOST
