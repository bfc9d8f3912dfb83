"""From samples to lines: one line per judgement, so that each has one value, one peer and one budget.

A row's first line holds its median against its first peer. Further budgets (p95, ratios) and further peers follow as
lines of their own. What could not be measured is a line too, with the reason as its note.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bench.rows import ROWS
from bench.sampling import median, percentile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.budgets import Budget, RowSpec
    from bench.sampling import Measured

SCHEMA = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line as it is printed and stored. `ratio` above 1: so many times better than the peer."""

    name: str
    title: str
    unit: str
    statistic: str = "p50"
    value: float | None
    p95: float | None = None
    p99: float | None = None
    min: float | None = None
    n: int = 0
    peer: str | None = None
    peer_value: float | None = None
    ratio: float | None = None
    budget: str | None = None
    limit: float | None = None
    met: bool | None = None
    source: str | None = None
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """With `value_ms` where the value is a time, `value` where it is anything else."""
        members = asdict(self)
        value = members.pop("value")
        head = {key: members.pop(key) for key in ("name", "title", "unit", "statistic")}
        return {**head, "value_ms" if self.unit == "ms" and self.statistic != "ratio" else "value": value, **members}


def build_lines(groups: Sequence[Measured]) -> list[Line]:
    """Lines in the order of `ROWS`."""
    samples = {name: group.samples(name) for group in groups for name in group.rounds}
    skipped = {name: why for group in groups for name, why in group.skipped.items()}
    notes = {name: text for group in groups for name, text in group.notes.items()}
    assert samples.keys() <= ROWS.keys(), samples.keys() - ROWS.keys()
    lines: list[Line] = []
    for name, spec in ROWS.items():
        if name in samples:
            lines += _Row(name, spec, samples, notes.get(name)).lines()
        elif name in skipped:
            lines += _skipped_lines(name, spec, skipped[name])
    lines += [
        Line(name=name, title=name, unit="", value=None, note=why) for name, why in skipped.items() if name not in ROWS
    ]
    return lines


def _skipped_lines(name: str, spec: RowSpec, why: str) -> list[Line]:
    """A row without a figure: its reason once, and each of its budgets as not measured."""
    first, *others = [*spec.budgets, None] if spec.budgets else [None]
    lines = [Line(name=name, title=spec.title, unit=spec.unit, value=None, note=why, **_judged(spec, first, None))]
    for budget in others:
        if budget is not None:
            line_name = f"{name}.vs.{budget.peer}" if budget.peer else f"{name}.{budget.statistic}"
            judged = _judged(spec, budget, None)
            lines.append(Line(name=line_name, title=spec.title, unit=spec.unit, value=None, **judged))
    return lines


def _judged(spec: RowSpec, budget: Budget | None, value: float | None) -> dict[str, Any]:
    if budget is None:
        return {}
    return {
        "budget": budget.text(spec.unit),
        "limit": budget.limit,
        "met": None if value is None else budget.is_met(value),
        "source": budget.source,
    }


class _Row:
    """One row on its way to lines."""

    def __init__(self, name: str, spec: RowSpec, samples: Mapping[str, list[float]], note: str | None) -> None:
        self._name, self._spec, self._samples, self._note = name, spec, samples, note
        self._own = samples[name]

    def lines(self) -> list[Line]:
        spec = self._spec
        by_statistic = {budget.statistic: budget for budget in spec.budgets if budget.statistic != "ratio"}
        ratios = {budget.peer: budget for budget in spec.budgets if budget.statistic == "ratio"}
        first, *others = [*spec.peers, None] if spec.peers else [None]
        lines = [self._first_line(first, by_statistic.get("p50"))]
        if (slow := by_statistic.get("p95")) is not None:
            lines.append(self._slow_line(slow))
        further = [peer for peer in spec.peers if peer in ratios or peer in others]
        return [*lines, *(self._ratio_line(peer, ratios.get(peer)) for peer in further)]

    def _slow(self, share: float) -> float:
        """Where more is better, the slow end of the samples is the low one."""
        return percentile(self._own, 1 - share if self._spec.higher_is_better else share)

    def _against(self, peer: str | None) -> dict[str, Any]:
        if peer is None:
            return {}
        found = self._samples.get(peer)
        if found is None:
            return {"peer": ROWS[peer].short}
        own, other = median(self._own), median(found)
        better, worse = (own, other) if self._spec.higher_is_better else (other, own)
        return {"peer": ROWS[peer].short, "peer_value": other, "ratio": better / worse if worse > 0 else None}

    def _first_line(self, peer: str | None, budget: Budget | None) -> Line:
        middle = median(self._own)
        return Line(
            name=self._name,
            title=self._spec.title,
            unit=self._spec.unit,
            value=middle,
            p95=self._slow(0.95),
            p99=self._slow(0.99),
            min=min(self._own),
            n=len(self._own),
            note=self._note,
            **self._against(peer),
            **_judged(self._spec, budget, middle),
        )

    def _slow_line(self, budget: Budget) -> Line:
        value = self._slow(0.95)
        return Line(
            name=f"{self._name}.p95",
            title=f"{self._spec.title}: p95",
            unit=self._spec.unit,
            statistic="p95",
            value=value,
            n=len(self._own),
            **_judged(self._spec, budget, value),
        )

    def _ratio_line(self, peer: str, budget: Budget | None) -> Line:
        against = self._against(peer)
        ratio = against.get("ratio")
        return Line(
            name=f"{self._name}.vs.{peer}",
            title=f"{self._spec.title}: against {ROWS[peer].short}",
            unit="×",
            statistic="ratio",
            value=ratio,
            **against,
            **_judged(self._spec, budget, ratio),
        )


def build_document(
    groups: Sequence[Measured], machine: dict[str, Any], versions: dict[str, str], command: str
) -> dict[str, Any]:
    """Everything a later comparison needs, samples included."""
    return {
        "schema": SCHEMA,
        "machine": machine,
        "date": machine["date"],
        "commit": machine["commit"],
        "versions": versions,
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
        "rows": [line.to_json() for line in build_lines(groups)],
        "samples": {
            name: [[round(sample, 5) for sample in one] for one in rounds]
            for group in groups
            for name, rounds in group.rounds.items()
        },
    }


def write_json(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
