"""Prints a run: a table with intervals, or one JSON object."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bench.retrieval.metrics import METRICS, intervals, means
from bench.retrieval.run import OURS
from bench.retrieval.sessions import FIXED_TOKENS

if TYPE_CHECKING:
    from bench.retrieval.query_sets import Collection
    from bench.retrieval.run import Run


def as_json(run: Run, collections: list[Collection], scale: list[dict[str, Any]]) -> dict[str, Any]:
    """`sets` and `macro` are ours; what was measured beside it follows."""
    ours = run.scores[OURS]
    counts = {part.name: part for one in collections for part in (*one.sets, *one.kinds)}
    return {
        "sets": {
            name: {
                **_rounded(means(found)),
                "n": len(found),
                "skipped": counts[name].skipped,
                "interval_95": _rounded_pairs(intervals(found)),
            }
            for name, found in ours.sets.items()
        },
        "macro": _rounded(ours.macro()),
        "kinds": {name: {**_rounded(means(found)), "n": len(found)} for name, found in ours.kinds.items()},
        "macro_by_kind": _rounded(ours.macro(by_kind=True)),
        "systems": {
            name: {
                "sets": {
                    key: {**_rounded(means(found)), "interval_95": _rounded_pairs(intervals(found))}
                    for key, found in scores.sets.items()
                },
                "macro": _rounded(scores.macro()),
                "macro_by_kind": _rounded(scores.macro(by_kind=True)),
            }
            for name, scores in run.scores.items()
            if name != OURS
        },
        "missing": run.missing,
        "sessions": {name: asdict(found) for name, found in run.replays.items()},
        "scale": scale,
    }


def print_tables(run: Run, collections: list[Collection], scale: list[dict[str, Any]]) -> None:
    ours = run.scores[OURS]
    parts = {part.name: part for one in collections for part in (*one.sets, *one.kinds)}
    width = max(len(name) for name in parts) + 2
    print("query sets (95 % interval of R@5)\n")
    print(f"{'set':{width}}{'n':>5}{'no gold':>9}{'capped':>8}  " + "".join(f"{name:>9}" for name in METRICS))
    for name, found in ours.sets.items():
        low, high = intervals(found)["R@5"]
        part = parts[name]
        counts = f"{len(found):5}{part.skipped:9}{part.capped:8}"
        print(f"{name:{width}}{counts}  {_cells(means(found))}  [{low:.3f}, {high:.3f}]")
    print(f"{'macro mean':{width}}{'':22}  {_cells(ours.macro())}\n")
    kinds = {name: found for name, found in ours.kinds.items() if name not in ours.sets}
    for name, found in kinds.items():
        print(f"{name:{width}}{len(found):5}{'':17}  {_cells(means(found))}")
    print(f"{f'macro mean of {len(ours.kinds)} kinds':{width}}{'':22}  {_cells(ours.macro(by_kind=True))}\n")
    print("systems, macro mean over the query sets (last column: R@5 over every kind)\n")
    for name, scores in run.scores.items():
        print(f"{name:{width + 22}}  {_cells(scores.macro())}{scores.macro(by_kind=True)['R@5']:9.3f}")
    for name, why in run.missing.items():
        print(f"{name:{width + 22}}  not measured: {why}")
    for name, one in run.replays.items():
        print(
            f"\n{name}: {one.tasks} tasks of agents, {one.queries:.1f} searches each:"
            f" {one.coverage:.3f} of the gold tools within 20 lines ({one.complete:.3f} of the tasks see all;"
            f" {one.coverage_as_shown:.3f} with the face's default limit)\n"
            f"{name}: {one.discovery_tokens:.0f} discovery tokens per task (p90 {one.discovery_tokens_p90:.0f}),"
            f" {one.discovery_tokens_one_call:.0f} with all searches in one call"
            f" ({FIXED_TOKENS} of them fixed, as the study counts); all definitions upfront: {one.upfront_tokens}\n"
            f"{name}: {one.discovery_tokens_all_in:.0f} all in: with the {one.face_tokens} of the face's own three"
            f" definitions and the {one.instructions_tokens} of its handshake instead"
        )
    for row in scale:
        print(
            f"\n{row['tools']} made-up tools: build {row['build_s']} s, +{row['memory_mib']} MiB,"
            f" a question p50 {row['query_ms_p50']} ms, p95 {row['query_ms_p95']} ms"
            f" ({row['query_cpu_ms_p95']} ms of processor time)"
        )


def _cells(values: dict[str, float]) -> str:
    return "".join(f"{values[name]:9.3f}" for name in METRICS)


def _rounded_pairs(values: dict[str, tuple[float, float]]) -> dict[str, list[float]]:
    return {name: [round(one, 4) for one in pair] for name, pair in values.items()}


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}
