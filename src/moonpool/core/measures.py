"""What the audit journal says about Moonpool itself: tokens, changed tools, and the time that a sandbox costs. Pure.

`measure` reads records as JSON objects, oldest first, and never trusts their shape: a journal may hold rows of an older
or newer version. `moonpool stats` and the route `/metrics` show the same figures.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from moonpool.core.json import JsonObject, JsonValue

SPANS: Final = ("runner_start", "execution", "broker_call", "tool_call")
_ON_DEMAND: Final = ("search", "definition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long something took, over all records that say so."""

    count: int = 0
    sum_ms: float = 0.0
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    max_ms: float = 0.0

    @classmethod
    def of(cls, values: Sequence[float]) -> Times:
        ordered = sorted(values)
        if not ordered:
            return cls()
        return cls(
            count=len(ordered),
            sum_ms=round(math.fsum(ordered), 3),
            p50_ms=_rank(ordered, 0.5),
            p95_ms=_rank(ordered, 0.95),
            max_ms=ordered[-1],
        )

    def to_json(self) -> JsonObject:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTokens:
    """What models were shown of the tools over all connections on record."""

    connections: int = 0
    executions: int = 0
    upfront: int = 0  # all definitions, once per connection
    by_kind: tuple[tuple[str, int], ...] = ()

    @property
    def shown(self) -> int:
        return sum(tokens for _, tokens in self.by_kind)

    @property
    def on_demand(self) -> int:
        """Of it, answers of searches and definitions."""
        return sum(tokens for kind, tokens in self.by_kind if kind in _ON_DEMAND)

    def to_json(self) -> JsonObject:
        saved = self.upfront - self.shown
        return {
            "connections": self.connections,
            "executions": self.executions,
            "upfront": self.upfront,
            "shown": self.shown,
            "by_kind": dict(self.by_kind),
            "saved": saved,
            "reduction": round(saved / self.upfront, 4) if self.upfront else None,
            "on_demand_per_task": round(self.on_demand / self.executions, 1) if self.executions else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Everything that `moonpool stats` reports from the journal."""

    records: int = 0
    tokens: ShownTokens = field(default_factory=ShownTokens)
    updates: Times = field(default_factory=Times)  # from notice to wrappers
    unseen: Times = field(default_factory=Times)  # the most that changes stood unseen
    spans: tuple[tuple[str, Times], ...] = ()
    overhead: Times = field(default_factory=Times)  # per execution, what Moonpool itself took

    def to_json(self) -> JsonObject:
        return {
            "records": self.records,
            "tokens": self.tokens.to_json(),
            "drift_detection": {"to_new_wrappers": self.updates.to_json(), "unseen_at_most": self.unseen.to_json()},
            "sandbox_overhead": {
                "per_execution": self.overhead.to_json(),
                "spans": {name: times.to_json() for name, times in self.spans},
            },
        }


class _Tally:
    def __init__(self) -> None:
        self.records = 0
        self.spans: dict[str, list[float]] = {name: [] for name in SPANS}
        self.overhead: list[float] = []
        self.updates: list[float] = []
        self.unseen: list[float] = []
        self.connections = self.executions = self.upfront = 0
        self.shown: Counter[str] = Counter()
        self._broker: defaultdict[str, float] = defaultdict(float)  # of executions that have not ended

    def take(self, record: JsonObject) -> None:
        self.records += 1
        match record.get("kind"):
            case "call_outcome":
                self._call(record)
            case "execution_end":
                self._end(record)
            case "tools_updated":
                self.updates.append(_number(record.get("update_ms")))
                if (unseen := _number(record.get("unseen_ms"), -1.0)) >= 0:
                    self.unseen.append(unseen)
            case "disclosure":
                self._disclosure(record)
            case _:
                pass

    def _call(self, record: JsonObject) -> None:
        if "upstream_ms" not in record or record.get("rehearsed") is True:
            return
        at_server = _number(record.get("upstream_ms"))
        ours = max(0.0, _number(record.get("duration_ms")) - _number(record.get("asked_ms")) - at_server)
        self.spans["broker_call"].append(round(ours, 3))
        if at_server:
            self.spans["tool_call"].append(at_server)
        self._broker[str(record.get("run_id"))] += ours

    def _end(self, record: JsonObject) -> None:
        broker = self._broker.pop(str(record.get("run_id")), 0.0)
        start, code = _number(record.get("start_ms")), _number(record.get("code_ms"))
        if not start or not code:  # its code never ran, or a row of before
            return
        self.spans["runner_start"].append(start)
        self.spans["execution"].append(code)
        around = max(start, _number(record.get("duration_ms")) - code)
        self.overhead.append(round(around + broker, 3))

    def _disclosure(self, record: JsonObject) -> None:
        shown = record.get("shown")
        if not isinstance(shown, dict):
            return
        self.connections += 1
        self.executions += int(_number(record.get("executions")))
        self.upfront += int(_number(record.get("upfront")))
        for kind, tokens in shown.items():
            self.shown[kind] += int(_number(tokens))


def measure(records: Iterable[JsonObject]) -> Measures:
    """Sum up `records`, which come in the journal's order."""
    tally = _Tally()
    for record in records:
        tally.take(record)
    return Measures(
        records=tally.records,
        tokens=ShownTokens(
            connections=tally.connections,
            executions=tally.executions,
            upfront=tally.upfront,
            by_kind=tuple(sorted(tally.shown.items())),
        ),
        updates=Times.of(tally.updates),
        unseen=Times.of(tally.unseen),
        spans=tuple((name, Times.of(tally.spans[name])) for name in SPANS),
        overhead=Times.of(tally.overhead),
    )


def _rank(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: a value that was really measured."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _number(value: JsonValue, default: float = 0.0) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else default  # pyright: ignore[reportArgumentType]
