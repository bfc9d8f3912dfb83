"""Rows of what is compared with: other products, plain programs, the direct road."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.budgets import RowSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.budgets import Unit


def _peer(what: str, short: str, unit: Unit = "ms") -> RowSpec:
    return RowSpec(title=f"*compared:* {what}", short=short, unit=unit)


COMPARED: Final[Mapping[str, RowSpec]] = {
    "bwrap.python": _peer("`bwrap … python -I -S -c` per execution", "bwrap"),
    "python.plain": _peer("`python -I -S -c`, no isolation", "plain Python"),
    "python.imports": _peer("`python -c 'import numpy,pandas,matplotlib,IPython'`", "importing"),
    "ipybox.execute": _peer("ipybox 0.9.2, `1+1` in its warm kernel, not sandboxed", "ipybox"),
    "ipybox.tool": _peer("ipybox 0.9.2, tool call as code sees it, same server", "ipybox"),
    "ipybox.cold": _peer("ipybox 0.9.2, start to first answer", "ipybox"),
    "ipybox.wrappers": _peer("ipybox 0.9.2, `generate_mcp_sources` for notion's 24 tools", "ipybox"),
    "ipybox.lost": _peer("ipybox 0.9.2, prints that did not come back", "ipybox", "per 10,000"),
    "jupyter.execute": _peer("Jupyter kernel, `1+1`, not sandboxed", "Jupyter"),
    "jupyter.cold": _peer("Jupyter kernel, start to first answer", "Jupyter"),
    "memory.ipybox": _peer("private memory of ipybox's processes, host process left out", "ipybox", "MB"),
    "memory.jupyter": _peer("private memory of a Jupyter kernel", "Jupyter", "MB"),
    "codemode.execute": _peer("fastmcp 4.1 CodeMode over stdio, `return 1 + 1` in Monty", "CodeMode"),
    "codemode.call": _peer("fastmcp 4.1 CodeMode over stdio with one tool call, same server", "CodeMode"),
    "codemode.search": _peer("fastmcp 4.1 BM25 ranking over the same tools", "fastmcp"),
    "tool.direct": _peer("direct `mcp` Client call, same server", "direct"),
    "node.plain": _peer("`node -e`, no isolation", "plain Node"),
    "bash.plain": _peer("`bash -c`, no isolation", "plain Bash"),
    "command.python": _peer("`python -c pass` of the same installation", "plain Python"),
}
