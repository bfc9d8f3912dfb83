"""What this process imports late does not come from a folder that code of a sandbox may write.

A program often stands in the folder that it attaches: then that folder is the first on `sys.path`, and a file `uv.py`
or `stringprep.py` that code writes there would run in this process as soon as somebody imports that name.

SECURITY: this covers Python's own modules and those that Moonpool imports late, not what the program imports.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_NAMES: Final = frozenset({
    *sys.stdlib_module_names, "cryptography", "httpx2", "idna", "mcp", "prometheus_client", "rich", "uv",
})  # fmt: skip


class _Elsewhere(MetaPathFinder):
    """Finds these names elsewhere first."""

    def __init__(self, code_may_write: Callable[[Path], bool]) -> None:
        self._code_may_write = code_may_write

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002  the protocol's
    ) -> ModuleSpec | None:
        if path is not None or fullname not in _NAMES:
            return None
        return PathFinder.find_spec(
            fullname, [one for one in sys.path if not self._code_may_write(Path(one).resolve())]
        )


def guard_late_imports(code_may_write: Callable[[Path], bool]) -> None:
    """From now on, once for this process."""
    if not any(isinstance(finder, _Elsewhere) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Elsewhere(code_may_write))
