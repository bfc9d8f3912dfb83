"""A copy of the interpreter where the sandbox uid can read it.

Made for every interpreter that the operating system did not install: it may lie below a closed folder (a version
manager's in root's 0700 home), and a sandbox has no business seeing what a person installed beside it. Only what runs
code is copied: no test suites, no Tk, no packages, no headers. The copy is content-addressed and reused until the
original changes.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from moonpool.environments.publishing import building_folder, held_lock, remove_stale_builds

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.environments.interpreter import Interpreter

LEFT_OUT = frozenset(
    {
        *("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "distutils"),
        *("site-packages", "dist-packages"),
    }
)
LEFT_OUT_SUFFIXES = (".a", ".opt-1.pyc", ".opt-2.pyc")


def copied_interpreter(original: Interpreter, root: Path) -> Interpreter:
    """Return the interpreter's copy below `root`, making it first if it is not there. Blocks: about a second."""
    parent = root / "interpreters"
    prefix = parent / original.digest
    copy = _moved_to(original, prefix)
    if not prefix.is_dir():
        with held_lock(root, "interpreters"):
            remove_stale_builds(parent)
            if not prefix.is_dir():
                with building_folder(prefix) as folder:
                    _copy(original, _moved_to(original, folder))
    return copy


def _moved_to(original: Interpreter, prefix: Path) -> Interpreter:
    library = prefix / "lib" / original.library.name if original.library else None
    return replace(
        original,
        prefix=prefix,
        python=prefix / "bin" / original.python.name,
        stdlib=prefix / original.stdlib.relative_to(original.prefix),
        library=library,
    )


def _copy(original: Interpreter, target: Interpreter) -> None:
    target.python.parent.mkdir(parents=True)
    shutil.copy2(original.python, target.python)
    (target.prefix / "lib").mkdir()
    for library in (original.prefix / "lib").glob("*.so*"):  # libpython, and in a conda prefix what extensions need
        copy = target.prefix / "lib" / library.name
        if library.is_symlink():
            copy.symlink_to(library.readlink())
        else:
            shutil.copy2(library, copy)
    # Modification times are kept, so that the compiled bytecode beside the sources stays valid.
    shutil.copytree(original.stdlib, target.stdlib, ignore=_left_out, dirs_exist_ok=True)
    os.sync()  # the rename must not outlive the contents on a power cut


def _left_out(_folder: str, names: list[str]) -> set[str]:
    return {
        name
        for name in names
        if name in LEFT_OUT or name.endswith(LEFT_OUT_SUFFIXES) or name.startswith("config-") or name == "_tkinter"
    }
