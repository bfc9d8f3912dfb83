"""Which tools are missing or broken, in sentences for the person who runs code. Never for the code itself."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from moonpool.core.phrases import clip, on_one_line, printable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from moonpool.engine.tool_registry import ToolRegistry
    from moonpool.tools.snapshot import ToolSnapshot


@asynccontextmanager
async def telling_missing_tools(tool_registry: ToolRegistry, say: Callable[[str], None]) -> AsyncGenerator[None]:
    """`tell_missing_tools` while the block runs, and no longer: servers that are being closed are no news."""
    task = asyncio.create_task(tell_missing_tools(tool_registry, say))
    try:
        yield
    finally:
        task.cancel()


async def tell_missing_tools(tool_registry: ToolRegistry, say: Callable[[str], None]) -> None:
    """Wait for the listings, then name every server that cannot be reached or listed broken tools."""
    for remark in remarks_on(await tool_registry.snapshot()):
        say(remark)


def remarks_on(snapshot: ToolSnapshot, *, briefly: bool = False) -> list[str]:
    """One sentence per server that has a problem; `briefly`: one for all whose tools are missing."""
    missing = [missing_server(problem) for problem in snapshot.problems.values()]
    if briefly and missing:
        names = ", ".join(snapshot.problems)
        missing = [
            on_one_line(f"the tools of {names} are missing; `moonpool tools list`, with the same --config, says why")
        ]
    held = sorted(f"{server_id}.{name}" for server_id, name in snapshot.manifest.held)
    paused = [f"{held[0]} is paused, because its server changed it{_and(len(held) - 1)}"] if held else []
    return [
        *missing,
        *(printable(clip(one, 300)) + "; see `moonpool tools drift`" for one in paused),
    ] + [
        f"server {server.server_id!r}: {server.warnings[0]}{_more(len(server.warnings) - 1)}"
        for server in snapshot.manifest.servers
        if server.warnings
    ]


def missing_server(problem: str) -> str:
    """The sentence for a server that cannot be listed, or is left out. SECURITY: it may quote the server."""
    return on_one_line(f"{problem}; its tools are missing")


def _and(count: int) -> str:
    return f", and so are {count} more" if count else ""


def _more(count: int) -> str:
    return f" (and {count} more; `moonpool tools list` says all)" if count else ""
