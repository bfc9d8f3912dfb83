"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Counts per round of a group, and how many rounds."""

    rounds: int
    paced: int  # fresh executions at 20/s
    fresh: int  # fresh executions without a pool
    session: int
    compared: int  # processes of each kind that we are compared with
    calls: int  # tool calls per batch
    burst: int  # executions per back-to-back burst
    idle: int  # sessions whose memory is read
    searches: int
    catalog_tools: int = 8_500
    slow_rounds: int  # of what takes a second or more: cold starts, whole commands, wrappers


FULL = Sizes(
    rounds=20, paced=10, fresh=10, session=50, compared=10, calls=100, burst=100, idle=5, searches=50, slow_rounds=10
)
QUICK = Sizes(
    rounds=3, paced=5, fresh=5, session=20, compared=5, calls=30, burst=30, idle=2, searches=20, slow_rounds=3
)
TINY = Sizes(
    rounds=1,
    paced=2,
    fresh=2,
    session=3,
    compared=2,
    calls=3,
    burst=4,
    idle=1,
    searches=2,
    slow_rounds=1,
    catalog_tools=500,
)
