"""`python -m bench.tokens`: what tools cost a model in each form, and what it reads and writes in whole tasks (o200k).

The lists are those of `bench.wrappers`. Every form holds the same tools; the last three hold less about each. The tasks
(`bench.conversations`) are done through Moonpool and through fastmcp's CodeMode, over the same servers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.conversations.meter import ScriptError
from bench.conversations.run import compare, task_table
from bench.groups.wrapper_trees import TOOL_LISTS, ListError, load_lists, manifest_of
from bench.peers.venvs import PeerMissingError
from bench.sampling import median
from bench.world import prepare_environment
from moonpool.catalog.catalog import Catalog
from moonpool.catalog.entries import CatalogEntry, Hit
from moonpool.catalog.render import hit_line
from moonpool.catalog.tokens import count_tokens, definition_text
from moonpool.server.mcp.definitions import TOOLS, model_view
from moonpool.server.mcp.instructions import instructions

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.conversations.run import Compared
    from moonpool.core.manifest import ToolDefinition

BUDGET: Final = 0.70
"""Stubs, as a share of the tokens of `tools/list` (issue 5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceCost:
    """What a model pays for the MCP face before it asks anything."""

    definitions: int  # of the three tools
    instructions: int  # of the handshake, which names the servers of the catalog


def face_cost(catalog: Catalog) -> FaceCost:
    return FaceCost(
        definitions=sum(count_tokens(_minified(model_view(tool))) for tool in TOOLS),
        instructions=count_tokens(instructions(catalog.servers())),
    )


def forms(catalog: Catalog) -> dict[str, Callable[[ToolDefinition], str]]:
    return {
        "tools/list JSON": lambda tool: _minified(tool.raw),
        "OpenAI function JSON": lambda tool: _minified(
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
            }
        ),
        "Messages API JSON": definition_text,
        "stub": lambda tool: catalog.definition(tool.server_id, tool.name),
        "search line": lambda tool: hit_line(
            Hit(entry=CatalogEntry.of(tool), path=catalog.path(tool), score=1.0, query_index=0)
        ),
        "path": catalog.path,
        "name": lambda tool: tool.name,
    }


def measure(lists: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, list[int]]]:
    """Tokens of every tool, by form and server."""
    manifest = manifest_of(lists)
    catalog = Catalog(manifest)
    return {
        form: {server.server_id: [count_tokens(render(tool)) for tool in server.tools] for server in manifest.servers}
        for form, render in forms(catalog).items()
    }


def summary(found: dict[str, dict[str, list[int]]]) -> dict[str, dict[str, float]]:
    whole = sum(map(sum, found["tools/list JSON"].values()))
    return {
        form: {
            "total": sum(map(sum, servers.values())),
            "median": median([float(count) for counts in servers.values() for count in counts]),
            "share": round(sum(map(sum, servers.values())) / whole, 3),
        }
        for form, servers in found.items()
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tokens", description="What models read and write.")
    parser.add_argument("--only", choices=["forms", "tasks"], help="one of the two parts")
    parser.add_argument("--toollists", type=Path, default=TOOL_LISTS, metavar="DIR")
    parser.add_argument("--no-peers", action="store_true", help="the tasks through Moonpool alone")
    parser.add_argument("--quick", action="store_true", help="leave out CodeMode with a limit for its search")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="write all that the tasks' models read into FILE")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    said: dict[str, Any] = {}
    if options.only != "tasks":
        try:
            said |= _forms(options.toollists, quiet=options.json)
        except ListError as error:
            parser.error(str(error))
    ended = True
    if options.only != "forms":
        try:
            compared = asyncio.run(_tasks(options))
        except (PeerMissingError, ScriptError) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
        said["tasks"] = compared.to_json()
        ended = compared.all_right()
        if not options.json:
            print("\n".join(task_table(compared)))
    if options.json:
        print(json.dumps(said))
    return 0 if ended else 1


async def _tasks(options: argparse.Namespace) -> Compared:
    await prepare_environment("base")
    texts: list[str] = []
    compared = await compare(peers=not options.no_peers, quick=options.quick, show=texts.append)
    if options.texts is not None:
        options.texts.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return compared


def _forms(folder: Path, *, quiet: bool) -> dict[str, Any]:
    """The first part, printed unless `quiet`. Raises ListError."""
    lists = {name: tools for name, tools in load_lists(folder).items() if tools}
    found = measure(lists)
    totals = summary(found)
    stubs = {
        server: round(sum(counts) / sum(found["tools/list JSON"][server]), 3)
        for server, counts in found["stub"].items()
    }
    tools = sum(map(len, lists.values()))
    face = face_cost(Catalog(manifest_of(lists)))
    if not quiet:
        print(f"{tools} tools of {len(lists)} servers; tokens: o200k\n")
        print(f"{'form':24}{'total':>10}{'median':>8}{'of JSON':>9}")
        for form, one in totals.items():
            print(f"{form:24}{one['total']:10.0f}{one['median']:8.0f}{one['share']:9.3f}")
        print(f"\nthe MCP face: {face.definitions} for its three tools, {face.instructions} for its instructions")
        print(f"stubs: {totals['stub']['share']:.3f} of the JSON's tokens, budget {BUDGET:.2f}")
        for server, share in sorted(stubs.items(), key=lambda item: -item[1]):
            print(f"  {server:30}{len(lists[server]):5} tools{share:8.3f}")
        print()
    return {"tools": tools, "servers": len(lists), "forms": totals, "stub_share": stubs, "face": asdict(face)}


def _minified(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main())
