"""Whole tasks replayed: what an agent that searches with its own words is shown, and what that costs in tokens.

Tasks are rows of `tasks.jsonl`; the searches that an agent really made for them are rows of `agent_queries.jsonl` with
the same `task_id`. Searches without gold count here: the agent made them all the same. Tasks without gold do not.

Coverage: of a task's gold tools, the share named within so many lines when all its searches are asked at once and
answered in turn. Discovery: tokens of one search call per query with as many lines as the MCP face gives (beside it: of
one call with all queries, where a tool is shown once), and of the definitions (stubs) of the tools that the task's run
really executed, each once, plus `FIXED_TOKENS` for three short definitions of our own, as the study counts that the
goal comes from. All in: the same with what a model really pays instead, `face_cost` (bench.tokens): the MCP face's
three definitions and the instructions of its handshake with these servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from bench.retrieval.query_sets import gold_groups
from bench.retrieval.systems import asked_text
from bench.tokens import face_cost
from moonpool.catalog.questions import QUERIES_MAX
from moonpool.catalog.render import ALSO_MAX, hit_lines
from moonpool.catalog.tokens import count_tokens, definition_text
from moonpool.server.mcp.arguments import LIMIT_DEFAULT

if TYPE_CHECKING:
    from bench.retrieval.query_sets import Collection, Key
    from moonpool.catalog.catalog import Catalog

SHOWN: Final = 20
FIXED_TOKENS: Final = 202  # search, definition and run as short tool definitions (measured once, o200k)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Means over the tasks of one collection."""

    tasks: int
    queries: float
    coverage: float
    coverage_as_shown: float  # one call with all searches and the face's default limit
    complete: float
    discovery_tokens: float
    discovery_tokens_p90: float
    discovery_tokens_one_call: float
    discovery_tokens_all_in: float  # with `face_tokens` and `instructions_tokens` in place of `FIXED_TOKENS`
    face_tokens: int  # of the MCP face's own definitions
    instructions_tokens: int  # of the handshake
    upfront_tokens: int


def replay(collection: Collection, catalog: Catalog) -> Replay | None:
    """None where the collection logs no searches of agents."""
    searches = _searches(collection)
    tasks = [row for row in collection.rows.get("tasks", []) if str(row.get("id")) in searches and gold_groups(row)]
    if not tasks:
        return None
    keys = {f"{tool.server_id}/{tool.name}": tool.key for tool in collection.manifest.tools()}
    covered = [_coverage(row, [one["query"] for one in searches[str(row["id"])]], catalog, keys) for row in tasks]
    spent = sorted(_tokens(searches[str(row["id"])], catalog, keys) for row in tasks)
    at_once = [_tokens(searches[str(row["id"])], catalog, keys, at_once=True) for row in tasks]
    face = face_cost(catalog)
    return Replay(
        tasks=len(tasks),
        queries=sum(len(searches[str(row["id"])]) for row in tasks) / len(tasks),
        coverage=sum(covered) / len(tasks),
        coverage_as_shown=sum(
            _coverage(row, [one["query"] for one in searches[str(row["id"])]], catalog, keys, limit=LIMIT_DEFAULT)
            for row in tasks
        )
        / len(tasks),
        complete=sum(one == 1.0 for one in covered) / len(tasks),
        discovery_tokens=sum(spent) / len(tasks),
        discovery_tokens_p90=spent[int(0.9 * len(spent))],
        discovery_tokens_one_call=sum(at_once) / len(tasks),
        discovery_tokens_all_in=sum(spent) / len(tasks) - FIXED_TOKENS + face.definitions + face.instructions,
        face_tokens=face.definitions,
        instructions_tokens=face.instructions,
        upfront_tokens=sum(count_tokens(definition_text(tool)) for tool in collection.manifest.tools()),
    )


def _searches(collection: Collection) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in collection.rows.get("agent_queries", []):
        if str(row.get("query", "")).strip():
            found.setdefault(str(row.get("task_id")), []).append(row)
    return found


def _coverage(
    task: dict[str, Any], queries: list[str], catalog: Catalog, keys: dict[str, Key], *, limit: int = SHOWN
) -> float:
    asked = [asked_text(query) for query in dict.fromkeys(queries)][:QUERIES_MAX]
    hits = catalog.search(asked, limit=limit, detail="name")[:SHOWN]
    shown = {catalog.find_path(path).key for hit in hits for path in (hit.path, *hit.also[:ALSO_MAX])}
    groups = gold_groups(task)
    return sum(any(keys.get(one) in shown for one in group) for group in groups) / max(1, len(groups))


def _tokens(searches: list[dict[str, Any]], catalog: Catalog, keys: dict[str, Key], *, at_once: bool = False) -> int:
    queries = [asked_text(row["query"]) for row in searches]
    calls = [queries[:QUERIES_MAX]] if at_once else [[query] for query in queries]
    spent = FIXED_TOKENS + sum(count_tokens(hit_lines(catalog.search(call, limit=LIMIT_DEFAULT))) for call in calls)
    executed = dict.fromkeys(keys[one] for row in searches for one in _executed(row) if one in keys)
    return spent + sum(count_tokens(catalog.definition(*key)) for key in executed)


def _executed(row: dict[str, Any]) -> list[str]:
    """The tools that the task's run called; other collections may call something else so, or have none."""
    found: Any = row.get("executed")
    return [one for one in cast("list[Any]", found) if isinstance(one, str)] if isinstance(found, list) else []
