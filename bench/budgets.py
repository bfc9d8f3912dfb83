"""What each row is, what it is compared with, and the budget it has: figures copied from the design, each with its
sentence.

A budget is a statement about a quiet machine with two cores. It is reported as met or missed, never asserted.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Statistic = Literal["p50", "p95", "ratio"]
Unit = Literal["ms", "per s", "MB", "×"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """`statistic` of a row must be at most, or at least, `limit`."""

    statistic: Statistic
    at_most: float | None = None
    at_least: float | None = None
    source: str

    def is_met(self, value: float) -> bool:
        if self.at_most is not None:
            return operator.le(value, self.at_most)
        assert self.at_least is not None
        return operator.ge(value, self.at_least)

    def __str__(self) -> str:
        sign, limit = ("≤", self.at_most) if self.at_most is not None else ("≥", self.at_least)
        return f"{self.statistic} {sign} {limit:g}{'×' if self.statistic == 'ratio' else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSpec:
    """One row of the table. `compared_to` names a row of the same run; the ratio says how many times better ours is."""

    title: str
    unit: Unit = "ms"
    short: str = ""  # how a ratio names it
    compared_to: str | None = None
    budgets: tuple[Budget, ...] = ()

    @property
    def higher_is_better(self) -> bool:
        return self.unit == "per s"


_POOLED = (
    "fresh isolated Python `1+1`, pool full, paced at 20/s, host call to outcome: p50 ≤ 1 ms, p95 ≤ 4 ms; "
    "`bwrap python -I -S` per execution: ≥ 12×"
)
_UNPOOLED = (
    "the same without pool: base p50 ≤ 5.5 ms; data packages preloaded p50 ≤ 12 ms; "
    '`python -c "import numpy,pandas,matplotlib,IPython"`: ≥ 80×'
)
_SESSION = "next execution in a live session: plain p50 ≤ 0.5 ms; IPython p50 ≤ 1.5 ms"
_TOOL = (
    "tool call, added time = median(guest call to guest return) − median(direct `mcp` Client call to the same echo "
    "server): read-only ≤ 0.8 ms, writing ≤ 1.5 ms"
)
_RATE = "fresh sandboxes per second, 2 cores, back to back: ≥ 150 base, ≥ 50 data"
_COLD = "first use by a new tenant (cold zygote): ≤ 150 ms base, ≤ 1.5 s data"
_MEMORY = "idle session: base ≤ 4 MB private; data ≤ 8 MB private"
_COMMAND = "`moonpool run --env base`, two servers configured, none called: ≤ 0.6 s; `moonpool --help`: ≤ 0.25 s"
_WRAPPERS = "wrappers + stubs for the 241 tools of the published lists: ≤ 0.8 s, linear in size"
_SEARCH = "search p95 over ~8,500 tools: < 10 ms"


def _pooled(*, ratio: bool) -> tuple[Budget, ...]:
    budgets = (
        Budget(statistic="p50", at_most=1, source=_POOLED),
        Budget(statistic="p95", at_most=4, source=_POOLED),
    )
    return (*budgets, Budget(statistic="ratio", at_least=12, source=_POOLED)) if ratio else budgets


ROWS: Final[Mapping[str, RowSpec]] = {
    "fresh.pooled.base": RowSpec(
        title="fresh execution, pool full, base", compared_to="bwrap.python", budgets=_pooled(ratio=True)
    ),
    "fresh.pooled.data": RowSpec(
        title="fresh execution, pool full, data", compared_to="python.imports", budgets=_pooled(ratio=False)
    ),
    "fresh.unpooled.base": RowSpec(
        title="fresh execution, no pool, base",
        compared_to="bwrap.python",
        budgets=(Budget(statistic="p50", at_most=5.5, source=_UNPOOLED),),
    ),
    "fresh.unpooled.data": RowSpec(
        title="fresh execution, no pool, data",
        compared_to="python.imports",
        budgets=(
            Budget(statistic="p50", at_most=12, source=_UNPOOLED),
            Budget(statistic="ratio", at_least=80, source=_UNPOOLED),
        ),
    ),
    "session.base": RowSpec(
        title="next execution in a session, base",
        compared_to="bwrap.python",
        budgets=(Budget(statistic="p50", at_most=0.5, source=_SESSION),),
    ),
    "session.data": RowSpec(
        title="next execution in a session, data",
        compared_to="python.imports",
        budgets=(Budget(statistic="p50", at_most=1.5, source=_SESSION),),
    ),
    "bwrap.python": RowSpec(title="*compared:* `bwrap … python -I -S -c` per execution", short="bwrap"),
    "python.plain": RowSpec(title="*compared:* `python -I -S -c`, no isolation", short="plain Python"),
    "python.imports": RowSpec(
        title="*compared:* `python -c 'import numpy,pandas,matplotlib,IPython'`", short="importing"
    ),
    "tool.added.read_only": RowSpec(
        title="tool call, added by Moonpool, read-only",
        budgets=(Budget(statistic="p50", at_most=0.8, source=_TOOL),),
    ),
    "tool.added.writing": RowSpec(
        title="tool call, added by Moonpool, writing",
        budgets=(Budget(statistic="p50", at_most=1.5, source=_TOOL),),
    ),
    "tool.guest.read_only": RowSpec(title="tool call as guest code sees it, read-only", compared_to="tool.direct"),
    "tool.guest.writing": RowSpec(title="tool call as guest code sees it, writing", compared_to="tool.direct"),
    "tool.direct": RowSpec(title="*compared:* direct `mcp` Client call, same server", short="direct"),
    "rate.base": RowSpec(
        title="fresh executions per second, 2 in flight, base",
        unit="per s",
        compared_to="rate.bwrap",
        budgets=(Budget(statistic="p50", at_least=150, source=_RATE),),
    ),
    "rate.data": RowSpec(
        title="fresh executions per second, 2 in flight, data",
        unit="per s",
        compared_to="rate.bwrap",
        budgets=(Budget(statistic="p50", at_least=50, source=_RATE),),
    ),
    "rate.bwrap": RowSpec(title="*compared:* `bwrap … python -I -S -c`, 2 in flight", unit="per s", short="bwrap"),
    "cold.base": RowSpec(
        title="first execution of a new tenant, base",
        budgets=(Budget(statistic="p50", at_most=150, source=_COLD),),
    ),
    "cold.data": RowSpec(
        title="first execution of a new tenant, data",
        budgets=(Budget(statistic="p50", at_most=1500, source=_COLD),),
    ),
    "memory.base": RowSpec(
        title="private memory of an idle session, base",
        unit="MB",
        budgets=(Budget(statistic="p50", at_most=4, source=_MEMORY),),
    ),
    "memory.data": RowSpec(
        title="private memory of an idle session, data",
        unit="MB",
        budgets=(Budget(statistic="p50", at_most=8, source=_MEMORY),),
    ),
    "command.help": RowSpec(
        title="`moonpool --help`, whole process",
        budgets=(Budget(statistic="p50", at_most=250, source=_COMMAND),),
    ),
    "command.run": RowSpec(
        title="`moonpool run --env base`, two servers, none called",
        budgets=(Budget(statistic="p50", at_most=600, source=_COMMAND),),
    ),
    "command.python": RowSpec(title="*compared:* `python -c pass` of the same installation"),
    "wrappers.x1": RowSpec(
        title="wrappers and stubs of 241 tools",
        budgets=(Budget(statistic="p50", at_most=800, source=_WRAPPERS),),
    ),
    "wrappers.x4": RowSpec(title="wrappers and stubs of 964 tools"),
    "wrappers.linear": RowSpec(
        title="time per tool, 964 tools against 241",
        unit="×",
        budgets=(Budget(statistic="p50", at_most=1.25, source=_WRAPPERS),),
    ),
    "search": RowSpec(
        title="catalog search over 8,500 tools (`--tiny`: 500)",
        budgets=(Budget(statistic="p95", at_most=10, source=_SEARCH),),
    ),
}
