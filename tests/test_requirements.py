"""The list of requirements against the marks on tests, in both directions.

A row that says `covered` or `decided` without a marked test, a mark of an id that does not exist, and a row of a whole
group that is not listed are failures. Marks are read from the source: a skipped or deselected test counts as written.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tables import every_row

HERE: Final = Path(__file__).parent
LISTED: Final = tomllib.loads((HERE / "requirements.toml").read_text(encoding="utf-8"))
ROWS: Final[dict[str, dict[str, str]]] = LISTED["rows"]
GROUPS: Final = {
    "A": 92, "B": 87, "C": 75, "D": 63, "E": 56, "F": 24, "G": 54, "H": 96, "I": 105, "J": 48, "K": 18,
    "L": 39, "P": 37,
}  # fmt: skip
SETTLED: Final = [f"X-{number:02}" for number in range(1, 30)]
DONE: Final = 17
"""The last issue that is done."""
_FOREIGN: Final = {"goldens", "samples", "data"}


@cache
def marks() -> Counter[str]:
    """Ids on tests, and how often each is there."""
    found: Counter[str] = Counter()
    for path in HERE.rglob("test_*.py"):
        text = path.read_text(encoding="utf-8") if _FOREIGN.isdisjoint(path.relative_to(HERE).parts) else ""
        if "mark.req" in text:
            found.update(_marks_of(ast.parse(text)))
    return found


def _marks_of(tree: ast.AST) -> list[str]:
    """Ids in every `pytest.mark.req(...)`, on tests, parameters and modules alike."""
    return [
        argument.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _names(node.func, "pytest", "mark", "req")
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def _names(node: ast.expr, first: str, *attributes: str) -> bool:
    """Whether `node` is `first.attribute.…`."""
    for attribute in reversed(attributes):
        if not isinstance(node, ast.Attribute) or node.attr != attribute:
            return False
        node = node.value
    return isinstance(node, ast.Name) and node.id == first


@pytest.mark.req("G-053")
def test_every_row_is_listed() -> None:
    whole = [f"{group}-{number:03}" for group, last in GROUPS.items() for number in range(1, last + 1)]
    assert list(ROWS) == sorted([*whole, *SETTLED])


@every_row("row", ROWS)
def test_a_row_says_what_it_is_and_where_it_stands(row: str) -> None:
    told: dict[str, Any] = ROWS[row]
    assert re.fullmatch(r"covered|pending: [1-9]\d*|decided: .{10,}", told["status"])
    assert told["text"]
    assert set(told) <= {"status", "text", "note"}


def test_nothing_is_left_to_an_issue_that_is_done() -> None:
    left = {
        row: told["status"].partition(": ")[2] for row, told in ROWS.items() if told["status"].startswith("pending")
    }
    assert {row: issue for row, issue in left.items() if int(issue) <= DONE} == {}


@every_row("row", [row for row, told in ROWS.items() if not told["status"].startswith("pending")])
def test_a_covered_or_decided_row_has_a_test_that_carries_its_id(row: str) -> None:
    assert marks()[row] > 0


def test_no_test_carries_an_id_that_does_not_exist() -> None:
    assert sorted(mark for mark in marks() if mark not in ROWS) == []
