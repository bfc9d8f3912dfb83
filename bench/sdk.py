"""`python -m bench.sdk`: `import moonpool` in the environment data beside ipybox 0.9.2, in one run, as a table.

Both do the same, turn by turn. Checkpoints and undo, which ipybox does not have, are of a session with a DataFrame of
100 MB and ten files of 1 MiB; each execution changes a column and a file. Both install a wheel of a local index again,
into a session that does not have it. Memory is the proportional set size of all processes that serve sessions after a
figure, without the process of the application: of the first session, for Moonpool with the zygote that all share, and
what each further one adds. Moonpool isolates and records; ipybox runs without its sandbox, which does not start here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.packages.fake_index import Index

import moonpool
from bench.groups.toolcalls import write_config
from bench.machine import describe_machine
from bench.peers.venvs import PeerMissingError
from bench.processes import descendants, proportional_megabytes
from bench.sampling import median, percentile
from bench.world import PACE_S, link_environments, open_world, prepare_environment

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
_STATE = """
import numpy, os, pandas
table = pandas.DataFrame(numpy.random.default_rng(1).random((1_250_000, 10)))
for n in range(10):
    open(f"file{n}", "wb").write(os.urandom(1 << 20))
step = 0
"""
_STEP = """
step += 1
table[step % 10] += 1
open(f"file{step % 10}", "wb").write(os.urandom(1 << 20))
"""
_UNDONE = (1, 3, 6, 10, 15, 20)  # executions; the last is all that are kept
_FURTHER = 4  # sessions
_PACKAGE = "moonpoolbench"
TITLES = {
    "cold": "session, from nothing to its first answer, ms",
    "execute": "next execution, `1+1`, ms",
    "tool": "tool call, as code sees it, ms",
    "figure": "figure, from plot to PNG, ms",
    "checkpoint": "checkpoint after an execution, 100 MB and 10 files, ms",
    "undo": "undo of 1 to 20 executions, 100 MB and 10 files, ms",
    "reset": "reset, to the next answer, ms",
    "install": "install of a cached package in another session, ms",
    "memory": "memory of the first session and all that serves it, MB",
    "further": "memory that each further session adds, MB",
}
_MEGABYTES = {"memory", "further"}
_ONLY_OURS = {"checkpoint", "undo"}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sdk", description="The Python API beside ipybox.")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--only", nargs="*", choices=list(TITLES), default=list(TITLES), metavar="ROW")
    parser.add_argument("--quick", action="store_true", help="fewer checkpoints, undo of 1 and 3 executions")
    parser.add_argument("--no-peers", action="store_true", help="leave ipybox out")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    found = asyncio.run(_measure(options.rounds, options.only, quick=options.quick, peers=not options.no_peers))
    machine = describe_machine()
    if options.json:
        print(json.dumps({"machine": machine, "samples": found}))
        return 0
    print(f"{machine['date']} · commit {machine['commit']} · {machine['cores']} cores, {machine['cpu']}\n")
    print("| median, 90th percentile | moonpool | ipybox | times better |\n|---|---|---|---|")
    for name in options.only:
        ours, theirs = found["moonpool"][name], found["ipybox"].get(name)
        times = f"{median(theirs) / median(ours):.1f}" if theirs else ""
        told = _shown(theirs) if theirs else "none" if name in _ONLY_OURS else "not measured"
        print(f"| {TITLES[name]} | {_shown(ours)} | {told} | {times} |")
    return 0


def _shown(samples: list[float]) -> str:
    return f"{median(samples):.2f}, {percentile(samples, 0.9):.2f}"


async def _measure(rounds: int, names: list[str], *, quick: bool, peers: bool) -> dict[str, dict[str, list[float]]]:
    """Samples by who and row: ms, MB of memory."""
    await prepare_environment("data")
    found: dict[str, dict[str, list[float]]] = {"moonpool": {}, "ipybox": {}}
    async with open_world(("data",), peers=peers) as world:
        data = world.folder / "sdk"
        data.mkdir(mode=0o755)
        link_environments(data)
        Index(world.folder / "index").add(_PACKAGE, files={f"{_PACKAGE}.py": "number = 1\n"})
        index = (world.folder / "index" / "simple").as_uri()
        os.environ.update(MOONPOOL_DATA_DIR=str(data), MOONPOOL_PACKAGE_INDEX=index)
        await moonpool.run("1+1", environment="data")  # makes the files of the data folder: no start counts that
        agent = await world.peers.agent("ipybox") if peers else None
        ours = _Ours(world, agent, quick=quick)
        for _ in range(rounds):
            for name in names:
                unit = 1 if name in _MEGABYTES else 1000
                found["moonpool"].setdefault(name, []).extend(unit * one for one in await getattr(ours, name)())
                if agent is not None and name not in _ONLY_OURS:
                    try:
                        taken = await _asked(agent, name, index)
                    except PeerMissingError as error:  # on a busy machine its kernel does not always start
                        print(f"bench: {error}", file=sys.stderr)
                    else:
                        found["ipybox"].setdefault(name, []).extend(unit * one for one in taken)
    return found


async def _asked(agent: Agent, name: str, index: str) -> list[float]:
    if name in _MEGABYTES:
        await agent.ask("reset")  # ends the server of its tool calls, which ours does not have either
        await agent.ask("figure", count=1)
        first = proportional_megabytes(descendants(agent.process.pid))
        if name == "memory":
            return [first]
        await agent.ask("open_further", count=_FURTHER)
        all_of_them = proportional_megabytes(descendants(agent.process.pid))
        await agent.ask("close_further")
        return [(all_of_them - first) / _FURTHER]
    answer = await agent.ask(name, count=20, package=_PACKAGE, index=index)
    seconds: list[float] = answer["seconds"]
    return seconds


class _Ours:
    """Each measurement opens a session of its own; only `cold` counts that."""

    def __init__(self, world: World, peer: Agent | None, *, quick: bool) -> None:
        self._servers = write_config(world.folder)
        self._peer = peer
        self._quick = quick

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

    async def checkpoint(self) -> list[float]:
        async with moonpool.session(environment="data", checkpoints=True) as session:
            (await session.run(_STATE, timeout=60)).check()
            taken: list[float] = []
            for number in range(2 if self._quick else 9):
                (await session.run(_STEP)).check()
                taken.append(await _timed(partial(session.checkpoint, f"checkpoint {number}")))
            return taken

    async def undo(self) -> list[float]:
        async with moonpool.session(environment="data", checkpoints=True) as session:
            (await session.run(_STATE, timeout=60)).check()
            taken: list[float] = []
            for count in _UNDONE[: 2 if self._quick else None]:
                for _ in range(count):
                    (await session.run(_STEP)).check()
                await asyncio.sleep(PACE_S)
                taken.append(await _timed(partial(session.undo, count)))
                assert (await session.run("step, table.shape")).check().data == [0, [1_250_000, 10]]
                await session.undo()
            return taken

    async def install(self) -> list[float]:
        """The first session brings it into the cache."""
        for _ in range(2):
            async with moonpool.session(environment="data", packages="any") as session:
                await session.run("1+1")
                seconds = await _timed(lambda: session.install(_PACKAGE))
                assert (await session.run(f"import {_PACKAGE} as one; one.number")).check().data == 1
        return [seconds]

    async def memory(self) -> list[float]:
        async with moonpool.session(environment="data") as session:
            await session.run(_FIGURE)
            return [self._megabytes()]

    async def further(self) -> list[float]:
        async with AsyncExitStack() as stack:
            megabytes: list[float] = []
            for _ in range(1 + _FURTHER):
                session = await stack.enter_async_context(moonpool.session(environment="data"))
                await session.run(_FIGURE)
                megabytes.append(self._megabytes())
            return [(megabytes[-1] - megabytes[0]) / _FURTHER]

    def _megabytes(self) -> float:
        theirs = [] if self._peer is None else [self._peer.process.pid, *descendants(self._peer.process.pid)]
        return proportional_megabytes(set(descendants(os.getpid())).difference(theirs))


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
