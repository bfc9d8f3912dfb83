"""Finds tools from inside the sandbox.

    from client.catalog import definition, search
    for hit in search("list pull requests"):
        print(hit)                   # servers.github.list_pull_requests — List pull requests in a repository
    print(definition(hit.path))      # the signature, what parameters mean, the result

Saved actions (`actions.github.top_commits`) and skills (`skills.pdf-forms`) are found and read in the same way.
Reads the files that the host shows beside the wrappers: a search calls nobody and costs no tool call. Ranking is a
plain BM25 over names, first sentences and parameters; the host's own search reads whole descriptions and knows more.
"""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any

_ROOT = "/wrappers/current"
_QUERIES_MAX, _QUERY_CHARS_MAX, _LIMIT_MAX = 10, 4_000, 50
_ALSO_MAX = 4
_WEIGHTS = (("name", 3.0), ("server", 1.5), ("summary", 1.0), ("parameters", 0.5))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
_STOP_WORDS = (
    "a all an and any are as at be by can do for from get has i if in into is it its me my of on or that the their then"
    " this to use using want was we what when which will with you your"
)
_STOP = frozenset(_STOP_WORDS.split())


class Hit(str):
    """One line on a tool: its path and what it does. A text, so that it prints and goes into `result` as it is."""

    __slots__ = ("about", "also", "path", "server", "tool")
    path: str  # servers.<module>.<function>, actions.<category>.<name> or skills.<name>
    server: str  # the server's own id; actions or skills
    tool: str  # the tool's own name
    about: str
    also: list[str]  # paths of tools of the same name on other servers


class _Tools:
    """The tools of one tree, ready to be searched."""

    def __init__(self, root: str) -> None:
        with open(os.path.join(root, "index.json"), encoding="utf-8") as file:
            servers: list[dict[str, Any]] = json.load(file)["servers"]
        self.tools = [(server, tool) for server in servers for tool in server["tools"]]
        self.kept = _kept(root)
        self.tools[:0] = [(_group(entry), entry) for entry in self.kept.values()]  # before tools that fit equally
        self.postings: dict[str, dict[int, float]] = {}
        for slot, (server, tool) in enumerate(self.tools):
            for word, weight in _weighted(server, tool).items():
                self.postings.setdefault(word, {})[slot] = weight

    def rank(self, query: str, server: str | None, read_only: bool, limit: int) -> list[list[int]]:
        """The best tools, each with those of the same name on other servers."""
        scores: dict[int, float] = {}
        for word in dict.fromkeys(_words(query)):
            found = self.postings.get(word, {})
            rarity = math.log(1 + (len(self.tools) - len(found) + 0.5) / (len(found) + 0.5))
            for slot, weight in found.items():
                scores[slot] = scores.get(slot, 0.0) + rarity * weight / (weight + 1.2)
        kept = [slot for slot in scores if self._admits(slot, server, read_only)]
        groups: dict[tuple[str, int], list[int]] = {}
        namesakes: dict[tuple[str, str], int] = {}
        for slot in sorted(kept, key=lambda slot: (-scores[slot], slot)):
            bare = _bare_name(self.tools[slot][1])
            own = (self.tools[slot][0]["id"], bare)
            groups.setdefault((bare, namesakes.get(own, 0)), []).append(slot)
            namesakes[own] = namesakes.get(own, 0) + 1  # `get-x` and `get_x` of one server stay two tools
        return list(groups.values())[:limit]

    def _admits(self, slot: int, server: str | None, read_only: bool) -> bool:
        of, tool = self.tools[slot]
        return (server is None or server in (of["id"], of["module"])) and (not read_only or tool["readOnly"] is True)

    def path(self, slot: int) -> str:
        server, tool = self.tools[slot]
        return tool.get("path") or f"servers.{server['module']}.{tool['python']}"

    def hit(self, group: list[int]) -> Hit:
        server, tool = self.tools[group[0]]
        path, about, also = self.path(group[0]), tool["summary"].removesuffix("."), list(map(self.path, group[1:]))
        if "path" in tool:
            about = f"{tool['kind']}: {about}"
        elif about == tool["python"]:
            about = ""  # the path says it
        line = f"{path} — {about}" if about else path
        if also:
            named = ", ".join(one.removeprefix("servers.").rpartition(".")[0] for one in also[:_ALSO_MAX])
            line += f" (also on {named}{f' and {len(also) - _ALSO_MAX} more' if len(also) > _ALSO_MAX else ''})"
        hit = Hit(line)
        hit.path, hit.server, hit.tool, hit.about, hit.also = path, server["id"], tool["name"], about, also
        return hit


