"""Budgets: how much the calls of an execution, a session or a key may use, and the verdict of an exhausted budget.

Pure: usage is a fact of the call (`Usage`), counted by `moonpool.pipeline.budgets`, which reserves before a call is
sent. Usage includes reservations, so parallel calls cannot overspend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from moonpool.policy.conditions import check_pattern_size
from moonpool.policy.globs import glob_matches
from moonpool.policy.usage import Scope, Usage
from moonpool.policy.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ToolDefinition
    from moonpool.policy.rules import CallFacts

WARNED_FROM: Final = 0.8
LIMIT_MAX: Final = 10**15
PER_MINUTE_MAX: Final = 100_000
COSTS_PER_LAYER_MAX: Final = 1000
_COST_DIGITS: Final = 3


class Measure(StrEnum):
    """What is counted. The measure that recovers by itself is last: if two budgets are exhausted, the other is
    reported.
    """

    CALLS = "calls"
    TOOLS = "tools"  # different ones
    ARGUMENT_BYTES = "argument_bytes"
    RESULT_BYTES = "result_bytes"
    COST = "cost"
    WALL_S = "wall_s"
    CALLS_PER_MINUTE = "calls_per_minute"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS: Final = {
    Measure.CALLS: "tool calls",
    Measure.TOOLS: "different tools",
    Measure.ARGUMENT_BYTES: "bytes of arguments",
    Measure.RESULT_BYTES: "bytes of results",
    Measure.COST: "units of cost",
    Measure.WALL_S: "seconds of running time",
    Measure.CALLS_PER_MINUTE: "tool calls a minute",
}
_FRACTIONS: Final = frozenset({Measure.COST, Measure.WALL_S})
_KNOWN_LATER: Final = frozenset({Measure.RESULT_BYTES, Measure.WALL_S})
"""A call's usage of these is known only at its end: the budget is exhausted when nothing is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of one scope, and what happens at 100 %."""

    scope: Scope
    limits: Mapping[Measure, float]
    then: Verdict = Verdict.DENY
    layer: str = ""  # the layer it belongs to

    def __post_init__(self) -> None:
        if self.then not in {Verdict.ASK, Verdict.DENY}:
            raise ValueError(f"a used-up budget asks or denies, it does not {self.then}")
        for measure, limit in self.limits.items():
            if not 0 <= limit <= LIMIT_MAX:
                raise ValueError(f"{measure} must be from 0 to {LIMIT_MAX}, got {limit:g}")
            if measure not in _FRACTIONS and limit != int(limit):
                raise ValueError(f"{measure} must be a whole number, got {limit:g}")
            if measure is Measure.CALLS_PER_MINUTE and limit > PER_MINUTE_MAX:
                raise ValueError(f"{measure} must be at most {PER_MINUTE_MAX}, got {limit:g}")

    def to_json(self) -> JsonObject:
        limits: JsonObject = {str(measure): limit for measure, limit in sorted(self.limits.items())}
        return {"scope": str(self.scope), "then": str(self.then), "limits": limits}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one call of the tools that match two globs."""

    units: float
    server: str = "*"
    tool: str = "*"

    def __post_init__(self) -> None:
        if not 0 <= self.units <= LIMIT_MAX or round(self.units, _COST_DIGITS) != self.units:
            raise ValueError(f"units must be from 0 to {LIMIT_MAX} with at most {_COST_DIGITS} decimals")
        for glob in (self.server, self.tool):
            check_pattern_size(glob)

    def covers(self, tool: ToolDefinition) -> bool:
        return glob_matches(self.server, tool.server_id) and glob_matches(self.tool, tool.name)

    def to_json(self) -> JsonObject:
        return {"server": self.server, "tool": self.tool, "units": self.units}


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    """One limit and one call."""

    budget: Budget
    measure: Measure
    limit: float
    used: float
    adds: float
    room_in_s: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.budget.scope}.{self.measure}"

    @property
    def used_up(self) -> bool:
        """Whether there is no room for this call."""
        if self.measure in _KNOWN_LATER:
            return self.used >= self.limit
        return total(self.used, self.adds) > self.limit

    @property
    def low(self) -> bool:
        """Whether at least 80 % are used with this call."""
        return self.limit > 0 and total(self.used, self.adds) >= WARNED_FROM * self.limit

    def to_json(self) -> JsonObject:
        state = "used up" if self.used_up else "low" if self.low else "enough"
        return {
            "budget": self.name,
            "layer": self.budget.layer,
            "limit": self.limit,
            "used": round(self.used, 3),
            "adds": self.adds,
            "state": state,
            "then": str(self.budget.then),
        }

    def shown(self, text: str) -> str:
        """`text`, followed by usage and limit."""
        return self._told(text, self.used)

    def after(self, text: str) -> str:
        """The same with this call included."""
        return self._told(text, total(self.used, self.adds))

    def _told(self, text: str, used: float) -> str:
        used = round(used, _COST_DIGITS)  # seconds have more digits than are useful
        return f"{text}: {used:.15g} of {self.limit:.15g} {self.measure.words} per {self.budget.scope} are used"


def total(one: float, other: float) -> float:
    """The sum, without rounding errors of floats: three times 0.1 is 0.3."""
    return round(one + other, _COST_DIGITS)


def cost_of(tool: ToolDefinition, costs: Iterable[Cost]) -> float:
    """Units of the first entry that covers the tool; 0 if none does."""
    return next((cost.units for cost in costs if cost.covers(tool)), 0)


def budget_reports(budgets: Iterable[Budget], facts: CallFacts, cost: float) -> Iterator[BudgetReport]:
    """A report for every limit of a scope whose usage is known."""
    for budget in budgets:
        if (usage := facts.usage.get(budget.scope)) is None:
            continue
        adds: dict[Measure, float] = {
            Measure.CALLS: 1,
            Measure.TOOLS: int(usage.new_tool),
            Measure.ARGUMENT_BYTES: facts.argument_bytes,
            Measure.COST: cost,
            Measure.CALLS_PER_MINUTE: 1,
        }
        for measure in Measure:
            if measure not in budget.limits:
                continue
            yield BudgetReport(
                budget=budget,
                measure=measure,
                limit=budget.limits[measure],
                used=getattr(usage, measure.value),
                adds=adds.get(measure, 0),
                room_in_s=math.ceil(usage.room_in_s) if measure is Measure.CALLS_PER_MINUTE else 0,
            )


def usage_from(amounts: Mapping[Scope, Mapping[Measure, float]]) -> Mapping[Scope, Usage]:
    """Usage as somebody imagines it."""
    return {scope: Usage(**{str(name): amount for name, amount in used.items()}) for scope, used in amounts.items()}  # pyright: ignore[reportArgumentType]
