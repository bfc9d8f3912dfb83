"""How much is measured: `FULL` within twelve minutes on two cores, `QUICK` within two, `TINY` to see that it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Counts per round of a group, and how many rounds."""

    rounds: int
    warm_ups: int = 1  # rounds before those, which do not count
    paced: int  # fresh executions at 20/s
    fresh: int  # fresh executions without a pool
    session: int
    compared: int  # processes of each kind that we are compared with
    peers: int  # executions of a peer that takes tens of ms each
    calls: int  # tool calls per batch
    burst: int  # executions per back-to-back burst
    idle: int  # sessions whose memory is read
    searches: int
    catalog_tools: int = 8_500
    slow_rounds: int  # of what takes a second or more: whole commands, wrappers, bursts
    start_rounds: int  # of what takes several seconds: starts of peers
    concurrency: tuple[int, ...] = (1, 2, 4, 16, 64)
    live: tuple[int, ...] = (1, 10, 100, 1000)
    live_samples: int = 20  # sessions opened, and used again, at each of these counts
    tools: tuple[int, ...] = (1, 100, 1000)
    soak_executions: int
    peer_outputs: int  # prints of a peer that are counted beside the soak


FULL = Sizes(
    rounds=20,
    paced=10,
    fresh=10,
    session=50,
    compared=10,
    peers=5,
    calls=100,
    burst=100,
    idle=5,
    searches=50,
    slow_rounds=10,
    start_rounds=5,
    soak_executions=10_000,
    peer_outputs=200,
)
QUICK = Sizes(
    rounds=3,
    paced=5,
    fresh=5,
    session=20,
    compared=5,
    peers=3,
    calls=30,
    burst=20,
    idle=2,
    searches=20,
    slow_rounds=2,
    start_rounds=1,
    live=(1, 10, 100),
    soak_executions=500,
    peer_outputs=20,
)
TINY = Sizes(
    rounds=1,
    warm_ups=0,
    paced=2,
    fresh=2,
    session=3,
    compared=2,
    peers=1,
    calls=3,
    burst=4,
    idle=1,
    searches=2,
    slow_rounds=1,
    start_rounds=1,
    catalog_tools=500,
    concurrency=(1, 4),
    live=(1, 3),
    live_samples=2,
    tools=(1, 10),
    soak_executions=20,
    peer_outputs=2,
)
