"""Reads a folder of catalogs with labelled questions.

Each sub-folder holds `tools.jsonl` (one tool a line, with its server) and any of `tasks.jsonl`, `steps_clean.jsonl`,
`agent_queries.jsonl` (one question a line). `gold_any` is a list of groups: one tool of each group has to be found.

Which questions form a set: one set per file, and one per `kind` of a file whose kinds ask for the same tools in
different words (a sentence of a user, a search of an agent): there the kinds are different ways to ask, and a mean over
them would hide what the way to ask is worth. Where each kind asks for tools of its own (one server, two servers), the
kinds are parts of one set. The macro mean is over these sets; the mean over every kind of every file is printed too.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Sequence, Sized
    from pathlib import Path

    from moonpool.core.json import JsonObject

QUERIES_MAX: Final = 400
FILES: Final = ("tasks", "steps_clean", "agent_queries")
_OF_THE_SERVER: Final = ("server", "server_title", "server_description")

Key = tuple[str, str]


class DataError(Exception):
    """The folder cannot be measured; the text names the file and the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One labelled question."""

    question_id: str
    kind: str
    text: str
    gold: tuple[frozenset[Key], ...]
    row: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySet:
    """Questions that are counted together."""

    name: str
    questions: tuple[Question, ...]
    skipped: int = 0  # rows without gold
    capped: int = 0  # rows over QUERIES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """One catalog and what is asked of it."""

    name: str
    manifest: Manifest
    sets: tuple[QuerySet, ...]
    kinds: tuple[QuerySet, ...]  # the same questions, by every kind
    rows: dict[str, list[dict[str, Any]]] = field(repr=False)  # by file, also those without gold


def load_collections(folder: Path) -> list[Collection]:
    """Every sub-folder with tools, in alphabetical order. Raises DataError."""
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder")
    if (folder / "tools.jsonl").is_file():
        raise DataError(f"{folder} is one catalog itself; name the folder above it")
    found = [_load(path.parent) for path in sorted(folder.glob("*/tools.jsonl"))]
    if not found:
        raise DataError(f"{folder} holds no sub-folder with a tools.jsonl")
    if not any(one.sets for one in found):
        raise DataError(f"no question below {folder} has gold, that is, names the tools it is after")
    return found


def left_out(folder: Path) -> list[Path]:
    """Sub-folders that hold questions, but no tools to find."""
    asking = {path.parent for name in FILES for path in folder.glob(f"*/{name}.jsonl")}
    return sorted(path for path in asking if not (path / "tools.jsonl").is_file())


def _load(folder: Path) -> Collection:
    manifest = _manifest(_rows(folder / "tools.jsonl"), f"{folder}/tools.jsonl")
    keys = {f"{tool.server_id}/{tool.name}": tool.key for tool in manifest.tools()}
    rows = {name: _rows(path) for name in FILES if (path := folder / f"{name}.jsonl").is_file()}
    sets: list[QuerySet] = []
    kinds: list[QuerySet] = []
    for name, found in rows.items():
        label = f"{folder.name}/{name}" if name != "tasks" else folder.name
        asked = [_question(row, f"{folder}/{name}.jsonl, row {number}", keys) for number, row in enumerate(found, 1)]
        by_kind: dict[str, list[Question]] = {}
        for question in asked:
            by_kind.setdefault(question.kind, []).append(question)
        parts = [_query_set(_part_name(label, kind, by_kind), part) for kind, part in sorted(by_kind.items())]
        kinds.extend(parts)
        sets.extend(parts if _same_gold(by_kind) else [_query_set(label, asked)])
    return Collection(
        name=folder.name,
        manifest=manifest,
        sets=tuple(one for one in sets if one.questions),
        kinds=tuple(one for one in kinds if one.questions),
        rows=rows,
    )


def _part_name(label: str, kind: str, kinds: Sized) -> str:
    """Rows without a kind beside others with one are a kind, too; a file without any is one set."""
    return label if len(kinds) == 1 and not kind else f"{label}:{kind or 'none'}"


def _same_gold(by_kind: dict[str, list[Question]]) -> bool:
    """Whether all kinds ask for the same tools, so that a kind is a way to ask."""
    golds = [{question.gold for question in part if question.gold} for part in by_kind.values()]
    return len(golds) > 1 and all(len(one & golds[0]) >= 0.9 * max(len(one), len(golds[0])) for one in golds)


def _query_set(name: str, asked: Sequence[Question]) -> QuerySet:
    labelled = [question for question in asked if question.gold]
    kept = sorted(labelled, key=lambda one: hashlib.sha256(one.question_id.encode()).digest())[:QUERIES_MAX]
    return QuerySet(
        name=name,
        questions=tuple(kept),
        skipped=len(asked) - len(labelled),
        capped=len(labelled) - len(kept),
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a byte order mark before the first line
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: no UTF-8: {error.reason} at byte {error.start}") from None
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: JSON may hold other ends of lines
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: no JSON: {error}") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}:{number}: a row must be an object")
        rows.append(_without_surrogates(row))
    return rows


def _without_surrogates(row: dict[str, Any]) -> dict[str, Any]:
    """JSON may escape half a character; no file, pipe or tokenizer takes it. A row has few of them, if any."""
    text = json.dumps(row, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode("utf-8", "replace"))
    return row


def _manifest(rows: list[dict[str, Any]], place: str) -> Manifest:
    about: dict[str, dict[str, Any]] = {}
    tools: dict[str, dict[str, ToolDefinition]] = {}
    for number, row in enumerate(rows, 1):
        for member in ("server", "name"):
            if not (isinstance(row.get(member), str) and row[member]):
                raise DataError(f"{place}, row {number}: not a tool: {member!r} must be a text")
        server_id = row["server"]
        about.setdefault(server_id, row)
        raw: JsonObject = {key: value for key, value in row.items() if key not in _OF_THE_SERVER}
        tools.setdefault(server_id, {}).setdefault(
            row["name"], ToolDefinition(server_id=server_id, name=row["name"], raw=raw)
        )
    return Manifest(
        servers=tuple(
            ServerListing(
                server_id=server_id,
                title=_text(about[server_id].get("server_title")),
                description=_text(about[server_id].get("server_description")),
                tools=tuple(found.values()),
            )
            for server_id, found in tools.items()
        )
    )


def _question(row: dict[str, Any], place: str, keys: dict[str, Key]) -> Question:
    kind = row.get("kind")
    if not isinstance(row.get("query"), str):
        raise DataError(f"{place}: not a question: 'query' must be a text")
    if isinstance(kind, dict | list):
        raise DataError(f"{place}: not a question: 'kind' must be a word")
    return Question(
        question_id=str(row.get("id", place)),
        kind="" if kind is None else str(kind),
        text=row["query"],
        gold=tuple(frozenset(keys.get(one, ("", one)) for one in group) for group in gold_groups(row, place)),
        row=row,
    )


def gold_groups(row: dict[str, Any], place: str = "") -> list[list[str]]:
    """The groups of tools of which one each has to be found; none where the row has no gold. Raises DataError."""
    groups: Any = row.get("gold_any") or [[one] for one in _list(row, "gold", place)]
    if not isinstance(groups, list) or not all(
        isinstance(group, list) and all(isinstance(one, str) for one in cast("list[Any]", group))
        for group in cast("list[Any]", groups)
    ):
        raise DataError(f"{place}: 'gold' must be a list of texts and 'gold_any' a list of such lists")
    return [group for group in cast("list[list[str]]", groups) if group]


def _list(row: dict[str, Any], member: str, place: str) -> list[Any]:
    found: Any = row.get(member) or []
    if not isinstance(found, list):
        raise DataError(f"{place}: {member!r} must be a list")
    return cast("list[Any]", found)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
