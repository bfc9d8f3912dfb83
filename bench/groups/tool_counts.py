"""Group `counts`: what 1, 100, 1,000 tools cost: the start of an execution, a tool call, showing and writing a tree.

One stdio server offers them all: the tool that is called, and made-up ones with words of published tool lists.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.groups.search import made_up_manifest
from bench.peers.company import ECHO
from bench.sampling import Case, take_turns
from bench.world import timed_run, without_pool
from moonpool.configuration.servers import load_config
from moonpool.engine.code_request import CodeRequest
from moonpool.tools.snapshot import ToolSnapshot, show
from moonpool.wrappers.tree import render_tree

if TYPE_CHECKING:
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.bootstrap import Tenant

_CALLS = """\
import time
from servers.bench import read_only
times = []
for n in range({count}):
    started = time.perf_counter()
    answer = await read_only(n=n)
    times.append(time.perf_counter() - started)
    assert answer["n"] == n + 1, answer
result = times
"""


async def measure(world: World, sizes: Sizes) -> Measured:
    async with AsyncExitStack() as stack:
        cases: list[Case] = []
        for count in sizes.tools:
            config = load_config(_write_config(world.folder, count), {})
            app = await stack.enter_async_context(world.app("base", config=config))
            snapshot = await app.tool_registry.snapshot()
            assert sum(1 for _ in snapshot.manifest.tools()) == count
            cases += _Counted(app=app, snapshot=snapshot).cases(count, sizes)
        return await take_turns("counts", cases, rounds=sizes.slow_rounds, warm_ups=sizes.warm_ups)


def _write_config(folder: Path, count: int) -> Path:
    """A configuration of one server with `count` tools in all."""
    extra = [tool.raw for tool in made_up_manifest(count - 1).tools()] if count > 1 else []
    tools = folder / f"extra-{count}.json"
    tools.write_text(json.dumps([{**raw, "name": f"{raw['name']}_{n}"} for n, raw in enumerate(extra)]), "utf-8")
    entry: dict[str, Any] = {
        "command": sys.executable,
        "args": [str(ECHO)],
        "env": {"BENCH_ONLY": "read_only", "BENCH_EXTRA_TOOLS": str(tools)},
        "moonpool": {"trusted": True, "allow": ["*"]},
    }
    path = folder / f"servers-{count}.json"
    path.write_text(json.dumps({"mcpServers": {"bench": entry}}), encoding="utf-8")
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """One application, and what is measured in it."""

    app: Tenant
    snapshot: ToolSnapshot

    def cases(self, count: int, sizes: Sizes) -> list[Case]:
        return [
            Case(name=f"tools.start.{count}", take=self._start, per_round=sizes.fresh),
            Case(name=f"tools.call.{count}", take=self._call, per_round=sizes.calls),
            Case(name=f"tools.publish.{count}", take=self._publish, per_round=2),
            Case(name=f"tools.render.{count}", take=self._render),
        ]

    async def _start(self, count: int) -> list[float]:
        runtime = without_pool(self.app)
        return [await timed_run(runtime, self.app) for _ in range(count)]

    async def _call(self, count: int) -> list[float]:
        runtime = without_pool(self.app)
        envelope = await runtime.run(CodeRequest(code=_CALLS.format(count=count).encode()), self.app.caller_grant)
        assert envelope.error is None, envelope.error
        times: Any = envelope.data
        assert len(times) == count
        return [1000 * seconds for seconds in times]

    async def _publish(self, count: int) -> list[float]:
        """A tree that is on disk, shown in a sandbox that had none."""
        samples: list[float] = []
        for _ in range(count):
            sandbox = await self.app.engine.backend.open_sandbox(self.app.runtime.sandbox_spec)
            try:
                started = time.perf_counter()
                await show(sandbox, self.snapshot)
                samples.append(1000 * (time.perf_counter() - started))
                assert sandbox.shows(self.snapshot.digest)
            finally:
                await sandbox.close()
        return samples

    async def _render(self, count: int) -> list[float]:
        """From a manifest to files."""
        return [_write_files(self.snapshot) for _ in range(count)]


def _write_files(snapshot: ToolSnapshot) -> float:
    folder = Path(tempfile.mkdtemp(prefix="moonpool-bench-tree-"))
    try:
        started = time.perf_counter()
        for name, content in render_tree(snapshot.manifest).files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return 1000 * (time.perf_counter() - started)
    finally:
        shutil.rmtree(folder)
