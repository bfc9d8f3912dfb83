"""What the audit journal says about Moonpool itself: tokens, changed tools, and the time that a sandbox costs. Pure.

`measure` reads records as JSON objects, oldest first, and never trusts their shape: a journal may hold rows of an older
or newer version. `moonpool stats` and the route `/metrics` show the same figures.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.features.usage.model import KINDS, OTHER, TokenFigures, ToolTokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from moonpool.core.json import JsonObject, JsonValue

SPANS: Final = ("runner_start", "execution", "broker_call", "tool_call")
WINDOW: Final = 100_000
"""How many of the newest times percentiles are taken over."""
_OPEN_RUNS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long something took, over all records that say so."""

    count: int = 0
    sum_ms: float = 0.0
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    max_ms: float = 0.0

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
    def figures(self) -> TokenFigures:
        """The same figures as in an envelope, over all of them."""
        tools = ToolTokens(upfront=self.upfront)
        return TokenFigures(tools=tools, by_kind=dict(self.by_kind), executions=self.executions)

    def to_json(self) -> JsonObject:
        figures = self.figures.to_json()
        del figures["tools"]  # of other lists in each connection
        return {"connections": self.connections, "executions": self.executions, **figures}


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


class _Series:
    """Times as they come: counted and added up for good, percentiles of the newest."""

    def __init__(self) -> None:
        self._count, self._sum, self._max = 0, 0.0, 0.0
        self._newest: deque[float] = deque(maxlen=WINDOW)

    def append(self, value: float) -> None:
        self._count, self._sum, self._max = self._count + 1, self._sum + value, max(self._max, value)
        self._newest.append(value)

    def times(self) -> Times:
        ordered = sorted(self._newest)
        if not ordered:
            return Times()
        return Times(
            count=self._count,
            sum_ms=round(self._sum, 3),
            p50_ms=_rank(ordered, 0.5),
            p95_ms=_rank(ordered, 0.95),
            max_ms=self._max,
        )


class Tally:
    """Adds up records one by one, in the journal's order."""

    def __init__(self) -> None:
        self.records = 0
        self.spans = {name: _Series() for name in SPANS}
        self.overhead, self.updates, self.unseen = _Series(), _Series(), _Series()
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

    def measures(self) -> Measures:
        """What came of it so far."""
        tokens = ShownTokens(
            connections=self.connections,
            executions=self.executions,
            upfront=self.upfront,
            by_kind=tuple(sorted(self.shown.items())),
        )
        return Measures(
            records=self.records,
            tokens=tokens,
            updates=self.updates.times(),
            unseen=self.unseen.times(),
            spans=tuple((name, self.spans[name].times()) for name in SPANS),
            overhead=self.overhead.times(),
        )

    def _call(self, record: JsonObject) -> None:
        if "upstream_ms" not in record or record.get("rehearsed") is True:
            return
        at_server = _number(record.get("upstream_ms"))
        ours = max(0.0, _number(record.get("duration_ms")) - _number(record.get("asked_ms")) - at_server)
        self.spans["broker_call"].append(round(ours, 3))
        if at_server:
            self.spans["tool_call"].append(at_server)
        self._broker[str(record.get("run_id"))] += ours
        if len(self._broker) > _OPEN_RUNS_MAX:  # executions whose end was never recorded
            del self._broker[next(iter(self._broker))]

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
            self.shown[kind if kind in KINDS else OTHER] += int(_number(tokens))


def measure(records: Iterable[JsonObject]) -> Measures:
    """Sum up `records`, which come in the journal's order."""
    tally = Tally()
    for record in records:
        tally.take(record)
    return tally.measures()


def _rank(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: a value that was really measured."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _number(value: JsonValue, default: float = 0.0) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else default  # pyright: ignore[reportArgumentType]
