"""What `import moonpool` offers: names, signatures, docstrings. A change of `public_api.txt` is a change for users."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest

import moonpool

GOLDEN = Path(__file__).with_name("public_api.txt")


def described() -> str:
    lines: list[str] = []
    for module in (moonpool, moonpool.sync):
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if name in {"__version__", "sync"}:
                continue
            prefix = "moonpool." if module is moonpool else "moonpool.sync."
            lines += _lines(prefix + name, value)
    return "\n".join(lines) + "\n"


def _lines(path: str, value: Any) -> list[str]:
    if inspect.isclass(value):
        lines = [f"class {path}{_signature(value) if is_dataclass(value) else ''}"]
        for name, member in sorted(inspect.getmembers(value)):
            own = name in {"__aiter__", "__iter__", "__aenter__", "__enter__"} or not name.startswith("_")
            if own and not hasattr(object, name) and not hasattr(Exception, name):
                what = _signature(member) if callable(member) else ""
                lines.append(f"    {name}{what}")
        return lines
    return [f"{path}{_signature(value) if callable(value) else ''}"]


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value))
    except ValueError:
        return ""


@pytest.mark.req("G-049")
def test_names_and_signatures_are_those_that_were_promised() -> None:
    assert described() == GOLDEN.read_text(encoding="utf-8"), "run: python tests/sdk/public_api_golden.py"


def test_everything_public_has_a_docstring() -> None:
    for module in (moonpool, moonpool.sync):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                assert value.__doc__, name
                for member_name, member in vars(value).items() if inspect.isclass(value) else ():
                    if inspect.isfunction(member) and not member_name.startswith("_"):
                        assert member.__doc__, f"{name}.{member_name}"


@pytest.mark.req("G-051")
def test_the_contract_suite_uses_nothing_that_is_private() -> None:
    suite = [path for path in GOLDEN.parent.glob("test_*.py") if "face: Face" in path.read_text(encoding="utf-8")]
    assert len(suite) >= 3
    for path in suite:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.startswith("moonpool.")], path.name


def test_importing_it_imports_nothing_that_is_not_used() -> None:
    code = "import moonpool, sys; print([m for m in sys.modules if m.startswith('moonpool.sdk')]); moonpool.Limits"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"[]\n"
    assert set(dir(moonpool)) == set(moonpool.__all__)


def test_type_checkers_of_applications_read_the_types() -> None:
    assert Path(moonpool.__file__).with_name("py.typed").is_file()
