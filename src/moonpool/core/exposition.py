"""Figures in Prometheus' text format, version 0.0.4. Pure.

SECURITY: names and labels are a closed set. Nothing that a server, a model or a caller wrote is a label or its value:
kinds of disclosure are ours, others are summed up as `other`. So the number of series is a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.token_figures import KINDS, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from moonpool.core.measures import Measures, Times
    from moonpool.core.token_figures import TokenFigures, ToolTokens

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGauges:
    """Sandboxes of a process that serves, at one moment."""

    alive: int
    ready: int
    opening: int
    waiting: int
    refused: int  # since the start


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposed:
    """Everything that is exposed at one moment."""

    version: str
    recorded: Measures
    configuration: ToolTokens | None = None  # None: the tools are not known here
    open: Sequence[TokenFigures] | None = None  # connections of models; None: this process serves none
    pool: PoolGauges | None = None


def prometheus_text(exposed: Exposed) -> str:
    """The whole exposition, ending in a newline. Durations are seconds, sizes o200k tokens."""
    return "".join(f"{line}\n" for line in _lines(exposed))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tokens:
    """Token figures of one of the three sides that have some."""

    of: str
    upfront: int
    by_kind: dict[str, int]
    saved: int
    connections: int | None = None  # None: a configuration, which nobody has asked yet
    executions: int = 0
    on_demand: int = 0


def _lines(exposed: Exposed) -> Iterator[str]:
    yield from _head("moonpool_build_info", "gauge", "1; the version is the label.")
    yield f'moonpool_build_info{{version="{_escaped(exposed.version)}"}} 1'
    if exposed.configuration is not None:
        yield from _head("moonpool_tools", "gauge", "Tools that are configured, known and counted.")
        yield f"moonpool_tools {exposed.configuration.tools}"
        yield from _head("moonpool_tools_uncounted", "gauge", "Tools that are not in the figures of tokens yet.")
        yield f"moonpool_tools_uncounted {exposed.configuration.uncounted}"
    yield from _token_lines(tuple(_sides(exposed)))
    if exposed.pool is not None:
        yield from _pool_lines(exposed.pool)
    yield from _time_lines(exposed.recorded)


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


def _token_lines(sides: Sequence[_Tokens]) -> Iterator[str]:
    yield from _head("moonpool_tokens_upfront", "gauge", "Tokens of all definitions, once per connection.")
    for side in sides:
        yield f'moonpool_tokens_upfront{{of="{side.of}"}} {side.upfront}'
    yield from _head("moonpool_tokens_shown", "gauge", "Tokens of what models are shown of the tools instead.")
    for side in sides:
        for kind, tokens in side.by_kind.items():
            yield f'moonpool_tokens_shown{{of="{side.of}",kind="{kind}"}} {tokens}'
    yield from _head("moonpool_tokens_saved", "gauge", "The difference; below 0 where more was shown.")
    for side in sides:
        yield f'moonpool_tokens_saved{{of="{side.of}"}} {side.saved}'
    asked = [side for side in sides if side.connections is not None]
    yield from _head("moonpool_tokens_per_task", "gauge", "Tokens of searches and definitions per execution.")
    for side in asked:
        yield f'moonpool_tokens_per_task{{of="{side.of}"}} {round(side.on_demand / max(1, side.executions), 1)}'
    yield from _head("moonpool_connections", "gauge", "Connections of models.")
    for side in asked:
        yield f'moonpool_connections{{of="{side.of}"}} {side.connections}'
    yield from _head("moonpool_executions", "gauge", "Executions that models asked for over these connections.")
    for side in asked:
        yield f'moonpool_executions{{of="{side.of}"}} {side.executions}'


def _pool_lines(pool: PoolGauges) -> Iterator[str]:
    yield from _head("moonpool_sandboxes", "gauge", "Sandboxes of this process; those in use are ready no more.")
    for state, count in (("alive", pool.alive), ("ready", pool.ready), ("opening", pool.opening)):
        yield f'moonpool_sandboxes{{state="{state}"}} {count}'
    yield from _head("moonpool_callers_waiting", "gauge", "Callers who wait for a sandbox.")
    yield f"moonpool_callers_waiting {pool.waiting}"
    yield from _head("moonpool_callers_refused_total", "counter", "Callers who were told to come again.")
    yield f"moonpool_callers_refused_total {pool.refused}"


def _time_lines(recorded: Measures) -> Iterator[str]:
    yield from _head("moonpool_drift_update_seconds", "summary", "From notice of a changed list to its new wrappers.")
    yield from _summary("moonpool_drift_update_seconds", "", recorded.updates)
    yield from _head("moonpool_drift_unseen_seconds", "summary", "The most that changed lists stood unseen.")
    yield from _summary("moonpool_drift_unseen_seconds", "", recorded.unseen)
    yield from _head("moonpool_sandbox_overhead_seconds", "summary", "What Moonpool itself took of an execution.")
    yield from _summary("moonpool_sandbox_overhead_seconds", "", recorded.overhead)
    yield from _head("moonpool_span_seconds", "summary", "Parts of executions.")
    for name, times in recorded.spans:
        yield from _summary("moonpool_span_seconds", f'span="{name}"', times)


def _head(name: str, kind: str, help_: str) -> Iterator[str]:
    yield f"# HELP {name} {help_}"
    yield f"# TYPE {name} {kind}"


def _summary(name: str, label: str, times: Times) -> Iterator[str]:
    comma = "," if label else ""
    around = f"{{{label}}}" if label else ""
    for quantile, value in (("0.5", times.p50_ms), ("0.95", times.p95_ms)):
        shown = f"{value / 1000:.6f}" if times.count else "NaN"
        yield f'{name}{{{label}{comma}quantile="{quantile}"}} {shown}'
    yield f"{name}_sum{around} {times.sum_ms / 1000:.6f}"
    yield f"{name}_count{around} {times.count}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
