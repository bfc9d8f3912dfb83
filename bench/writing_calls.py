"""What a writing tool call adds at the service: its intent, on disk before the call leaves. SQLite beside PostgreSQL.

Guest code calls a tool that reads and one that changes something, of the same server, in turns; both are recorded once
they have ended. A sample is the median of what one more writing call took than the reading one beside it.
"""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from bench.groups.toolcalls import write_config
from bench.http_service import PLAIN, call, connected, served
from bench.sampling import Case, median, take_turns

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from postgres import new_server

if TYPE_CHECKING:
    from bench.http_service import HttpClient
    from bench.sampling import Measured
    from bench.world import World

GOALS_MS: Final = {"SQLite": 1.5, "PostgreSQL": 2.0}
"""Issue 16."""
_PAIRS: Final = 20
_CODE: Final = f"""\
import time
from servers.bench import read_only, writing
added = []
for n in range({_PAIRS}):
    took = []
    for tool in (read_only, writing):
        started = time.perf_counter()
        answer = await tool(n=n)
        took.append(time.perf_counter() - started)
        assert answer["n"] == n + 1, answer
    added.append(1000 * (took[1] - took[0]))
result = added
"""


async def added_by_writing(world: World, rounds: int) -> Measured:
    """Milliseconds by store, which take turns."""
    config = write_config(world.folder, allow=("read_only", "writing"))
    async with AsyncExitStack() as stack:
        urls = {"SQLite": ""}
        try:
            urls["PostgreSQL"] = stack.enter_context(new_server()).url()
        except pytest.skip.Exception as missing:
            print(f"bench: {missing}", file=sys.stderr)
        ports: dict[str, int] = {}
        for store, url in urls.items():
            service = served(world, f"writing-{store}", config=config, database_url=url)
            ports[store], _ = await stack.enter_async_context(service)
        cases = [
            Case(name=store, take=partial(_added, await stack.enter_async_context(connected(port))))
            for store, port in ports.items()
        ]
        return await take_turns("writing", cases, rounds=rounds)


async def _added(client: HttpClient, count: int) -> list[float]:
    found: list[float] = []
    for _ in range(count):
        status, answer = await client.post("/mcp", call(_CODE, session="writing"), PLAIN)
        assert status == 200, answer
        told: dict[str, Any] = answer["result"]["structuredContent"]
        assert told["ok"], told
        found.append(median(told["data"]))
    return found
