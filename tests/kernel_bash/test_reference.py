"""The pages say what Bash does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUEST = ROOT / "src" / "moonpool_guest"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "kind", sorted(set(re.findall(r'"([A-Z]\w+)", (?:f?"|message|problem)', _text(GUEST / "bash" / "companion.py"))))
)
def test_every_type_of_error_has_a_row(kind: str) -> None:
    assert f"| `{kind}` |" in _text(ROOT / "docs" / "reference" / "runtime-contract.md")


def test_the_page_of_the_command_has_what_its_help_has() -> None:
    page = _text(ROOT / "docs" / "reference" / "sandbox-command.md")
    usage = _text(GUEST / "bin" / "lib" / "moonpool_command" / "main.py")
    for line in re.findall(r"moonpool (?:call|tools) \S.*", usage.partition('USAGE = """')[2].partition('"""')[0]):
        assert f"## `{line}`" in page
