"""`python -m bench.sdk`: `import moonpool` in the environment data beside ipybox 0.9.2, in one run, as a table.

Both do the same, turn by turn: a session from nothing to its first answer, `1+1`, a tool call as code sees it, a figure
from plot to PNG, a reset to the next answer. Moonpool isolates and records; ipybox runs without its sandbox, which does
not start on Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import moonpool
from bench.groups.toolcalls import write_config
from bench.machine import describe_machine
from bench.sampling import median
from bench.world import link_environments, open_world, prepare_environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.peers.agents import Agent
    from bench.world import World

_FIGURE = "import matplotlib.pyplot as plt\nline = plt.plot([1, 2, 3])\nplt.show()"
_CALLS = """
import time
from servers.bench import read_only
times = []
for n in range({count}):
    started = time.perf_counter()
    answer = await read_only(n=n)
    times.append(time.perf_counter() - started)
    assert answer.data == {{"n": n + 1}}, answer.data
result = times
"""
TITLES = {
    "cold": "session, from nothing to its first answer",
    "execute": "next execution, `1+1`",
    "tool": "tool call, as code sees it",
    "figure": "figure, from plot to PNG",
    "reset": "reset, to the next answer",
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sdk", description="The Python API beside ipybox.")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    found = asyncio.run(_measure(options.rounds))
    machine = describe_machine()
    if options.json:
        print(json.dumps({"machine": machine, "ms": found}))
        return 0
    print(
        f"{machine['date']} · commit {machine['commit']} · {machine['cores']} cores, {machine['cpu']} · medians, ms\n"
    )
    print("| | moonpool | ipybox | times faster |\n|---|---|---|---|")
    for name, title in TITLES.items():
        ours, theirs = found["moonpool"][name], found["ipybox"][name]
        print(f"| {title} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.1f} |")
    return 0


async def _measure(rounds: int) -> dict[str, dict[str, float]]:
    await prepare_environment("data")
    times: dict[str, dict[str, list[float]]] = {"moonpool": {}, "ipybox": {}}
    async with open_world(("data",)) as world:
        data = world.folder / "sdk"
        data.mkdir(mode=0o755)
        link_environments(data)
        os.environ["MOONPOOL_DATA_DIR"] = str(data)
        agent = await world.peers.agent("ipybox")
        ours = _Ours(world)
        for _ in range(rounds):
            for name in TITLES:
                times["moonpool"].setdefault(name, []).extend(await getattr(ours, name)())
                times["ipybox"].setdefault(name, []).extend(await _asked(agent, name))
    return {who: {name: 1000 * median(taken) for name, taken in rows.items()} for who, rows in times.items()}


async def _asked(agent: Agent, name: str) -> list[float]:
    answer = await agent.ask(name, count=20)
    seconds: list[float] = answer["seconds"]
    return seconds


class _Ours:
    """Each measurement opens a session of its own; only `cold` counts that."""

    def __init__(self, world: World) -> None:
        self._servers = write_config(world.folder)

    async def cold(self) -> list[float]:
        return [await _timed(lambda: moonpool.run("1+1", environment="data"))]

    async def execute(self) -> list[float]:
        async with moonpool.session(environment="data") as session:
            await session.run("1+1")
            return [await _timed(lambda: session.run("1+1")) for _ in range(20)]

    async def tool(self) -> list[float]:
        async with moonpool.session(environment="data", servers=self._servers) as session:
            await session.run(_CALLS.format(count=2))
            found: Any = (await session.run(_CALLS.format(count=20))).check().data
            return found

    async def figure(self) -> list[float]:
        async with moonpool.session(environment="data") as session:
            await session.run(_FIGURE)
            taken: list[float] = []
            for _ in range(20):
                started = time.perf_counter()
                shown = await session.run(_FIGURE)
                taken.append(time.perf_counter() - started)
                assert len(shown.displays) == 1, shown
            return taken

    async def reset(self) -> list[float]:
        async def reset() -> None:
            await session.reset()
            await session.run("1+1")

        async with moonpool.session(environment="data") as session:
            await session.run("1+1")
            return [await _timed(reset)]


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
