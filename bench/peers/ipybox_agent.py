# pyright: basic, reportMissingImports=false
"""Runs ipybox for the benchmark, in ipybox's environment: `python ipybox_agent.py FOLDER`.

SECURITY: `sandbox=False`, because its sandbox does not start on Linux. It runs nothing but the lines below.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from agent_lines import serve
from ipybox import CodeExecutor, generate_mcp_sources

_CALLS = """\
import json, sys, time
sys.path.insert(0, {folder!r})
from mcptools.bench import read_only
times = []
for n in range({count}):
    started = time.perf_counter()
    answer = read_only.run(read_only.Params(n=n))
    times.append(time.perf_counter() - started)
    assert answer.n == n + 1, answer
open({file!r}, "w").write(json.dumps(times))
"""
_FIGURE_SET_UP = "import matplotlib.pyplot as plt"
_FIGURE = "plt.plot([1, 2, 3])\nplt.show()"
FOLDER = Path(sys.argv[1])


def open_executor() -> CodeExecutor:
    env = {"PYTHONPATH": str(FOLDER), "HOME": str(FOLDER), "PATH": os.environ["PATH"]}
    return CodeExecutor(kernel_env=env, working_dir=FOLDER, images_dir=FOLDER / "images", sandbox=False)


class Agent:
    """One executor whose kernel stays warm."""

    def __init__(self) -> None:
        self.executor = open_executor()
        self.further: list[CodeExecutor] = []

    async def start(self, order: dict[str, Any]) -> dict[str, Any]:
        """Start the executor that stays, and generate wrappers for the echo server."""
        server = {"command": order["command"], "args": order["args"]}
        await generate_mcp_sources("bench", server, FOLDER / "mcptools")
        await self.executor.start()
        return {}

    async def execute(self, order: dict[str, Any]) -> dict[str, Any]:
        """`1+1` in the warm kernel. What was asked for does not always come back: that is counted."""
        seconds: list[float] = []
        lost = 0
        for _ in range(order["count"]):
            started = time.perf_counter()
            answer = await self.executor.execute("1+1")
            seconds.append(time.perf_counter() - started)
            assert answer.text in {"2", None}, answer.text
            lost += answer.text is None
        return {"seconds": seconds, "lost": lost}

    async def outputs(self, order: dict[str, Any]) -> dict[str, Any]:
        """How many of `count` prints did not come back."""
        lost = 0
        for number in range(order["count"]):
            answer = await self.executor.execute(f"print('n{number}')")
            lost += (answer.text or "").strip() != f"n{number}"
        return {"lost": lost}

    async def tool(self, order: dict[str, Any]) -> dict[str, Any]:
        """Tool calls as code sees them. Through a file, as a print may be lost."""
        file = FOLDER / "times.json"
        file.unlink(missing_ok=True)
        await self.executor.execute(_CALLS.format(folder=str(FOLDER), count=order["count"], file=str(file)))
        return {"seconds": json.loads(file.read_text(encoding="utf-8"))}

    async def cold(self, _order: dict[str, Any]) -> dict[str, Any]:
        """Another executor from nothing to its first answer."""
        started = time.perf_counter()
        async with open_executor() as executor:
            await executor.execute("1+1")
            return {"seconds": [time.perf_counter() - started]}

    async def figure(self, order: dict[str, Any]) -> dict[str, Any]:
        """A figure from plot to PNG. One that does not come back is counted."""
        seconds: list[float] = []
        lost = 0
        await self.executor.execute(_FIGURE_SET_UP)
        for _ in range(order["count"]):
            started = time.perf_counter()
            answer = await self.executor.execute(_FIGURE)
            seconds.append(time.perf_counter() - started)
            lost += len(answer.images) != 1
        return {"seconds": seconds, "lost": lost}

    async def reset(self, _order: dict[str, Any]) -> dict[str, Any]:
        """A new kernel, until its first answer."""
        started = time.perf_counter()
        await self.executor.reset()
        await self.executor.execute("1+1")
        return {"seconds": [time.perf_counter() - started]}

    async def open_further(self, order: dict[str, Any]) -> dict[str, Any]:
        """So many more executors, each after a figure."""
        for _ in range(order["count"]):
            self.further.append(open_executor())
            await self.further[-1].start()
            await self.further[-1].execute(f"{_FIGURE_SET_UP}\n{_FIGURE}")
        return {}

    async def close_further(self, _order: dict[str, Any]) -> dict[str, Any]:
        """End them."""
        while self.further:
            await self.further.pop().stop()
        return {}

    async def install(self, order: dict[str, Any]) -> dict[str, Any]:
        """What its `install_package` runs, for a package that was taken away before."""
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        index = {**os.environ, "PIP_INDEX_URL": order["index"]}
        run = partial(subprocess.run, check=True, stdout=sys.stderr, env=index)
        if importlib.util.find_spec("pip") is None:
            run([sys.executable, "-m", "ensurepip"])
        run([*pip, "uninstall", "--yes", order["package"]])
        started = time.perf_counter()
        run([*pip, "install", "--no-input", order["package"]])
        return {"seconds": [time.perf_counter() - started]}

    async def wrappers(self, order: dict[str, Any]) -> dict[str, Any]:
        """Generate wrappers for another server; its start is part of it, as ipybox offers no other way."""
        started = time.perf_counter()
        server = {"command": order["command"], "args": order["args"], "env": order["env"]}
        names = await generate_mcp_sources("listed", server, FOLDER / "generated")
        return {"seconds": [time.perf_counter() - started], "tools": len(names)}

    async def stop(self, _order: dict[str, Any]) -> dict[str, Any]:
        await self.executor.stop()
        return {}


async def main() -> None:
    agent = Agent()
    names = ["start", "execute", "outputs", "tool", "figure", "reset", "cold", "install", "wrappers", "stop"]
    names += ["open_further", "close_further"]
    await serve({name: getattr(agent, name) for name in names})


if __name__ == "__main__":
    asyncio.run(main())
