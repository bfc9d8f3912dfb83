"""The interpreter of this installation, as sandboxes use it.

Moonpool itself usually runs in a virtual environment; a sandbox gets the real interpreter below it: its prefix, its
standard library, and the shared library it was linked with. No part of the virtual environment enters a sandbox.

`copied_interpreter` makes a copy of it where the sandbox uid can read it, for every interpreter that the operating
system did not install: it may be below a closed folder (a version manager's in root's 0700 home), and a sandbox must
not see what a user installed beside it. Only what is needed to run code is copied: no test suites, no Tk, no packages,
no headers. The copy is content-addressed and reused until the original changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass, replace
from pathlib import Path

from moonpool.environments.publishing import building_folder, held_lock, remove_stale_builds

SYSTEM_PREFIX = Path("/usr")
LAYOUT = "1"  # change it when what is copied or described changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A CPython on disk. Every path lies below `prefix`."""

    prefix: Path
    python: Path
    stdlib: Path
    library: Path | None  # libpython*.so, if the interpreter needs one that the system's loader does not find
    version: str

    @property
    def stdlib_paths(self) -> tuple[Path, ...]:
        """`sys.path` of the bare interpreter: pure modules, then extension modules."""
        return (self.stdlib, self.stdlib / "lib-dynload")

    @property
    def is_of_the_system(self) -> bool:
        """Whether the operating system installed it: then no user's files are beside it."""
        return self.prefix.is_relative_to(SYSTEM_PREFIX)

    @property
    def libs(self) -> tuple[Path, ...]:
        return (self.library.parent,) if self.library else ()

    @property
    def digest(self) -> str:
        """A digest that changes when this interpreter is replaced or upgraded. Blocks.

        The same by whichever link it is reached: what was built for it is not built again for a linked folder.
        """
        files = [path.resolve() for path in (self.python, self.library) if path]
        stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        return hashlib.sha256(repr((LAYOUT, self.version, stats)).encode()).hexdigest()[:16]


def describe_interpreter() -> Interpreter:
    """Describe the interpreter this process runs on, outside any virtual environment."""
    prefix = Path(sys.base_prefix).resolve()
    name = f"python{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}"
    candidates = (prefix / "bin" / name, prefix / "bin" / "python3", Path(sys.executable))
    python = next(path for path in candidates if path.exists()).resolve()
    return Interpreter(
        prefix=prefix,
        python=python,
        stdlib=Path(os.__file__).resolve().parent,
        library=_shared_library(prefix),
        version=sys.version,
    )


def _shared_library(prefix: Path) -> Path | None:
    """Return libpython if the interpreter is linked with one outside the system's folders."""
    name = sysconfig.get_config_var("INSTSONAME")
    if prefix == SYSTEM_PREFIX or not sysconfig.get_config_var("Py_ENABLE_SHARED") or not isinstance(name, str):
        return None
    library = prefix / "lib" / name
    return library if library.is_file() else None


LEFT_OUT = frozenset(
    {
        *("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "distutils"),
        *("site-packages", "dist-packages"),
    }
)
LEFT_OUT_SUFFIXES = (".a", ".opt-1.pyc", ".opt-2.pyc")


def copied_interpreter(original: Interpreter, root: Path) -> Interpreter:
    """Return the interpreter's copy below `root`, making it if missing. Blocks: about a second."""
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
    os.sync()  # the contents must reach the disk before the rename


def _left_out(_folder: str, names: list[str]) -> set[str]:
    return {
        name
        for name in names
        if name in LEFT_OUT or name.endswith(LEFT_OUT_SUFFIXES) or name.startswith("config-") or name == "_tkinter"
    }
