"""Group `tools`: tool calls from guest code through the broker, beside a direct client of the same server and ipybox.

What Moonpool adds is, round by round, the median that guest code sees less the median of the direct client's calls.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.peers.company import ECHO
from bench.peers.venvs import PeerMissingError
from bench.sampling import Case, median, take_turns, with_skipped
from bench.world import without_pool
from moonpool.configuration.servers import load_config
from moonpool.engine.code_request import CodeRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench.peers.agents import Agent
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.configuration.servers import McpConfig

SERVER = ECHO

_GUEST_CODE = """\
import time
from servers.bench import {tool} as tool
times = []
for n in range({count}):
    started = time.perf_counter()
    answer = await tool(n=n)
    times.append(time.perf_counter() - started)
    assert answer["n"] == n + 1, answer
result = times
"""


def write_config(
    folder: Path,
    names: tuple[str, ...] = ("bench",),
    env: Mapping[str, str] | None = None,
    allow: tuple[str, ...] = ("*",),
) -> Path:
    """A configuration in which each of `names` is the echo server. `*` asks about `writing`, which is destructive."""
    entry = {
        "command": sys.executable,
        "args": [str(SERVER)],
        "env": dict(env or {}),
        "moonpool": {"trusted": True, "allow": list(allow)},
    }
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": dict.fromkeys(names, entry)}), encoding="utf-8")
    return path


def read_config(path: Path) -> McpConfig:
    return load_config(path, {})


async def measure(world: World, sizes: Sizes) -> Measured:
    from mcp import Client, StdioServerParameters  # noqa: PLC0415  costs a second
    from mcp.client.stdio import stdio_client  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(world.app("base", config=read_config(write_config(world.folder))))
        runtime = without_pool(app)
        session = runtime.session(app.caller_grant)
        stack.push_async_callback(runtime.close)
        server = StdioServerParameters(command=sys.executable, args=[str(SERVER)])
        client = await stack.enter_async_context(Client(stdio_client(server)))

        async def from_guest(tool: str, count: int) -> list[float]:
            code = _GUEST_CODE.format(tool=tool, count=count)
            envelope = await session.execute(CodeRequest(code=code.encode()))
            assert envelope.error is None, envelope.error
            assert envelope.metrics["tool_calls"] == count, envelope.metrics
            times: Any = envelope.data
            return [1000 * seconds for seconds in times]

        async def direct(count: int) -> list[float]:
            samples: list[float] = []
            for n in range(count):
                started = time.perf_counter()
                answer = await client.call_tool("read_only", {"n": n})
                samples.append(1000 * (time.perf_counter() - started))
                assert answer.structured_content == {"n": n + 1}
            return samples

        cases = [
            Case(name="tool.guest.read_only", take=lambda n: from_guest("read_only", n), per_round=sizes.calls),
            Case(name="tool.guest.writing", take=lambda n: from_guest("writing", n), per_round=sizes.calls),
            Case(name="tool.direct", take=direct, per_round=sizes.calls),
        ]
        missing: dict[str, str] = {}
        try:
            agent = await world.peers.agent("ipybox")
            take = partial(_ipybox_calls, agent)
            cases.append(Case(name="ipybox.tool", take=take, per_round=max(1, sizes.calls // 4)))
        except PeerMissingError as error:
            missing["ipybox.tool"] = str(error)
        return with_skipped(
            with_added(await take_turns("tools", cases, rounds=sizes.rounds, warm_ups=sizes.warm_ups)), missing
        )


async def _ipybox_calls(agent: Agent, count: int) -> list[float]:
    return await agent.times_ms("tool", count=count)


def with_added(measured: Measured) -> Measured:
    """Add what Moonpool adds: one sample per round."""
    rounds = dict(measured.rounds)
    for kind in ("read_only", "writing"):
        pairs = zip(rounds[f"tool.guest.{kind}"], rounds["tool.direct"], strict=True)
        rounds[f"tool.added.{kind}"] = [[median(guest) - median(direct)] for guest, direct in pairs]
    return replace(measured, rounds=rounds)
