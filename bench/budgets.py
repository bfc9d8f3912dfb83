"""What a budget is. The budgets themselves, each with its sentence from the design: `bench.rows`.

A budget is a statement about a quiet machine with two cores. It is reported as met or missed, never asserted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Statistic = Literal["p50", "p95", "ratio"]
Unit = Literal["ms", "per s", "MB", "×", "per 10,000"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """`statistic` of a row must be at most, or at least, `limit`; a ratio is one against the row `peer`."""

    statistic: Statistic
    at_most: float | None = None
    at_least: float | None = None
    peer: str | None = None
    source: str

    @property
    def limit(self) -> float:
        limit = self.at_least if self.at_most is None else self.at_most
        assert limit is not None
        return limit

    def is_met(self, value: float) -> bool:
        return value >= self.limit if self.at_most is None else value <= self.limit

    def text(self, unit: Unit) -> str:
        """As it is printed: with the unit it is in."""
        sign = "≥" if self.at_most is None else "≤"
        return f"{sign} {self.limit:g}{'×' if self.statistic == 'ratio' else f' {unit}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSpec:
    """One row. `peers` are rows of the same run; a ratio is how many times better ours is than such a row."""

    title: str
    unit: Unit = "ms"
    short: str = ""  # how a comparison names it
    peers: tuple[str, ...] = ()
    budgets: tuple[Budget, ...] = ()

    @property
    def higher_is_better(self) -> bool:
        return self.unit == "per s"
