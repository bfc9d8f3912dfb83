"""The interpreter of this installation, as sandboxes need to know it.

Moonpool itself usually runs in a virtual environment; a sandbox gets the real interpreter below it: its prefix, its
standard library, and the shared library it was linked with. Nothing of the virtual environment enters a sandbox.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

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
        """Whether the operating system installed it: then nothing of a person's lies beside it."""
        return self.prefix.is_relative_to(SYSTEM_PREFIX)

    @property
    def libs(self) -> tuple[Path, ...]:
        return (self.library.parent,) if self.library else ()

    @property
    def digest(self) -> str:
        """Names this interpreter until it is replaced or upgraded."""
        files = [self.python, *([self.library] if self.library else [])]
        stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        return hashlib.sha256(repr((LAYOUT, self.version, stats)).encode()).hexdigest()[:16]


def describe_interpreter() -> Interpreter:
    """Describe the interpreter this process runs on, behind any virtual environment."""
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
    """Return libpython if the interpreter is linked with one that lies outside the system's own folders."""
    name = sysconfig.get_config_var("INSTSONAME")
    if prefix == SYSTEM_PREFIX or not sysconfig.get_config_var("Py_ENABLE_SHARED") or not isinstance(name, str):
        return None
    library = prefix / "lib" / name
    return library if library.is_file() else None
