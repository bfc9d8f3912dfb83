"""One test for all rows of a table: every row is checked, and every one that fails is named with its reason."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tables import SHOWN_MAX, check_rows, every_row, named


@every_row(("number", "double"), [(1, 2), (2, 5), pytest.param(3, 6, id="three"), pytest.param(4, 7, id="four")])
def doubles(number: int, *, double: int) -> None:
    assert number * 2 == double


@every_row("word", ["a", "b"])
def outcomes(word: str) -> None:
    if word == "a":
        with pytest.raises(ValueError, match="never"):
            word.strip()
    else:
        pytest.skip("not today")


def told_by(test: object) -> str:
    assert callable(test)
    with pytest.raises(AssertionError) as failure:
        test()
    return str(failure.value)


def test_every_row_that_fails_is_named_with_its_reason() -> None:
    told = told_by(doubles)
    assert told.startswith("2 of 4 rows fail\n--- 2-5\n")
    assert [line for line in told.splitlines() if line.startswith("---")] == ["--- 2-5", "--- four"]
    assert told.count("assert number * 2 == double") == 2
    assert told_by(doubles) == told
    assert "assert (4 * 2) == 7" in told


def test_what_pytest_raises_is_a_failure_of_its_row_and_a_skip_is_one_too() -> None:
    told = told_by(outcomes)
    assert told.startswith("2 of 2 rows fail\n--- a\n")
    assert "DID NOT RAISE" in told
    assert "not today" in told


def test_a_table_without_rows_is_a_failure() -> None:
    assert "without rows" in told_by(every_row("word", [])(outcomes))


def test_a_test_that_would_have_to_be_awaited_is_refused() -> None:
    async def check(word: str) -> None:
        pass

    with pytest.raises(AssertionError, match="await"):
        every_row("word", ["a"])(check)


def test_a_mark_on_a_row_is_refused() -> None:
    with pytest.raises(AssertionError, match="mark"):
        named(("word",), [pytest.param("a", marks=pytest.mark.anyio)], None)


def test_rows_may_be_made_when_the_test_runs_and_fixtures_are_those_of_the_test() -> None:
    seen: list[tuple[str, str]] = []
    made: list[str] = []

    def rows() -> list[str]:
        made.append("now")
        return ["a", "b"]

    @every_row("word", rows)
    def check(word: str, capsys: str) -> None:
        seen.append((word, capsys))

    assert made == []
    assert list(inspect.signature(check).parameters) == ["capsys"]
    check(capsys="a fixture")
    assert (made, seen) == (["now"], [("a", "a fixture"), ("b", "a fixture")])


def test_much_that_fails_is_told_within_bounds() -> None:
    def check(word: str) -> None:
        raise ValueError(word * 10_000)

    with pytest.raises(AssertionError) as failure:
        check_rows([(f"row {number}", {"word": "x"}) for number in range(SHOWN_MAX + 200)], check)
    told = str(failure.value)
    assert told.count("--- row ") == SHOWN_MAX + 200
    assert told.endswith("--- row 219: ValueError")
    assert len(told) < 60_000


@pytest.mark.parametrize(
    ("rows", "ids", "expected"),
    [
        pytest.param([("a", 1), (b"b", None)], None, ["a-1", "b-None"], id="plain values"),
        pytest.param([("«é", "\n\ud800")], None, ["«é-\\n\\ud800"], id="what a terminal cannot show"),
        pytest.param([([], "a"), ({}, "b" * 101)], None, ["x0-a", "x1-y1"], id="others go by member and number"),
        pytest.param([(int, 1), (len, 2)], None, ["int-1", "len-2"], id="what has a name"),
        pytest.param([("a", 1), ("a", 1)], None, ["a-1", "a-1 (2)"], id="twice the same"),
        pytest.param([("a", 1), ("b", 2)], ["first", "second"], ["first", "second"], id="listed"),
        pytest.param([("a", 1)], lambda value: value * 2 if value == "a" else None, ["aa-1"], id="made"),
        pytest.param([pytest.param("a", 1, id="own"), pytest.param("a", 1)], None, ["own", "a-1"], id="their own"),
    ],
)
def test_rows_go_by_names_like_those_that_pytest_gives(rows: list[Any], ids: Any, expected: list[str]) -> None:
    assert [name for name, _ in named(("x", "y"), rows, ids)] == expected
