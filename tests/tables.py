"""Tables of cheap checks: one test for all rows of a table, which names every row that fails, not only the first."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SHOWN_MAX: Final = 20
"""Of so many rows that fail the traceback is shown; the others are named."""
_TRACEBACK_CHARACTERS_MAX: Final = 2_000
_WORD_CHARACTERS_MAX: Final = 100
_Param: Final = type(pytest.param())
_FAILURES: Final = (Exception, pytest.fail.Exception, pytest.skip.Exception)  # a row cannot be skipped


def every_row(
    names: str | Sequence[str],
    rows: Iterable[Any] | Callable[[], Iterable[Any]],
    ids: Sequence[str] | Callable[[Any], str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like `pytest.mark.parametrize`, with one test for all rows; marks belong to the test.

    For what takes a few milliseconds a row and leaves nothing behind: every row gets the same fixtures. `rows` may be a
    function that makes them when the test runs.
    """
    members = (names,) if isinstance(names, str) else tuple(names)
    table = rows if callable(rows) else list(rows)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        assert not inspect.iscoroutinefunction(test), "nobody would await its rows"

        @functools.wraps(test)
        def all_rows(**fixtures: Any) -> None:
            __tracebackhide__ = True
            made = list(table()) if callable(table) else table
            check_rows(named(members, made, ids), functools.partial(test, **fixtures))

        own = inspect.signature(test)
        shared = [parameter for name, parameter in own.parameters.items() if name not in members]
        all_rows.__signature__ = own.replace(parameters=shared)
        return all_rows

    return decorate


def check_rows(rows: Sequence[tuple[str, dict[str, Any]]], check: Callable[..., None]) -> None:
    """Calls `check` with the members of each named row. Raises one AssertionError about all rows that fail."""
    __tracebackhide__ = True
    assert rows, "a table without rows checks nothing"
    failed: list[str] = []
    for name, members in rows:
        try:
            check(**members)
        except _FAILURES as error:
            shown = len(failed) < SHOWN_MAX
            failed.append(f"--- {name}\n{_told(error)}" if shown else f"--- {name}: {type(error).__name__}")
    if failed:
        raise AssertionError("\n".join([f"{len(failed)} of {len(rows)} rows fail", *failed]))


def named(
    members: Sequence[str], rows: Sequence[Any], ids: Sequence[str] | Callable[[Any], str] | None
) -> list[tuple[str, dict[str, Any]]]:
    """Rows by names like those that pytest gives, all different, and their values by the names of `members`."""
    found: list[tuple[str, dict[str, Any]]] = []
    seen: Counter[str] = Counter()
    for number, row in enumerate(rows):
        if isinstance(row, _Param):
            assert not row.marks, "a mark belongs to the test, not to a row of its table"
            values, given = row.values, row.id
        else:
            values = (row,) if len(members) == 1 else row
            given = None if ids is None or callable(ids) else ids[number]
        by_name = dict(zip(members, values, strict=True))
        name = given or "-".join(_word(*member, number, ids) for member in by_name.items())
        seen[name] += 1
        found.append((name if seen[name] == 1 else f"{name} ({seen[name]})", by_name))
    return found


def _word(member: str, value: Any, number: int, ids: object) -> str:
    if callable(ids) and (word := ids(value)) is not None:
        return str(word)
    text = value.decode("ascii", "backslashreplace") if isinstance(value, bytes) else value
    if isinstance(text, str) and len(text) <= _WORD_CHARACTERS_MAX:
        return text if text.isprintable() else text.encode("unicode_escape").decode()
    if isinstance(value, int | float | None):
        return str(value)
    return getattr(value, "__name__", f"{member}{number}")


def _told(error: BaseException) -> str:
    text = "".join(traceback.format_exception(error, limit=-3, chain=False)).rstrip()
    return text if len(text) <= _TRACEBACK_CHARACTERS_MAX else f"{text[:_TRACEBACK_CHARACTERS_MAX]} …"
