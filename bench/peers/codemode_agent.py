# pyright: basic, reportMissingImports=false
"""Searches tools with fastmcp's BM25 index for the benchmark, in fastmcp's environment.

Only the ranking is timed. The transform that fastmcp serves it with also digests every tool's text at each query to see
whether the catalog has changed; that is left out, in its favour.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from agent_lines import serve
from fastmcp.server.transforms.search.bm25 import _BM25Index

_HITS = 10


class Agent:
    """One index."""

    def __init__(self) -> None:
        self.index = _BM25Index()

    async def load(self, order: dict[str, Any]) -> dict[str, Any]:
        self.index.build(order["texts"])
        return {}

    async def search(self, order: dict[str, Any]) -> dict[str, Any]:
        seconds: list[float] = []
        for query in order["queries"]:
            started = time.perf_counter()
            hits = self.index.query(query, _HITS)
            seconds.append(time.perf_counter() - started)
            assert hits, query
        return {"seconds": seconds}


async def main() -> None:
    agent = Agent()
    await serve({"load": agent.load, "search": agent.search})


if __name__ == "__main__":
    asyncio.run(main())
