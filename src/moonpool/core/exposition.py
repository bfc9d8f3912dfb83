"""`Measures` in Prometheus' text format, version 0.0.4. Pure.

Names and labels are a closed set; nothing that a server, a model or a caller wrote is a label's value (kinds of
disclosure are ours; others are left out).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.core.measures import Measures, Times

KINDS: Final = ("manifest", "own_tools", "search", "definition")


def prometheus_text(measures: Measures) -> str:
    """The whole exposition, ending in a newline. Durations are seconds."""
    return "".join(f"{line}\n" for line in _lines(measures))


def _lines(measures: Measures) -> Iterator[str]:
    tokens = measures.tokens
    kinds = dict(tokens.by_kind)
    yield from _head("moonpool_tokens_upfront", "gauge", "Tokens of all definitions, once per recorded connection.")
    yield f"moonpool_tokens_upfront {tokens.upfront}"
    yield from _head("moonpool_tokens_shown", "gauge", "Tokens that models were shown of the tools instead.")
    for kind in KINDS:
        yield f'moonpool_tokens_shown{{kind="{kind}"}} {kinds.get(kind, 0)}'
    yield from _head("moonpool_connections", "gauge", "Recorded connections of models.")
    yield f"moonpool_connections {tokens.connections}"
    yield from _head("moonpool_drift_update_seconds", "summary", "From notice of a changed list to its new wrappers.")
    yield from _summary("moonpool_drift_update_seconds", "", measures.updates)
    yield from _head("moonpool_drift_unseen_seconds", "summary", "The most that changed lists stood unseen.")
    yield from _summary("moonpool_drift_unseen_seconds", "", measures.unseen)
    yield from _head("moonpool_sandbox_overhead_seconds", "summary", "What Moonpool itself took of an execution.")
    yield from _summary("moonpool_sandbox_overhead_seconds", "", measures.overhead)
    yield from _head("moonpool_span_seconds", "summary", "Parts of executions.")
    for name, times in measures.spans:
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