def search(
    queries: str | list[str], *, server: str | None = None, read_only: bool = False, limit: int = 10
) -> list[Hit]:
    """The tools that fit best, at most `limit` per question; several questions are answered in turn.

    `server` and `read_only` (what the server says of its tool) narrow.
    """
    asked = _texts(queries)
    if not asked or not all(query.strip() for query in asked):
        raise ValueError("a search needs words: say in 3 to 6 of them what the tool should do")
    if len(asked) > _QUERIES_MAX or max(map(len, asked)) > _QUERY_CHARS_MAX:
        raise ValueError(f"ask at most {_QUERIES_MAX} questions of {_QUERY_CHARS_MAX} characters at a time")
    if not 1 <= limit <= _LIMIT_MAX:
        raise ValueError(f"limit {limit} is out of range: ask for 1 to {_LIMIT_MAX} tools")
    tools = _tools()
    if server is not None and not any(server in (of["id"], of["module"]) for of, _ in tools.tools):
        known = ", ".join(dict.fromkeys(of["id"] for of, _ in tools.tools)) or "none"
        raise LookupError(f"no server {server!r} in this session; known servers: {known[:400]}")
    rankings = [tools.rank(query, server, read_only, limit) for query in asked]
    groups: dict[int, list[int]] = {}
    for group in (ranking[place] for place in range(limit) for ranking in rankings if place < len(ranking)):
        groups.setdefault(group[0], group)
    return [tools.hit(group) for group in list(groups.values())[:_LIMIT_MAX]]


def definition(path: str) -> str:
    """How code calls the tool that `path` names (`servers.time.convert_time` or `server.tool`), and what it gives."""
    (path,) = _texts(path, one=True)
    kept = _tools().kept
    if (entry := kept.get(path) or kept.get(path.replace("_", "-"))) is not None:
        return entry["definition"]
    name = path.removeprefix("servers.")
    for server, tool in _tools().tools:
        if "path" in tool:
            continue
        for called in (server["id"], server["module"]):
            if name.startswith(f"{called}.") and name[len(called) + 1 :] in (
                tool["name"],
                tool["python"],
                tool["node"],
            ):
                return _stub(server["module"], tool["name"])
    near = search(path.replace(".", " "), limit=3) if path.strip(". ") else []
    hint = f"; near: {', '.join(hit.path for hit in near)}" if near else ""
    raise LookupError(f"no tool {path[:200]!r} in this session{hint}")


def _texts(given: object, *, one: bool = False) -> list[str]:
    found: list[object] = [*given] if isinstance(given, list | tuple) and not one else [given]
    texts = [text for text in found if isinstance(text, str)]
    if len(texts) < len(found):
        raise TypeError(f"needs a string{'' if one else ' or a list of strings'}, not {given!r:.80}")
    return texts


def _kept(root: str) -> dict[str, dict[str, Any]]:
    """Saved actions and skills by path. There is no file where there are none."""
    try:
        with open(os.path.join(root, "library.json"), encoding="utf-8") as file:
            entries: list[dict[str, Any]] = json.load(file)["entries"]
    except FileNotFoundError:
        return {}
    return {entry["path"]: {**entry, "readOnly": entry["kind"] == "skill"} for entry in entries}


def _group(entry: dict[str, Any]) -> dict[str, Any]:
    """What stands for the server of an entry."""
    root = entry["path"].partition(".")[0]
    return {"id": root, "module": root, "title": entry["name"].rpartition(".")[0]}


def _stub(module: str, tool: str) -> str:
    with open(os.path.join(_ROOT, "stubs", f"{module}.json"), encoding="utf-8") as file:
        stub: str | None = json.load(file)[tool]
    return stub or f"servers.{module}: the definition is not listed; help() on the function tells it"


_read: dict[str, _Tools] = {}  # by what the link at _ROOT points at: the tree of this moment


def _tools() -> _Tools:
    place = os.path.realpath(_ROOT)
    try:
        key = f"{place}:{os.stat(os.path.join(place, 'index.json')).st_ino}"
        if key not in _read:
            _read.clear()
            _read[key] = _Tools(place)
    except FileNotFoundError:
        raise LookupError("no tools are shown in this sandbox") from None
    return _read[key]


def _weighted(server: dict[str, Any], tool: dict[str, Any]) -> dict[str, float]:
    """The words of a tool with what they weigh; further mentions in one field count less and less."""
    parameters: list[dict[str, Any]] = tool["parameters"] or []
    texts = {
        "name": tool["name"],
        "server": f"{server['id']} {server['title']}",
        "summary": tool["summary"],
        "parameters": " ".join(f"{one['name']} {one['description']}" for one in parameters),
    }
    weighted: dict[str, float] = {}
    for field, weight in _WEIGHTS:
        words = _words(texts[field])
        for word in set(words):
            weighted[word] = weighted.get(word, 0.0) + weight * (1 + math.log(words.count(word)))
    return weighted


def _bare_name(tool: dict[str, Any]) -> str:
    """What namesakes share; an action or a skill has none."""
    if "path" in tool:
        return tool["path"]
    return "".join(filter(str.isalnum, tool["name"].casefold())) or tool["name"]


def _words(text: str) -> list[str]:
    words = [word.lower() for word in _WORD.findall(text[:8_000])]
    return [part for word in words if word not in _STOP for part in _parts(word)]


def _parts(word: str) -> list[str]:
    """The stem; of scripts without spaces between words, overlapping pairs of characters."""
    if "\u3040" <= word[0] <= "\ud7af":
        return [word[at : at + 2] for at in range(max(1, len(word) - 1))]
    return [_stem(word)]


def _stem(word: str) -> str:
    """Cut a plural or verb ending, roughly."""
    for ending, instead in (("ies", "y"), ("ing", ""), ("es", ""), ("ed", ""), ("s", ""), ("e", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: len(word) - len(ending)] + instead
    return word
