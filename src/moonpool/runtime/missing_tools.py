"""Which tools are missing or broken, in sentences for the person who runs code. Never for the code itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.runtime.tools import Toolbox, ToolSnapshot


async def tell_missing_tools(toolbox: Toolbox, say: Callable[[str], None]) -> None:
    """Wait for the listings, then name every server that cannot be reached or listed broken tools."""
    for remark in remarks_on(await toolbox.snapshot()):
        say(remark)


def remarks_on(snapshot: ToolSnapshot) -> list[str]:
    """One sentence per server that has a problem."""
    missing = [f"{problem}; its tools are missing" for problem in snapshot.problems.values()]
    return missing + [
        f"server {server.server_id!r}: {server.warnings[0]}{_more(len(server.warnings) - 1)}"
        for server in snapshot.manifest.servers
        if server.warnings
    ]


def _more(count: int) -> str:
    return f" (and {count} more; `moonpool tools list` says all)" if count else ""
