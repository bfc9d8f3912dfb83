"""How long a changed tool list takes: from the answer of the call that changed it to what code is shown."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.sampling import median
from moonpool.configuration.servers import parse_config
from moonpool.engine.code_request import CodeRequest
from moonpool.tools.relisting import PER_MINUTE_MAX

if TYPE_CHECKING:
    from bench.world import World

TOTAL: Final = "a tool is added, the server says so: until its wrapper is current"
ASKED: Final = "a tool is added, nobody says so, the server is asked: until its wrapper is current"
WAYS: Final = ("list_changed", "listen", "refresh")
_SERVER = Path(__file__).parents[1] / "servers" / "changing.py"
_CODE = "from servers.box import change\nawait change(name={name!r})"
_TIMEOUT_S = 30
_ROUNDS_MAX: Final = PER_MINUTE_MAX - 5
"""A server that changes its tools more often is made to wait."""


async def measure_changes(world: World, how: str, rounds: int) -> dict[str, float]:
    """Median ms of one of `WAYS`. Each round adds one tool; what is shown afterwards is checked.

    With `refresh` it is what one turn of `refresh_s` takes, not how long its turn is waited for.
    """
    entry = {"command": sys.executable, "args": [str(_SERVER), how], "moonpool": {"allow": ["*"]}}
    config = parse_config(json.dumps({"mcpServers": {"box": entry}}).encode(), source="bench", environ={})
    samples: list[float] = []
    async with world.app("base", config=config) as app:
        session = app.runtime.session(app.caller_grant)
        await app.tool_registry.snapshot()
        for number in range(min(rounds, _ROUNDS_MAX)):
            name = f"added_{number}"
            envelope = await session.execute(CodeRequest(code=_CODE.format(name=name).encode()))
            started = time.perf_counter()
            assert envelope.error is None, envelope.error
            if how == "refresh":
                await app.tool_registry.refresh("box")
            async with asyncio.timeout(_TIMEOUT_S):
                while (now := app.tool_registry.current) is None or now.manifest.find("box", name) is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.0005)
            samples.append(1000 * (time.perf_counter() - started))
        await session.close()
    return {ASKED if how == "refresh" else TOTAL: median(samples)}
