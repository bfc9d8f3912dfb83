"""Metrics in the Prometheus text format, version 0.0.4. Pure.

SECURITY: names and labels are a closed set. Nothing that a server, a model or a caller wrote becomes a label or its
value: the kinds of context usage are ours, all others are counted as `other`. So the number of series is constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from moonpool.features.caller_limits.model import BoundName, OwnerName
from moonpool.features.usage.model import KINDS, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prometheus_client import Metric

    from moonpool.features.usage.measures import Measures, Times
    from moonpool.features.usage.model import TokenFigures, ToolTokens

_NO_LABELS: Final[dict[str, str]] = {}
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGauges:
    """The sandboxes of a serving process at one moment."""

    alive: int
    ready: int
    opening: int
    waiting: int
    refused: int  # since the start


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFigures:
    """What limits of callers did in a service."""

    open: int  # executions that requests began
    refused: Mapping[tuple[BoundName, OwnerName], int]  # since the start


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposed:
    """All metrics at one moment."""

    version: str
    recorded: Measures
    configuration: ToolTokens | None = None  # None: the tools are not known here
    open: Sequence[TokenFigures] | None = None  # model connections; None: this process serves none
    pool: PoolGauges | None = None
    limits: LimitFigures | None = None  # None: nothing is served over HTTP


def prometheus_text(exposed: Exposed) -> str:
    """The complete exposition, ending in a newline. Durations are in seconds, sizes in o200k tokens."""
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415  0.1 s, rarely needed

    registry = CollectorRegistry(auto_describe=False)  # the package's default registry has metrics of the process
    registry.register(_Figures(exposed))
    return generate_latest(registry).decode()


@dataclass(frozen=True, slots=True, eq=False)
class _Figures:
    """A collector of the metrics of one moment."""

    exposed: Exposed

    def collect(self) -> Iterator[Metric]:
        exposed = self.exposed
        yield _gauge("moonpool_build_info", "1; the version is the label.", ({"version": exposed.version}, 1))
        if exposed.configuration is not None:
            tools, uncounted = exposed.configuration.tools, exposed.configuration.uncounted
            yield _gauge("moonpool_tools", "Tools that are configured, known and counted.", (_NO_LABELS, tools))
            yield _gauge("moonpool_tools_uncounted", "Tools whose tokens are not counted yet.", (_NO_LABELS, uncounted))
        yield from _token_gauges(tuple(_sides(exposed)))
        if exposed.pool is not None:
            yield from _pool_metrics(exposed.pool)
        if exposed.limits is not None:
            yield from _limit_metrics(exposed.limits)
        yield from _summaries(exposed.recorded)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tokens:
    """Token counts from one of the three sources."""

    of: str
    upfront: int
    by_kind: dict[str, int]
    saved: int
    connections: int | None = None  # None: a configuration without connections
    executions: int = 0
    on_demand: int = 0


def _sides(exposed: Exposed) -> Iterator[_Tokens]:
    if (now := exposed.configuration) is not None:
        kinds = {"manifest": now.manifest, "own_tools": now.own_tools}
        yield _Tokens(of="configuration", upfront=now.upfront, by_kind=kinds, saved=now.upfront - now.instead)
    if exposed.open is not None:
        yield _Tokens(
            of="open",
            upfront=sum(one.tools.upfront for one in exposed.open),
            by_kind={kind: sum(one.by_kind.get(kind, 0) for one in exposed.open) for kind in KINDS},
            saved=sum(one.saved for one in exposed.open),
            connections=len(exposed.open),
            executions=sum(one.executions for one in exposed.open),
            on_demand=sum(one.on_demand for one in exposed.open),
        )
    recorded = exposed.recorded.tokens
    yield _Tokens(
        of="recorded",
        upfront=recorded.upfront,
        by_kind={kind: dict(recorded.by_kind).get(kind, 0) for kind in (*KINDS, OTHER)},
        saved=recorded.figures.saved,
        connections=recorded.connections,
        executions=recorded.executions,
        on_demand=recorded.figures.on_demand,
    )


def _token_gauges(sides: Sequence[_Tokens]) -> Iterator[Metric]:
    upfront = [({"of": side.of}, side.upfront) for side in sides]
    yield _gauge("moonpool_tokens_upfront", "Tokens of all definitions, once per connection.", *upfront)
    shown = [({"of": side.of, "kind": kind}, tokens) for side in sides for kind, tokens in side.by_kind.items()]
    yield _gauge("moonpool_tokens_shown", "Tokens of what models are shown of the tools instead.", *shown)
    saved = [({"of": side.of}, side.saved) for side in sides]
    yield _gauge("moonpool_tokens_saved", "Upfront minus shown; negative where more was shown.", *saved)
    asked = [(side, {"of": side.of}, side.connections) for side in sides if side.connections is not None]
    per_task = [(of, round(side.on_demand / max(1, side.executions), 1)) for side, of, _ in asked]
    yield _gauge("moonpool_tokens_per_task", "Tokens of searches and definitions per execution.", *per_task)
    yield _gauge("moonpool_connections", "Connections of MCP clients.", *((of, count) for _, of, count in asked))
    executions = [(of, side.executions) for side, of, _ in asked]
    yield _gauge("moonpool_executions", "Executions that models asked for over these connections.", *executions)


def _pool_metrics(pool: PoolGauges) -> Iterator[Metric]:
    states = [({"state": name}, getattr(pool, name)) for name in ("alive", "ready", "opening")]
    yield _gauge("moonpool_sandboxes", "Sandboxes of this process; those in use are ready no more.", *states)
    yield _gauge("moonpool_callers_waiting", "Callers that are waiting for a sandbox.", (_NO_LABELS, pool.waiting))
    refused = _metric("moonpool_callers_refused", "counter", "Callers that were told to retry later.")
    refused.add_sample("moonpool_callers_refused_total", {}, pool.refused)
    yield refused


def _limit_metrics(limits: LimitFigures) -> Iterator[Metric]:
    yield _gauge(
        "moonpool_executions_open", "Executions that requests began and that go on.", (_NO_LABELS, limits.open)
    )
    refused = _metric("moonpool_requests_refused", "counter", "Requests above a limit of their caller or organisation.")
    for bound in get_args(BoundName):
        for owner in get_args(OwnerName):
            labels = {"bound": bound, "of": owner}
            refused.add_sample("moonpool_requests_refused_total", labels, limits.refused.get((bound, owner), 0))
    yield refused


def _summaries(recorded: Measures) -> Iterator[Metric]:
    for name, help_, times in (
        (
            "moonpool_drift_update_seconds",
            "Time from learning of a changed list until its new wrappers are there.",
            recorded.updates,
        ),
        ("moonpool_drift_unseen_seconds", "Longest time that a changed list may have been unnoticed.", recorded.unseen),
        ("moonpool_sandbox_overhead_seconds", "Time of an execution that Moonpool itself took.", recorded.overhead),
    ):
        yield _summary(name, help_, (_NO_LABELS, times))
    spans = [({"span": name}, times) for name, times in recorded.spans]
    yield _summary("moonpool_span_seconds", "Parts of executions.", *spans)


def _gauge(name: str, help_: str, *samples: tuple[dict[str, str], float]) -> Metric:
    metric = _metric(name, "gauge", help_)
    for labels, value in samples:
        metric.add_sample(name, labels, value)
    return metric


def _summary(name: str, help_: str, *samples: tuple[dict[str, str], Times]) -> Metric:
    metric = _metric(name, "summary", help_)
    for labels, times in samples:
        for quantile, value in (("0.5", times.p50_ms), ("0.95", times.p95_ms)):
            seconds = round(value / 1000, 6) if times.count else math.nan
            metric.add_sample(name, {**labels, "quantile": quantile}, seconds)
        metric.add_sample(f"{name}_sum", labels, round(times.sum_ms / 1000, 6))
        metric.add_sample(f"{name}_count", labels, times.count)
    return metric


def _metric(name: str, kind: str, help_: str) -> Metric:
    from prometheus_client import Metric  # noqa: PLC0415

    return Metric(name, help_, kind)
