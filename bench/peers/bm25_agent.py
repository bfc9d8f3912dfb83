# pyright: basic, reportMissingImports=false
"""Ranks tools with fastmcp's BM25 search transform, the class as it comes, in fastmcp's own environment.

One JSON object on standard input: `catalogs`, each with `tools` (name, description, schema) and `queries`; one list of
lists of places in `tools` out per catalog. The transform builds its index itself, in its first search. The ranking is
then read by place: two servers may have a tool of one name, which the transform's own answer would take for one tool.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import Tool


async def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    order = json.load(sys.stdin)
    found = []
    for catalog in order["catalogs"]:
        tools = [
            Tool(name=one["name"], description=one["description"], parameters=one["schema"]) for one in catalog["tools"]
        ]
        transform = BM25SearchTransform(max_results=order["depth"])
        await transform._search(tools, "tool")  # noqa: SLF001  what its search tool calls
        found.append([transform._index.query(query, order["depth"]) for query in catalog["queries"]])  # noqa: SLF001
    json.dump(found, answers)
    answers.close()


if __name__ == "__main__":
    asyncio.run(main())
