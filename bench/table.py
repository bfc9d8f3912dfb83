"""A document as a table: columns for a terminal, Markdown for README.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
_HEAD = ("what", "p50", "p95", "p99", "min", "n", "unit", "peer", "peer's p50", "ratio", "budget", "met")
_FIGURES = range(1, 6)
_MARKS = {True: "yes", False: "**missed**", None: "not measured"}


def text_table(document: dict[str, Any]) -> str:
    """Columns for a terminal."""
    lines = [_HEAD, *(_cells(row) for row in document["rows"])]
    plain = [[cell.replace("`", "").replace("*", "") for cell in line] for line in lines]
    widths = [max(len(line[column]) for line in plain) for column in range(len(_HEAD))]
    aligned = [
        "  ".join(
            cell.rjust(width) if column in _FIGURES else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in plain
    ]
    return "\n".join([*aligned, *_notes(document), "", _verdict(document), machine_line(document).replace("`", "")])


def markdown_table(document: dict[str, Any]) -> str:
    """The same for README.md."""
    lines = [_HEAD, ("---",) * len(_HEAD), *(_cells(row) for row in document["rows"])]
    table = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]
    return "\n".join([machine_line(document), "", *table, *_notes(document), "", _verdict(document)])


def machine_line(document: dict[str, Any]) -> str:
    """What the figures were measured on, in one line."""
    machine, groups = document["machine"], document["groups"]
    loads = [load for group in groups for load in (group["load_before"], group["load_after"])]
    load = f"load {loads[0]:.2f} before, {loads[-1]:.2f} after, {max(loads):.2f} at most" if loads else "nothing ran"
    return (
        f"{machine['date']} · commit {document['commit']} · {machine['cores']} cores, {machine['cpu']} · "
        f"Linux {machine['linux']} · Python {machine['python']} · uid {machine['uid']} · {load} · "
        f"`{document['command']}`"
    )


def write_readme(path: Path, document: dict[str, Any]) -> None:
    """Replace what stands between the two marks."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path} lacks the marks {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n{markdown_table(document)}\n{END}{after}", encoding="utf-8")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    is_ratio = row["statistic"] == "ratio"
    value = row.get("value_ms", row.get("value"))
    middle = value if row["statistic"] == "p50" else None
    slow = value if row["statistic"] == "p95" else row["p95"]
    return (
        row["title"],
        *(_figure(each) for each in (middle, slow, row["p99"], row["min"])),
        str(row["n"] or ""),
        "" if is_ratio or value is None else row["unit"],
        row["peer"] or "",
        _figure(row["peer_value"]),
        f"{_figure(row['ratio'])}×" if row["ratio"] is not None else "",
        row["budget"] or "",
        _MARKS[row["met"]] if row["budget"] else "",
    )


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _notes(document: dict[str, Any]) -> list[str]:
    notes = [
        f"{'not measured: ' if row.get('value_ms', row.get('value')) is None else ''}{row['name']}: {row['note']}"
        for row in document["rows"]
        if row["note"]
    ]
    return ["", *(f"- {note}" for note in notes)] if notes else []


def _verdict(document: dict[str, Any]) -> str:
    judged = [row for row in document["rows"] if row["budget"]]
    met, missed = (sum(1 for row in judged if row["met"] is value) for value in (True, False))
    return f"{met} of {len(judged)} budgets met, {missed} missed, {len(judged) - met - missed} not measured."
