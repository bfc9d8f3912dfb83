# pyright: basic, reportMissingImports=false
"""Spawns, runs and kills sandboxes of the prototype that the zygote backend came from: `prototype_agent.py FOLDER`.

FOLDER holds a copy of the prototype with `cellspawn.so` built. All namespaces, limits and its filter; no control group.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = sys.argv[1]
os.environ["SITE_PACKAGES"] = FOLDER  # the prototype binds it; nothing in it is imported
sys.path[:0] = [str(Path(__file__).resolve().parent), FOLDER]

from agent_lines import serve  # noqa: E402
from sup import Zygote  # noqa: E402

_NAMESPACES = ["user", "mnt", "pid", "ipc", "uts", "cgroup", "net"]
_LIMITS = {"AS": 2 << 30, "NPROC": 64, "NOFILE": 256, "CORE": 0, "MEMLOCK": 0, "CPU": 60}


class Agent:
    """One zygote."""

    def __init__(self) -> None:
        self.zygote: Any = None

    async def start(self, _order: dict[str, Any]) -> dict[str, Any]:
        self.zygote = Zygote("bare")
        return {}

    async def fresh(self, order: dict[str, Any]) -> dict[str, Any]:
        seconds = []
        for _ in range(order["count"]):
            started = time.perf_counter()
            cell = self.zygote.spawn(mode="c", ns=_NAMESPACES, limits=_LIMITS, memcg=False)
            answer = cell.run("result = 1+1")
            seconds.append(time.perf_counter() - started)
            assert answer == {"ok": True, "value": 2}, answer
            cell.close()
        return {"seconds": seconds}


async def main() -> None:
    agent = Agent()
    try:
        await serve({"start": agent.start, "fresh": agent.fresh})
    finally:
        if agent.zygote is not None:
            agent.zygote.close()


if __name__ == "__main__":
    asyncio.run(main())
