"""What a model says to `moonpool mcp`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from bench.conversations.meter import FOLDER, Script, Turn

if TYPE_CHECKING:
    from collections.abc import Sequence


def _answer(texts: Sequence[str]) -> Any:
    return json.loads(texts[-1])["data"]


def _script(queries: list[str], paths: list[str], code: str) -> Script:
    return Script(
        turns=(
            Turn(tool="search_tools", arguments={"queries": queries}),
            Turn(tool="get_tool_definition", arguments={"paths": paths}),
            Turn(tool="execute_code", arguments={"code": code.replace("FOLDER", FOLDER)}),
        ),
        answer=_answer,
    )


_REVENUE = """\
import csv, io
import servers.filesystem as fs

listing = await fs.list_directory(path="FOLDER/sales")
revenue = {}
for line in listing["content"].splitlines():
    name = line.removeprefix("[FILE] ")
    if not name.endswith(".csv"):
        continue
    file = await fs.read_text_file(path=f"FOLDER/sales/{name}")
    for row in csv.DictReader(io.StringIO(file["content"])):
        region = row["region"]
        revenue[region] = revenue.get(region, 0) + int(row["units"]) * float(row["price"])
result = {region: round(total, 2) for region, total in revenue.items()}
"""
_GRAPH = """\
import servers.filesystem as fs
import servers.memory as memory

folder = "FOLDER/documents"
listing = await fs.list_directory(path=folder)
entities, relations, authors = [], [], set()
for line in listing["content"].splitlines():
    name = line.removeprefix("[FILE] ")
    if not name.endswith(".md"):
        continue
    note = name.removesuffix(".md")
    entities.append({"name": note, "entityType": "note", "observations": []})
    file = await fs.read_text_file(path=f"{folder}/{name}")
    for line in file["content"].splitlines():
        if line.startswith("Author: "):
            author = line.removeprefix("Author: ")
            authors.add(author)
            relations.append({"from": author, "to": note, "relationType": "wrote"})
        elif line.startswith("Cites: "):
            for cited in line.removeprefix("Cites: ").split(", "):
                relations.append({"from": note, "to": cited, "relationType": "cites"})
entities += [{"name": author, "entityType": "person", "observations": []} for author in sorted(authors)]
made = await memory.create_entities(entities=entities)
related = await memory.create_relations(relations=relations)
result = {"entities": len(made["entities"]), "relations": len(related["relations"])}
"""
_COMMITS = """\
import re
import servers.git as git

repo = "FOLDER/project"
log = await git.git_log(repo_path=repo, max_count=1000)
added = []
for commit in re.findall(r"\\b[0-9a-f]{40}\\b", log.data):
    shown = await git.git_show(repo_path=repo, revision=commit)
    lines = shown.data.splitlines()
    added.append(len([line for line in lines if line.startswith("+") and not line.startswith("+++")]))
result = {"added": sum(added), "largest": max(added)}
"""
_READING = ["servers.filesystem.list_directory", "servers.filesystem.read_text_file"]

SCRIPTS: Final = (
    _script(["filesystem list directory", "filesystem read text file"], _READING, _REVENUE),
    _script(
        ["filesystem list directory", "filesystem read text file", "knowledge graph create entities and relations"],
        [*_READING, "servers.memory.create_entities", "servers.memory.create_relations"],
        _GRAPH,
    ),
    _script(["git commit log", "git show commit"], ["servers.git.git_log", "servers.git.git_show"], _COMMITS),
)
"""In the order of `tasks.TASKS`."""
