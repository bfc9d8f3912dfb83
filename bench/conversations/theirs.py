"""What a model says to CodeMode: the same programs, as its description of `execute` asks for them.

Its search gives all that fits unless it is told a limit; `scripts(limit=5)` is a model that thinks of it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bench.conversations.meter import FOLDER, Script, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _last(texts: Sequence[str]) -> Any:
    return json.loads(texts[-1])


def _both_halves(texts: Sequence[str]) -> Any:
    halves = [json.loads(text) for text in texts[-2:]]
    return {"added": sum(half["added"] for half in halves), "largest": max(half["largest"] for half in halves)}


def _script(
    queries: list[str],
    tools: list[str],
    *codes: str,
    limit: int | None,
    fails: int = 0,
    answer: Callable[[Sequence[str]], Any] = _last,
) -> Script:
    """`fails`: so many of the programs fail before others do it."""
    narrowed = {} if limit is None else {"limit": limit}
    programs = [
        Turn(tool="execute", arguments={"code": code.replace("FOLDER", FOLDER)}, fails=place < fails)
        for place, code in enumerate(codes)
    ]
    return Script(
        turns=(
            *(Turn(tool="search", arguments={"query": query, **narrowed}) for query in queries),
            Turn(tool="get_schema", arguments={"tools": tools}),
            *programs,
        ),
        answer=answer,
    )


_REVENUE = """\
listing = await call_tool("filesystem_list_directory", {"path": "FOLDER/sales"})
revenue = {}
for line in listing["content"].splitlines():
    name = line.removeprefix("[FILE] ")
    if not name.endswith(".csv"):
        continue
    file = await call_tool("filesystem_read_text_file", {"path": f"FOLDER/sales/{name}"})
    for row in file["content"].splitlines()[1:]:
        date, region, product, units, price = row.split(",")
        revenue[region] = revenue.get(region, 0) + int(units) * float(price)
return {region: round(total, 2) for region, total in revenue.items()}
"""
_GRAPH = """\
folder = "FOLDER/documents"
listing = await call_tool("filesystem_list_directory", {"path": folder})
entities, relations, authors = [], [], set()
for line in listing["content"].splitlines():
    name = line.removeprefix("[FILE] ")
    if not name.endswith(".md"):
        continue
    note = name.removesuffix(".md")
    entities.append({"name": note, "entityType": "note", "observations": []})
    file = await call_tool("filesystem_read_text_file", {"path": f"{folder}/{name}"})
    for line in file["content"].splitlines():
        if line.startswith("Author: "):
            author = line.removeprefix("Author: ")
            authors.add(author)
            relations.append({"from": author, "to": note, "relationType": "wrote"})
        elif line.startswith("Cites: "):
            for cited in line.removeprefix("Cites: ").split(", "):
                relations.append({"from": note, "to": cited, "relationType": "cites"})
entities += [{"name": author, "entityType": "person", "observations": []} for author in sorted(authors)]
made = await call_tool("memory_create_entities", {"entities": entities})
related = await call_tool("memory_create_relations", {"relations": relations})
return {"entities": len(made["entities"]), "relations": len(related["relations"])}
"""
_COMMITS = """\
import re

repo = "FOLDER/project"
log = await call_tool("git_git_log", {"repo_path": repo, "max_count": 1000})
added = []
for commit in re.findall(r"\\b[0-9a-f]{40}\\b", log)SLICE:
    shown = await call_tool("git_git_show", {"repo_path": repo, "revision": commit})
    lines = shown.splitlines()
    added.append(len([line for line in lines if line.startswith("+") and not line.startswith("+++")]))
return {"added": sum(added), "largest": max(added)}
"""
_READING = ["filesystem_list_directory", "filesystem_read_text_file"]


def scripts(limit: int | None = None) -> tuple[Script, ...]:
    """In the order of `tasks.TASKS`."""
    return (
        _script(["list directory, read text file"], _READING, _REVENUE, limit=limit),
        _script(
            ["list directory, read text file", "knowledge graph create entities and relations"],
            [*_READING, "memory_create_entities", "memory_create_relations"],
            _GRAPH,
            limit=limit,
        ),
        _script(
            ["git commit log, show commit"],
            ["git_git_log", "git_git_show"],
            *(_COMMITS.replace("SLICE", part) for part in ("", "[:45]", "[45:]")),
            limit=limit,
            fails=1,  # 50 calls of tools are allowed in one execution
            answer=_both_halves,
        ),
    )
