"""Group `search`: the catalog's search over 8,500 made-up tools whose words come from published tool lists.

Each made-up tool mixes the name, description and parameters of three real ones, so that the vocabulary is as large and
as unevenly used as in life. The seed is fixed: every run searches the same catalog.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, cast

from bench.groups.wrapper_trees import TOOL_LISTS, load_lists
from bench.peers.venvs import PeerMissingError
from bench.sampling import Case, take_turns, with_skipped
from moonpool.catalog.catalog import Catalog
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition

if TYPE_CHECKING:
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World

_PER_SERVER = 17
_QUERY_WORDS = 5


def made_up_manifest(tool_count: int) -> Manifest:
    """A manifest of `tool_count` tools on a seventeenth as many servers."""
    chance = random.Random(8500)  # noqa: S311  the same catalog every time
    real = [tool for tools in load_lists(TOOL_LISTS).values() for tool in tools]
    servers: list[ServerListing] = []
    for first in range(0, tool_count, _PER_SERVER):
        server_id = f"server-{first // _PER_SERVER}"
        tools = tuple(
            _made_up_tool(server_id, number, chance, real) for number in range(min(_PER_SERVER, tool_count - first))
        )
        servers.append(ServerListing(server_id=server_id, tools=tools))
    return Manifest(servers=tuple(servers))


def _made_up_tool(server_id: str, number: int, chance: random.Random, real: list[dict[str, Any]]) -> ToolDefinition:
    one, two, three = chance.sample(real, 3)
    words = one["name"].replace("-", "_").split("_")[:2] + two["name"].replace("-", "_").split("_")[-1:]
    name = "_".join([*words, str(number)])
    sentences = (one.get("description") or "").split(". ")[:2] + (two.get("description") or "").split(". ")[-1:]
    raw = {"name": name, "description": ". ".join(sentences), "inputSchema": three["inputSchema"]}
    return ToolDefinition(server_id=server_id, name=name, raw=raw)


def questions(manifest: Manifest, count: int) -> list[tuple[str, str]]:
    """Queries of some words out of a tool's name and description, each with that tool's name."""
    chance = random.Random(241)  # noqa: S311
    asked: list[tuple[str, str]] = []
    for tool in chance.sample(list(manifest.tools()), count):
        words = [*tool.name.split("_")[:-1], *tool.description.split()]
        kept = [word for word in words if word.strip(".,:()").isalpha()][: 3 * _QUERY_WORDS]
        asked.append((" ".join(chance.sample(kept, min(_QUERY_WORDS, len(kept)))) or tool.name, tool.name))
    return asked


async def measure(world: World, sizes: Sizes) -> Measured:
    manifest = made_up_manifest(sizes.catalog_tools)
    catalog = Catalog(manifest)
    asked = questions(manifest, 200)

    async def take(count: int) -> list[float]:
        samples: list[float] = []
        for query, _ in random.sample(asked, count):
            started = time.perf_counter()
            hits = catalog.search(query)
            samples.append(1000 * (time.perf_counter() - started))
            assert 1 <= len(hits) <= 10, query
        return samples

    cases = [Case(name="search", take=take, per_round=sizes.searches)]
    skipped = await _add_bm25(cases, world, manifest, [query for query, _ in asked], sizes)
    measured = with_skipped(await take_turns("search", cases, rounds=sizes.rounds, warm_ups=sizes.warm_ups), skipped)
    hit = sum(1 for query, name in asked if any(one.entry.tool_name == name for one in catalog.search(query)))
    assert hit >= len(asked) // 4, f"only {hit} of {len(asked)} queries found the tool that their words came from"
    return measured


async def _add_bm25(
    cases: list[Case], world: World, manifest: Manifest, queries: list[str], sizes: Sizes
) -> dict[str, str]:
    """fastmcp's ranking over the same tools and queries."""
    try:
        agent = await world.peers.agent("codemode")
        await agent.ask("load", texts=[_searchable(tool) for tool in manifest.tools()])
    except PeerMissingError as error:
        return {"codemode.search": str(error)}

    async def take(count: int) -> list[float]:
        return await agent.times_ms("search", queries=random.sample(queries, count))

    cases.append(Case(name="codemode.search", take=take, per_round=max(1, sizes.searches // 4)))
    return {}


def _searchable(tool: ToolDefinition) -> str:
    """A tool's words as fastmcp gathers them: name, description, parameters and their descriptions."""
    schema: Any = tool.raw["inputSchema"]
    properties: dict[str, Any] = schema.get("properties") or {}
    words = [tool.name, tool.description]
    for name, shape in properties.items():
        words += [name, str(cast("dict[str, Any]", shape).get("description", "")) if isinstance(shape, dict) else ""]
    return " ".join(words)
