"""Group `wrappers`: trees and stubs of published tool lists, and whether the time grows with their number only.

A folder of lists holds one JSON file per server, which is an array of tools, an object with a member `tools`, or a
recorded answer with that object as its `result`. `bench.wrappers` measures anybody's.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bench.peers.company import ECHO
from bench.peers.venvs import PeerMissingError
from bench.sampling import Case, median, take_turns, with_skipped
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.wrappers.stubs import render_stub
from moonpool.wrappers.tree import render_tree

if TYPE_CHECKING:
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World

TOOL_LISTS = Path(__file__).parents[2] / "tests" / "data" / "toollists"
_TIMES = 4
_ECHO_TOOLS = 2


class ListError(Exception):
    """The folder cannot be measured; the text names the file."""


def load_lists(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Raw tools by server. Raises ListError."""
    lists = {path.stem: _read_list(path) for path in sorted(folder.glob("*.json"))}
    if not any(lists.values()):
        raise ListError(f"no tools in {folder}/*.json" if lists else f"no *.json below {folder}")
    return lists


def _read_list(path: Path) -> list[dict[str, Any]]:
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError, OSError) as error:
        raise ListError(f"{path}: no JSON: {error}") from None
    for member in ("result", "tools"):
        if isinstance(found, dict):
            found = cast("dict[str, Any]", found).get(member, found if member == "result" else None)
    if not isinstance(found, list):
        raise ListError(f"{path}: neither an array of tools nor an object with one as 'tools'")
    tools = cast("list[Any]", found)
    seen: set[str] = set()
    for place, tool in enumerate(tools):
        name = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not name:
            raise ListError(f"{path}: tool {place} of the list has no name")
        if name in seen:
            raise ListError(f"{path}: the list has two tools called {name!r}")
        seen.add(name)
    return tools


def manifest_of(lists: dict[str, list[dict[str, Any]]], times: int = 1) -> Manifest:
    """The lists as a manifest, `times` over under other server names."""
    servers: list[ServerListing] = []
    for turn in range(times):
        for name, tools in lists.items():
            server_id = name if turn == 0 else f"{name}-{turn}"
            definitions = tuple(ToolDefinition(server_id=server_id, name=raw["name"], raw=raw) for raw in tools)
            servers.append(ServerListing(server_id=server_id, tools=definitions))
    return Manifest(servers=tuple(servers))


def render_all(lists: dict[str, list[dict[str, Any]]], times: int = 1) -> float:
    """Render tree and stubs of everything, in ms. Manifests are made anew, so that nothing is remembered in them."""
    manifest = manifest_of(lists, times)
    count = sum(1 for _ in manifest.tools())
    gc.collect()  # what others left behind is not this one's time
    started = time.perf_counter()
    tree = render_tree(manifest)
    stubs = [render_stub(tool, names=tree.names) for tool in manifest.tools()]
    elapsed = time.perf_counter() - started
    assert len(stubs) == count
    assert all(stubs)
    assert len(tree.files) >= 2 * count
    return 1000 * elapsed


async def measure(world: World | None, sizes: Sizes, folder: Path = TOOL_LISTS) -> Measured:
    lists = load_lists(folder)

    async def once(count: int) -> list[float]:
        return [render_all(lists) for _ in range(count)]

    async def four_times(count: int) -> list[float]:
        return [render_all(lists, _TIMES) for _ in range(count)]

    cases = [Case(name="wrappers.x1", take=once), Case(name="wrappers.x4", take=four_times)]
    notion = {"notion": lists["notion"]} if "notion" in lists else lists

    async def one_server(count: int) -> list[float]:
        return [render_all(notion) for _ in range(count)]

    cases.append(Case(name="wrappers.notion", take=one_server))
    skipped = await _add_ipybox(cases, world, notion)
    measured = with_skipped(
        await take_turns("wrappers", cases, rounds=sizes.slow_rounds, warm_ups=sizes.warm_ups), skipped
    )
    pairs = zip(measured.rounds["wrappers.x1"], measured.rounds["wrappers.x4"], strict=True)
    linear = [[median(four) / (_TIMES * median(one))] for one, four in pairs]
    return replace(measured, rounds={**measured.rounds, "wrappers.linear": linear})


async def _add_ipybox(cases: list[Case], world: World | None, lists: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """ipybox's generator on the same tools, which it can only get from a running server."""
    if world is None:
        return {}
    tools = world.folder / "listed.json"
    tools.write_text(json.dumps([tool for server in lists.values() for tool in server]), encoding="utf-8")
    count = sum(map(len, lists.values()))
    try:
        agent = await world.peers.agent("ipybox")
    except PeerMissingError as error:
        return {"ipybox.wrappers": str(error)}

    async def generate(_count: int) -> list[float]:
        order = {"command": sys.executable, "args": [str(ECHO)], "env": {"BENCH_EXTRA_TOOLS": str(tools)}}
        answer = await agent.ask("wrappers", **order)
        assert answer["tools"] == count + _ECHO_TOOLS, answer
        return [1000 * seconds for seconds in answer["seconds"]]

    cases.append(Case(name="ipybox.wrappers", take=generate))
    return {}
