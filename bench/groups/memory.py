"""Group `memory`: private bytes of everything in a sandbox, as the Linux kernel counts them, beside other kernels.

Ready: in the pool, nobody's yet. Idle: a session after three small executions. Used: after ordinary work (records,
JSON, text; in `data` a table, its summary and a plot), which is let go of before the bytes are read.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from bench.groups.languages import SNIPPETS, missing_languages
from bench.peers.venvs import PeerMissingError
from bench.processes import private_megabytes
from bench.sampling import Case, take_turns, with_skipped
from bench.world import ONE_PLUS_ONE, fill_pool, pool_of, timed_execute
from moonpool.engine.code_request import CodeRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from bench.peers.agents import Agent
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.bootstrap import Tenant
    from moonpool.sandboxes.base import Sandbox, SandboxBackend, SandboxSpec

    Take = Callable[[int], Awaitable[list[float]]]

_IDLE = (ONE_PLUS_ONE, ONE_PLUS_ONE, ONE_PLUS_ONE)
_USED_BASE = b"""\
import collections, csv, datetime, io, json, re, statistics
rows = [{"id": n, "name": f"row {n}", "value": n * 0.5} for n in range(50_000)]
text = json.dumps(rows)
words = collections.Counter(re.findall("[a-z]+", text))
mean = statistics.fmean(row["value"] for row in json.loads(text))
del rows, text, words
result = 2
"""
_USED_DATA = b"""\
import io, numpy, pandas, matplotlib.pyplot
table = pandas.DataFrame({"key": numpy.arange(100_000) % 7, "value": numpy.random.default_rng(1).random(100_000)})
summary = table.groupby("key").value.describe()
figure = matplotlib.pyplot.figure()
figure.gca().plot(table.value[:1000])
picture = io.BytesIO()
figure.savefig(picture, format="png")
assert picture.tell() > 1000
matplotlib.pyplot.close("all")
del table, figure, picture
result = 2
"""
_USED = {"base": (CodeRequest(code=_USED_BASE),), "data": (CodeRequest(code=_USED_DATA, timeout_s=60),)}


@dataclass(slots=True)
class _WatchedBackend:
    """A backend that remembers what it opened."""

    backend: SandboxBackend
    opened: list[Sandbox] = field(default_factory=list["Sandbox"])

    async def open_sandbox(self, spec: SandboxSpec) -> Sandbox:
        self.opened.append(await self.backend.open_sandbox(spec))
        return self.opened[-1]


async def measure(world: World, sizes: Sizes) -> Measured:
    async with AsyncExitStack() as stack:
        apps = {name: await stack.enter_async_context(world.app(name)) for name in world.environments}
        cases: list[Case] = []
        for name, app in apps.items():
            cases.append(Case(name=f"memory.ready.{name}", take=_ready(app)))
            cases.append(Case(name=f"memory.idle.{name}", take=_sessions(app, _IDLE), per_round=sizes.idle))
            cases.append(Case(name=f"memory.used.{name}", take=_sessions(app, _USED[name]), per_round=sizes.idle))
        missing = await missing_languages(apps["base"])
        for language in ("node", "bash"):
            name = f"memory.idle.{language}"
            if language in missing:
                missing[name] = missing.pop(language)
                continue
            requests = (ONE_PLUS_ONE, *(CodeRequest(code=SNIPPETS[language], language=language),) * 3)
            cases.append(Case(name=name, take=_sessions(apps["base"], requests), per_round=sizes.idle))
        for name in ("ipybox", "jupyter"):
            try:
                cases.append(Case(name=f"memory.{name}", take=_peer(await world.peers.agent(name))))
            except PeerMissingError as error:
                missing[f"memory.{name}"] = str(error)
        return with_skipped(await take_turns("memory", cases, rounds=min(2, sizes.rounds), warm_ups=0), missing)


def _sessions(app: Tenant, requests: Sequence[CodeRequest]) -> Take:
    """Private memory of `count` sessions after `requests`, all alive at once."""

    async def take(count: int) -> list[float]:
        backend = _WatchedBackend(app.engine.backend)
        runtime = replace(app.runtime, pool=pool_of(cast("SandboxBackend", backend), alive_max=count))
        sessions = [runtime.session(app.caller_grant) for _ in range(count)]
        try:
            for session in sessions:
                for request in requests:
                    await timed_execute(session, request, 2)
            pids = [getattr(sandbox, "host_pid", None) for sandbox in backend.opened]
            assert len(pids) == count
            return [private_megabytes(pid) for pid in pids if pid is not None]
        finally:
            await runtime.close()

    return take


def _ready(app: Tenant) -> Take:
    """Private memory of what waits in the pool: one is taken out, read and discarded."""

    async def take(_count: int) -> list[float]:
        await fill_pool(app)
        sandbox = app.runtime.pool.acquire_nowait(app.runtime.sandbox_spec)
        assert sandbox is not None
        try:
            pid = getattr(sandbox, "host_pid", None)
            assert isinstance(pid, int)
            return [private_megabytes(pid)]
        finally:
            await sandbox.close()

    return take


def _peer(agent: Agent) -> Take:
    """Everything below the agent: kernel, gateway, tool server. The agent itself is its host process and left out."""

    async def take(_count: int) -> list[float]:
        await agent.ask("execute", count=1)
        return [private_megabytes(agent.process.pid, below_only=True)]

    return take
