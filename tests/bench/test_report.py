from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bench.budgets import ROWS
from bench.report import BEGIN, END, build_document, markdown_table, text_table, write_readme
from bench.sampling import Measured

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = {"cores": 2, "cpu": "Z80", "linux": "6.18", "python": "3.11.7", "uid": 0, "date": "2026-11-21 12:00 UTC"}


def document(**samples: list[float]) -> dict[str, Any]:
    rounds = {name.replace("__", "."): [values] for name, values in samples.items()}
    group = Measured(
        group="g", rounds=rounds, load_before=0.5, load_after=1.5, seconds=1, skipped={"command.run": "no"}
    )
    return build_document([group], MACHINE, "python -m bench")


def test_a_missed_budget_is_shown_with_its_figure() -> None:
    found = document(fresh__pooled__base=[3.0, 3.0], bwrap__python=[15.0])

    row = found["rows"][0]
    assert (row["p50"], row["ratio"]) == (3.0, 5.0)
    assert [(one["statistic"], one["met"]) for one in row["budgets"]] == [
        ("p50", False),
        ("p95", True),
        ("ratio", False),
    ]
    assert "| **missed**; yes; **missed** |" in markdown_table(found)
    assert "missed; yes; missed" in text_table(found)


def test_a_ratio_needs_the_compared_row_in_the_same_run() -> None:
    row = document(fresh__pooled__base=[3.0])["rows"][0]

    assert row["ratio"] is None
    assert row["budgets"][2]["met"] is None


def test_where_more_is_better_the_slow_end_is_the_low_one() -> None:
    row = document(rate__base=[100.0, 200.0, 300.0], rate__bwrap=[50.0])["rows"][0]

    assert (row["p50"], row["p95"], row["ratio"]) == (200.0, 100.0, 4.0)


def test_what_was_not_measured_is_named() -> None:
    assert "not measured: command.run: no" in text_table(document(search=[1.0]))


def test_every_comparison_is_a_row_and_every_budget_has_its_sentence() -> None:
    compared = {spec.compared_to for spec in ROWS.values()} - {None}

    assert compared <= ROWS.keys()
    assert all(ROWS[name].short for name in compared if name is not None)
    assert all(budget.source for spec in ROWS.values() for budget in spec.budgets)


def test_the_table_in_the_readme_is_replaced_between_its_marks(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")

    write_readme(readme, document(search=[1.0]))

    text = readme.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\n2026-11-21")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text


def test_a_readme_without_marks_is_left_alone(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("nothing here", encoding="utf-8")

    with pytest.raises(SystemExit, match="lacks the marks"):
        write_readme(readme, document(search=[1.0]))
    assert readme.read_text(encoding="utf-8") == "nothing here"
