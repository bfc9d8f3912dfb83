"""`python -m bench.wrappers --toollists DIR [--json]`: time the wrappers and stubs of a folder of tool lists.

What the files look like: `bench.groups.wrapper_trees`. Whether the time grows with the number only is read off the same
lists four times over; of many tools, off a quarter of them, which takes less long. What takes long is measured less
often than was asked; `rounds` says how often it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.groups.wrapper_trees import TOOL_LISTS, ListError, load_lists, manifest_of, render_all
from bench.sampling import median, percentile
from moonpool.catalog.tokens import count_tokens
from moonpool.wrappers.stubs import render_stub
from moonpool.wrappers.tree import render_tree

if TYPE_CHECKING:
    from moonpool.core.manifest import Manifest

_TIMES: Final = 4
_MANY_TOOLS: Final = 1_000
_SECONDS_MAX: Final = 30.0  # after so many no other round begins


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.wrappers", description="Time wrappers of tool lists.")
    parser.add_argument("--toollists", type=Path, default=TOOL_LISTS, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    try:
        lists = load_lists(options.toollists)
    except ListError as error:
        parser.error(str(error))
    found = _measured(lists, options.rounds)
    if options.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:12} {value}")
    return 0


def _measured(lists: dict[str, list[dict[str, Any]]], rounds: int) -> dict[str, Any]:
    count = sum(map(len, lists.values()))
    several, times = (lists, _TIMES) if count <= _MANY_TOOLS else (_quarter(lists), 1)
    share = times * sum(map(len, several.values())) / count
    whole: list[float] = []
    linear: list[float] = []
    until = time.monotonic() + _SECONDS_MAX
    render_all(several)  # everything imported and warm
    while not whole or (len(whole) < rounds and time.monotonic() < until):
        whole.append(render_all(lists))
        per_tool = render_all(several, times) / share / whole[-1]
        linear.append(per_tool if share > 1 else 1 / per_tool)
    return {
        "tools": count,
        "servers": len(lists),
        "rounds": len(whole),
        "ms_p50": round(median(whole), 1),
        "ms_p95": round(percentile(whole, 0.95), 1),
        "ms_min": round(min(whole), 1),
        "linear": round(median(linear), 3),
        **_token_share(manifest_of(lists)),
    }


def _quarter(lists: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Every fourth tool of all, so that large and small ones are in it as in the whole."""
    tools = [(server, tool) for server, found in lists.items() for tool in found]
    kept: dict[str, list[dict[str, Any]]] = {}
    for server, tool in tools[::_TIMES]:
        kept.setdefault(server, []).append(tool)
    return kept


def _token_share(manifest: Manifest) -> dict[str, float]:
    """Stubs beside `tools/list`, in o200k tokens; other forms: `python -m bench.tokens`."""
    names = render_tree(manifest).names
    tools = list(manifest.tools())
    whole = sum(count_tokens(json.dumps(tool.raw, ensure_ascii=False, separators=(",", ":"))) for tool in tools)
    stubs = sum(count_tokens(render_stub(tool, names=names)) for tool in tools)
    return {"json_tokens": whole, "stub_tokens": stubs, "stub_share": round(stubs / whole, 3)}


if __name__ == "__main__":
    sys.exit(main())
