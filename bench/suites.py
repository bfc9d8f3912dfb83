"""Which groups each command runs, and how one run of groups goes.

A group that fails is named in the table and told on stderr; the others go on, and the command ends with 1.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from bench.groups import (
    cold,
    commands,
    endings,
    executions,
    languages,
    live_sessions,
    mcp_face,
    memory,
    rates,
    redacting,
    search,
    soaking,
    tool_counts,
    toolcalls,
    wrapper_trees,
)
from bench.sampling import Measured, Watch
from bench.world import open_world, prepare_environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.environments.base import BuildProgress

    Measure = Callable[[World, Sizes], Awaitable[Measured]]

LATENCY: Final[Mapping[str, Measure]] = {
    "executions": executions.measure,
    "languages": languages.measure,
    "endings": endings.measure,
    "tools": toolcalls.measure,
    "mcp": mcp_face.measure,
    "cold": cold.measure,
    "command": commands.measure,
    "wrappers": wrapper_trees.measure,
    "search": search.measure,
    "redaction": redacting.measure,
}
THROUGHPUT: Final[Mapping[str, Measure]] = {"rate": rates.measure}
MEMORY: Final[Mapping[str, Measure]] = {"memory": memory.measure}
GROWTH: Final[Mapping[str, Measure]] = {"live": live_sessions.measure, "counts": tool_counts.measure}
SOAK: Final[Mapping[str, Measure]] = {"soak": soaking.measure}
EVERYTHING: Final[Mapping[str, Measure]] = {**LATENCY, **THROUGHPUT, **MEMORY, **GROWTH, **SOAK}

_NEEDS_NO_SANDBOX = {"wrappers", "search", "redaction"}


@dataclass(slots=True, kw_only=True)
class Ran:
    """What a run of groups came to."""

    measured: list[Measured] = field(default_factory=list[Measured])
    failed: list[str] = field(default_factory=list[str])


async def run_groups(
    suite: Mapping[str, Measure],
    names: Sequence[str],
    sizes: Sizes,
    *,
    environments: tuple[str, ...],
    peers: bool,
) -> Ran:
    """Run the named groups one after the other."""
    if not _NEEDS_NO_SANDBOX.issuperset(names):
        for environment in environments:
            await prepare_environment(environment, _show_progress)
    ran = Ran()
    async with open_world(environments, peers=peers) as world:
        for name in names:
            print(f"bench: {name} …", file=sys.stderr, flush=True)
            watch = Watch(name)
            try:
                ran.measured.append(await suite[name](world, sizes))
            except Exception as error:  # noqa: BLE001  minutes of other groups must not be lost with it
                traceback.print_exc()
                why = f"the group {name!r} failed: {type(error).__name__}: {error}"[:400]
                ran.measured.append(watch.measured({}, skipped={name: why}))
                ran.failed.append(name)
    return ran


def sized(sizes: Sizes, rounds: int | None) -> Sizes:
    """`sizes` with every group's rounds set to `rounds`, if given."""
    return sizes if rounds is None else replace(sizes, rounds=rounds, slow_rounds=rounds, start_rounds=rounds)


def _show_progress(step: BuildProgress) -> None:
    print(f"bench: building {step.environment}: {step.done}/{step.total} {step.note}", file=sys.stderr)
