from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bench.report import build_document
from bench.rows import ROWS
from bench.sampling import Measured
from bench.table import BEGIN, END, markdown_table, text_table, write_readme

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = {
    "cores": 2,
    "cpu": "Z80",
    "linux": "6.18",
    "python": "3.11.7",
    "uid": 0,
    "date": "2026-11-21 12:00 UTC",
    "commit": "abc",
}


def document(**samples: list[float]) -> dict[str, Any]:
    rounds = {name.replace("__", "."): [values] for name, values in samples.items()}
    group = Measured(
        group="g", rounds=rounds, load_before=0.5, load_after=1.5, seconds=1, skipped={"command.run": "no"}
    )
    return build_document([group], MACHINE, {"mcp": "2"}, "python -m bench")


def lines(**samples: list[float]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in document(**samples)["rows"]}


def test_every_line_has_one_value_one_peer_and_one_budget() -> None:
    found = lines(fresh__pooled__base=[3.0, 3.0], bwrap__python=[15.0], ipybox__execute=[150.0])

    kept = {
        name: (row.get("value_ms", row.get("value")), row["peer_value"], row["ratio"], row["budget"], row["met"])
        for name, row in found.items()
        if name.startswith("fresh")
    }
    assert kept == {
        "fresh.pooled.base": (3.0, 15.0, 5.0, "≤ 1 ms", False),
        "fresh.pooled.base.p95": (3.0, None, None, "≤ 4 ms", True),
        "fresh.pooled.base.vs.bwrap.python": (5.0, 15.0, 5.0, "≥ 12×", False),
        "fresh.pooled.base.vs.ipybox.execute": (50.0, 150.0, 50.0, "≥ 40×", True),
    }


def test_a_time_is_called_value_ms_and_everything_else_value() -> None:
    found = lines(search=[1.0], rate__base__2=[170.0])

    assert found["search"]["value_ms"] == 1.0
    assert "value" not in found["search"]
    assert found["rate.base.2"]["value"] == 170.0


def test_a_missed_budget_is_shown_with_its_figure() -> None:
    found = document(fresh__pooled__base=[3.0])

    assert "| ≤ 1 ms | **missed** |" in markdown_table(found)
    assert "missed" in text_table(found)
    assert "1 missed" in text_table(found)


def test_a_ratio_needs_the_peer_in_the_same_run() -> None:
    row = lines(fresh__pooled__base=[3.0])["fresh.pooled.base.vs.bwrap.python"]

    assert (row["value"], row["ratio"], row["met"]) == (None, None, None)


def test_where_more_is_better_the_slow_end_is_the_low_one() -> None:
    row = lines(rate__base__2=[100.0, 200.0, 300.0], rate__bwrap__2=[50.0])["rate.base.2"]

    assert (row["value"], row["p95"], row["ratio"]) == (200.0, 100.0, 4.0)


def test_what_was_not_measured_is_a_line_that_says_why() -> None:
    found = document(search=[1.0])

    row = next(row for row in found["rows"] if row["name"] == "command.run")
    assert (row["value_ms"], row["note"], row["budget"], row["met"]) == (None, "no", "≤ 600 ms", None)
    assert "not measured: command.run: no" in text_table(found)


def test_the_document_says_where_when_and_with_what_it_was_measured() -> None:
    found = document(search=[1.0])

    assert {"rows", "machine", "date", "commit", "versions"} <= found.keys()


def test_every_peer_is_a_row_and_every_budget_has_its_sentence() -> None:
    peers = {peer for spec in ROWS.values() for peer in spec.peers}
    budgets = [(budget, spec) for spec in ROWS.values() for budget in spec.budgets]

    assert peers <= ROWS.keys()
    assert all(ROWS[name].short for name in peers)
    assert all(budget.source for budget, _ in budgets)
    assert all((budget.statistic == "ratio") == (budget.peer is not None) for budget, _ in budgets)
    assert all(budget.peer in spec.peers for budget, spec in budgets if budget.peer)


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
