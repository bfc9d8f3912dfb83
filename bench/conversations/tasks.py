"""Three tasks over three published servers: what they are about, and their right answers.

Nothing in them is chance or the clock, so two runs count the same tokens; git's hashes, too, since dates are fixed.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_REGIONS: Final = ("north", "south", "east", "west")
_PRODUCTS: Final = (("lamp", 12.5), ("chair", 49.0), ("desk", 180.0), ("shelf", 75.25))
_MONTHS: Final = ("january", "february", "march", "april", "may", "june")
_AUTHORS: Final = ("Ada Lovelace", "Mary Somerville", "Emmy Noether", "Sofia Kovalevskaya", "Hypatia")
_DOCUMENTS: Final = 23
_COMMITS: Final = 60
_DATE: Final = "2026-03-01T12:00:00+00:00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task. `prepare` makes its files below a folder and returns the right answer."""

    name: str
    request: str
    prepare: Callable[[Path], Any]
    proof: Callable[[Path], Any] | None = None
    """What the answer must be by the files that the task left behind, where it changes any."""


def _sales(folder: Path) -> Any:
    place = folder / "sales"
    place.mkdir()
    revenue = dict.fromkeys(_REGIONS, 0.0)
    for month, name in enumerate(_MONTHS):
        lines = ["date,region,product,units,price"]
        for row in range(40):
            region = _REGIONS[(row * 7 + month) % 4]
            product, price = _PRODUCTS[(row + month) % 4]
            units = 1 + (row * 5 + month * 3) % 9
            revenue[region] += units * price
            lines.append(f"2026-{month + 1:02}-{1 + row % 28:02},{region},{product},{units},{price}")
        (place / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {region: round(value, 2) for region, value in revenue.items()}


def _documents(folder: Path) -> Any:
    place = folder / "documents"
    place.mkdir()
    relations = 0
    for number in range(_DOCUMENTS):
        cited = sorted({(number * 3 + step) % _DOCUMENTS for step in (1, 5, 11)[: 1 + number % 3]} - {number})
        relations += 1 + len(cited)
        lines = [
            f"# Note {number:02}",
            f"Author: {_AUTHORS[number * 2 % len(_AUTHORS)]}",
            f"Cites: {', '.join(f'note-{one:02}' for one in cited)}",
            "",
            f"Findings of experiment {number}. " * 20,
        ]
        (place / f"note-{number:02}.md").write_text("\n".join(lines), encoding="utf-8")
    return {"entities": _DOCUMENTS + len(_AUTHORS), "relations": relations}


def _graph(folder: Path) -> Any:
    kept = [json.loads(line) for line in (folder / "graph.jsonl").read_text(encoding="utf-8").splitlines()]
    return {
        "entities": sum(one["type"] == "entity" for one in kept),
        "relations": sum(one["type"] == "relation" for one in kept),
    }


def _history(folder: Path) -> Any:
    place = folder / "project"
    place.mkdir()
    date = {"GIT_AUTHOR_DATE": _DATE, "GIT_COMMITTER_DATE": _DATE}
    env = {**os.environ, **date, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=place, check=True, env=env, stdout=subprocess.DEVNULL)

    git("init", "--quiet", "--initial-branch=main")
    git("config", "user.name", _AUTHORS[0])
    git("config", "user.email", "ada@example.com")
    counts = [1 + number * 7 % 13 for number in range(_COMMITS)]
    for number, count in enumerate(counts):
        (place / f"{number:02}.txt").write_text("a line\n" * count, encoding="utf-8")
        git("add", ".")
        git("commit", "--quiet", "--message", f"Describe experiment {number}")
    return {"added": sum(counts), "largest": max(counts)}


TASKS: Final = (
    Task(
        name="6 CSV files to revenue",
        request=(
            "Revenue (units x price) by region over the CSV files in FOLDER/sales, rounded to cents. "
            "Their columns: date, region, product, units, price."
        ),
        prepare=_sales,
    ),
    Task(
        name="23 documents to a graph",
        request=(
            "Put the notes in FOLDER/documents into the knowledge graph: an entity for each note (named as its file, "
            "without .md) and for each author, a relation from author to note, and from a note to each that it cites. "
            "A note has lines like `Author: Ada Lovelace` and `Cites: note-01, note-02`. How many of both were made?"
        ),
        prepare=_documents,
        proof=_graph,
    ),
    Task(
        name="61 git calls",
        request="How many lines did all commits of FOLDER/project add together, and how many the largest of them?",
        prepare=_history,
    ),
)
