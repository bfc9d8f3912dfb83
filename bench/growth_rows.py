"""Rows that come once per count: executions in flight, live sessions, tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.budgets import Budget, RowSpec
from bench.sizes import FULL, TINY

if TYPE_CHECKING:
    from collections.abc import Mapping

_RATE = "fresh sandboxes per second, 2 cores, back to back: ≥ 150 base, ≥ 50 data"
_RATES = {"base": 150.0, "data": 50.0}
_BUDGETED_IN_FLIGHT = 2


def _counts(*each: tuple[int, ...]) -> list[int]:
    return sorted({count for counts in each for count in counts})


def _rate(environment: str, in_flight: int) -> RowSpec:
    budget = Budget(statistic="p50", at_least=_RATES[environment], source=_RATE)
    return RowSpec(
        title=f"fresh executions per second, {in_flight} in flight, {environment}",
        unit="per s",
        peers=(f"rate.bwrap.{in_flight}",),
        budgets=(budget,) if in_flight == _BUDGETED_IN_FLIGHT else (),
    )


def _rates(counts: list[int]) -> dict[str, RowSpec]:
    rows = {f"rate.{environment}.{count}": _rate(environment, count) for environment in _RATES for count in counts}
    for environment in _RATES:
        for count in counts:
            title = f"answer with {count} in flight, {environment}"
            rows[f"answer.{environment}.{count}"] = RowSpec(title=title)
    return rows


def _live(counts: list[int]) -> dict[str, RowSpec]:
    rows: dict[str, RowSpec] = {}
    for count in counts:
        beside = f"with {count:,} live sessions" if count > 1 else "with one live session"
        rows[f"live.open.{count}"] = RowSpec(title=f"opening another session {beside}")
        rows[f"live.next.{count}"] = RowSpec(title=f"next execution in one of them, {beside}")
        rows[f"live.host.{count}"] = RowSpec(title=f"resident memory of the host {beside}", unit="MB")
    return rows


def _tools(counts: list[int]) -> dict[str, RowSpec]:
    rows: dict[str, RowSpec] = {}
    for count in counts:
        beside = f"with {count:,} tools" if count > 1 else "with one tool"
        rows[f"tools.start.{count}"] = RowSpec(title=f"fresh execution, no pool, {beside}")
        rows[f"tools.call.{count}"] = RowSpec(title=f"tool call as guest code sees it, {beside}")
        rows[f"tools.publish.{count}"] = RowSpec(title=f"showing a new tree in a live sandbox {beside}")
        rows[f"tools.render.{count}"] = RowSpec(title=f"rendering and writing that tree {beside}")
    return rows


GROWTH: Final[Mapping[str, RowSpec]] = {
    **_rates(_counts(FULL.concurrency, TINY.concurrency)),
    **_live(_counts(FULL.live, TINY.live)),
    **_tools(_counts(FULL.tools, TINY.tools)),
    **{
        f"rate.bwrap.{count}": RowSpec(
            title=f"*compared:* `bwrap … python -I -S -c`, {count} in flight", unit="per s", short="bwrap"
        )
        for count in _counts(FULL.concurrency, TINY.concurrency)
    },
}
