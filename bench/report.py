"""From samples to a table, a JSON document and the table in README.md."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bench.budgets import ROWS
from bench.sampling import median, percentile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.sampling import Measured

SCHEMA = 1
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
_HEAD = ("what", "p50", "p95", "p99", "min", "n", "unit", "ratio", "budget", "met")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row as it is printed and stored. `ratio` above 1: so many times better than the row it is compared with."""

    name: str
    title: str
    unit: str
    n: int
    p50: float
    p95: float
    p99: float
    min: float
    max: float
    compared_to: str | None
    ratio: float | None
    budgets: tuple[dict[str, Any], ...]


def build_rows(groups: Sequence[Measured]) -> list[Row]:
    """Rows in the order of `ROWS`, with ratios to the rows of the same run."""
    samples = {name: group.samples(name) for group in groups for name in group.rounds}
    assert samples.keys() <= ROWS.keys(), samples.keys() - ROWS.keys()
    return [_row(name, samples) for name in ROWS if name in samples]


def _row(name: str, samples: dict[str, list[float]]) -> Row:
    spec, own = ROWS[name], samples[name]
    ratio = None
    if spec.compared_to in samples and (middle := median(own)) > 0:
        other = median(samples[spec.compared_to])
        ratio = middle / other if spec.higher_is_better else other / middle

    def slow(share: float) -> float:
        """Where more is better, the slow end of the samples is the low one."""
        return percentile(own, 1 - share if spec.higher_is_better else share)

    figures = {"p50": median(own), "p95": slow(0.95), "p99": slow(0.99), "ratio": ratio}
    budgets = [
        {
            "statistic": budget.statistic,
            "text": str(budget),
            "measured": value,
            "met": None if value is None else budget.is_met(value),
            "source": budget.source,
        }
        for budget in spec.budgets
        for value in [figures[budget.statistic]]
    ]
    return Row(
        name=name,
        title=spec.title,
        unit=spec.unit,
        n=len(own),
        p50=median(own),
        p95=slow(0.95),
        p99=slow(0.99),
        min=min(own),
        max=max(own),
        compared_to=spec.compared_to if ratio is not None else None,
        ratio=ratio,
        budgets=tuple(budgets),
    )


def build_document(groups: Sequence[Measured], machine: dict[str, Any], command: str) -> dict[str, Any]:
    """Everything a later comparison needs, samples included."""
    return {
        "schema": SCHEMA,
        "machine": machine,
        "command": command,
        "groups": [
            {
                "name": group.group,
                "load_before": group.load_before,
                "load_after": group.load_after,
                "seconds": round(group.seconds, 1),
            }
            for group in groups
        ],
        "rows": [asdict(row) for row in build_rows(groups)],
        "samples": {
            name: [[round(sample, 5) for sample in one] for one in rounds]
            for group in groups
            for name, rounds in group.rounds.items()
        },
        "skipped": {name: why for group in groups for name, why in group.skipped.items()},
    }


def machine_line(document: dict[str, Any]) -> str:
    """What the figures were measured on, in one line."""
    machine, groups = document["machine"], document["groups"]
    loads = [load for group in groups for load in (group["load_before"], group["load_after"])]
    load = f"load {loads[0]:.2f} before, {loads[-1]:.2f} after, {max(loads):.2f} at most"
    return (
        f"{machine['date']} · {machine['cores']} cores, {machine['cpu']} · Linux {machine['linux']} · "
        f"Python {machine['python']} · uid {machine['uid']} · {load} · `{document['command']}`"
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    ratio = "" if row["ratio"] is None else f"{_figure(row['ratio'])}× {ROWS[row['compared_to']].short}"
    marks = {True: "yes", False: "**missed**", None: "not measured"}
    return (
        row["title"],
        *(_figure(row[name]) for name in ("p50", "p95", "p99", "min")),
        str(row["n"]),
        row["unit"],
        ratio,
        "; ".join(budget["text"] for budget in row["budgets"]),
        "; ".join(marks[budget["met"]] for budget in row["budgets"]),
    )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def text_table(document: dict[str, Any]) -> str:
    """Columns for a terminal."""
    lines = [_HEAD, *(_cells(row) for row in document["rows"])]
    plain = [[cell.replace("`", "").replace("*", "") for cell in line] for line in lines]
    widths = [max(len(line[column]) for line in plain) for column in range(len(_HEAD))]
    aligned = [
        "  ".join(
            cell.rjust(width) if 1 <= column <= 5 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in plain
    ]
    return "\n".join([*aligned, *_skipped(document), "", machine_line(document).replace("`", "")])


def markdown_table(document: dict[str, Any]) -> str:
    """The same for README.md."""
    lines = [_HEAD, ("---",) * len(_HEAD), *(_cells(row) for row in document["rows"])]
    table = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]
    return "\n".join([machine_line(document), "", *table, *_skipped(document)])


def _skipped(document: dict[str, Any]) -> list[str]:
    return (
        [""] + [f"not measured: {name}: {why}" for name, why in document["skipped"].items()]
        if document["skipped"]
        else []
    )


def write_readme(path: Path, document: dict[str, Any]) -> None:
    """Replace what stands between the two marks."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path} lacks the marks {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n{markdown_table(document)}\n{END}{after}", encoding="utf-8")


def write_json(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
