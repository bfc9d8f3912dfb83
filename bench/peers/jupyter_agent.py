# pyright: basic, reportMissingImports=false
"""Runs a plain Jupyter kernel for the benchmark, in the environment of `jupyter_client` and `ipykernel`."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from agent_lines import serve
from jupyter_client.manager import AsyncKernelManager

_READY_S = 60.0
_ANSWER_S = 60.0


class Agent:
    """One kernel that stays warm."""

    def __init__(self) -> None:
        self.manager = AsyncKernelManager()
        self.client: Any = None

    async def start(self, _order: dict[str, Any]) -> dict[str, Any]:
        self.client = await _started(self.manager)
        return {}

    async def execute(self, order: dict[str, Any]) -> dict[str, Any]:
        """`1+1` until the kernel is idle again, which is when all output has come."""
        seconds: list[float] = []
        for _ in range(order["count"]):
            started = time.perf_counter()
            text = await _execute(self.client, "1+1")
            seconds.append(time.perf_counter() - started)
            assert text == "2", text
        return {"seconds": seconds}

    async def cold(self, _order: dict[str, Any]) -> dict[str, Any]:
        """Another kernel from nothing to its first answer."""
        manager = AsyncKernelManager()
        started = time.perf_counter()
        client = await _started(manager)
        await _execute(client, "1+1")
        elapsed = time.perf_counter() - started
        client.stop_channels()
        await manager.shutdown_kernel(now=True)
        return {"seconds": [elapsed]}

    async def stop(self, _order: dict[str, Any]) -> dict[str, Any]:
        self.client.stop_channels()
        await self.manager.shutdown_kernel(now=True)
        return {}


async def _started(manager: AsyncKernelManager) -> Any:
    # The kernel's own command, so that no kernel of the user's is taken by its name.
    spec = manager.kernel_spec
    assert spec is not None
    spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready(timeout=_READY_S)
    return client


async def _execute(client: Any, code: str) -> str:
    found: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        if message["msg_type"] == "execute_result":
            found.append(message["content"]["data"]["text/plain"])

    await client.execute_interactive(code, output_hook=hear, timeout=_ANSWER_S)
    return "".join(found)


async def main() -> None:
    agent = Agent()
    await serve({name: getattr(agent, name) for name in ("start", "execute", "cold", "stop")})


if __name__ == "__main__":
    asyncio.run(main())
