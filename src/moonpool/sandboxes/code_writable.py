"""The folders of this machine that code of a sandbox may write, of all sessions that this process has had.

A register for as long as the process lives: what code wrote stays when its session is over. What it guards: imports
(`late_imports`), servers' commands and their directories, links on paths that are used later.
"""

from __future__ import annotations

import _imp
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.sandboxes import late_imports

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_written: Final[set[tuple[Path, tuple[Path, ...]]]] = set()  # with what is read-only in it


def let_code_write(folder: Path, but: tuple[Path, ...]) -> None:
    """Code may write into this folder from now on, `but` not there. INVARIANT: before any code runs that may."""
    if (folder, but) in _written:
        return
    _imp.acquire_lock()  # nobody is between asking a path hook and keeping its answer
    try:
        _written.add((folder, but))
        late_imports.guard(leads_to_code)
    finally:
        _imp.release_lock()


def code_may_write_somewhere() -> bool:
    """Whether this process has attached any folder for writing."""
    return bool(_written)


def code_may_write(path: Path, work: Iterable[Path] = ()) -> bool:
    """Whether code may write at `path`, now or in a session before, or below one of `work`."""
    return any(
        path.is_relative_to(folder) and not any(path.is_relative_to(kept) for kept in but)
        for folder, but in (*_written, *((one.resolve(), ()) for one in work))
    )


def leads_to_code(path: Path) -> bool:
    """Whether what is found at `path` may be code's, as it stands or behind links."""
    try:
        return code_may_write(path.absolute()) or code_may_write(path.resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle, a current directory that was removed
        return code_may_write_somewhere()


def without_code(search_path: str) -> str:
    """The places of a PATH where no program can be code's."""
    places = [place for place in search_path.split(os.pathsep) if not leads_to_code(Path(place))]
    return os.pathsep.join(places) or os.defpath  # empty would be the current directory


def variables_without_code(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables for a program of the host that is started now: in PATH no place where code may write. Blocking.

    SECURITY: a program starter's `node_modules/.bin`, or an empty place, is often first in it; folders are attached
    after it was read.
    """
    if "PATH" not in environ or not code_may_write_somewhere():
        return dict(environ)
    return {**environ, "PATH": without_code(environ["PATH"])}


def link_of_code(path: Path, work: Iterable[Path] = ()) -> Path | None:
    """The first link on a path that code may have made."""
    steps = (*reversed(path.absolute().parents), path.absolute())
    return next((step for step in steps if step.is_symlink() and code_may_write(step.parent.resolve(), work)), None)
