"""Compiles in a new checkout, before the workers start, what they would each compile at once, in lock-step.

That takes 10 s of processor time, in which one process rewrites the tests' assertions while another imports the host.
"""

from __future__ import annotations

import compileall
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from _pytest.assertion.rewrite import (
    PYC_TAIL,
    _rewrite_test,  # pyright: ignore[reportPrivateUsage]
    _write_pyc,  # pyright: ignore[reportPrivateUsage]
    assertstate_key,
    get_cache_dir,
)

from commands.preloaded import import_host

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

_TESTS: Final = Path(__file__).parent
_FEW: Final = 40


def compile_ahead(config: pytest.Config) -> None:
    """Does nothing where few tests have no bytecode, however old it is: workers compile what has changed since.

    A run of a few tests, such as lint's, leaves the bytecode of those only.
    """
    rewritten = {path: get_cache_dir(path) / f"{path.stem}{PYC_TAIL}" for path in _TESTS.rglob("test_*.py")}
    missing = {path: bytecode for path, bytecode in rewritten.items() if not bytecode.exists()}
    if sys.dont_write_bytecode or len(missing) < _FEW:
        return

    def rewrite() -> None:
        for path, bytecode in missing.items():
            bytecode.parent.mkdir(exist_ok=True)
            source_hash, code = _rewrite_test(path, config)
            _write_pyc(config.stash[assertstate_key], code, source_hash, bytecode)

    def compile_imports() -> None:
        import_host()
        for path in (*_TESTS.glob("*.py"), *_TESTS.glob("*/*.py")):  # deeper ones may be a test's material
            if path not in rewritten and path.name != "conftest.py":
                compileall.compile_file(path, quiet=2)

    for child in [_forked(rewrite), _forked(compile_imports)]:
        os.waitpid(child, 0)  # where one fails a worker will, and say why


def _forked(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid
