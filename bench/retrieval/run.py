"""One run: every system over every query set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.peers.venvs import PeerMissingError
from bench.retrieval.fastmcp_ranking import fastmcp_rankings
from bench.retrieval.metrics import means, score
from bench.retrieval.sessions import replay
from bench.retrieval.systems import OurSearch, PlainBm25f, SqliteFts5

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.retrieval.metrics import Line
    from bench.retrieval.query_sets import Collection, QuerySet
    from bench.retrieval.sessions import Replay
    from moonpool.catalog.catalog import Catalog

    Rank = Callable[[str], list[Line]]

OURS = "moonpool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """One system's scores, question by question, by set."""

    sets: dict[str, list[dict[str, float]]]
    kinds: dict[str, list[dict[str, float]]]

    def macro(self, *, by_kind: bool = False) -> dict[str, float]:
        return means([means(one) for one in (self.kinds if by_kind else self.sets).values()])


@dataclass(slots=True, kw_only=True)
class Run:
    """What was measured. `missing`: systems that could not be, and why."""

    scores: dict[str, Scores] = field(default_factory=dict[str, Scores])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    replays: dict[str, Replay] = field(default_factory=dict[str, "Replay"])


def run(collections: list[Collection], make_catalog: Callable[[Collection], Catalog], *, peers: bool) -> Run:
    """Measure. `make_catalog` decides whether vectors take part."""
    found = Run()
    asked = [one for one in collections if one.sets]
    ours = {one.name: make_catalog(one) for one in asked}
    found.scores[OURS] = _score(asked, {name: OurSearch(catalog).rank for name, catalog in ours.items()})
    for one in asked:
        if (shown := replay(one, ours[one.name])) is not None:
            found.replays[one.name] = shown
    strict = {name: _leading(OurSearch(catalog).rank) for name, catalog in ours.items()}
    found.scores[f"{OURS}, strict"] = _score(asked, strict)
    if not peers:
        return found
    found.scores["BM25F, plain"] = _score(asked, {one.name: PlainBm25f(one.manifest).rank for one in asked})
    found.scores["SQLite FTS5"] = _score(asked, {one.name: SqliteFts5(one.manifest).rank for one in asked})
    for name, prefixed in (("fastmcp BM25", False), ("fastmcp BM25, prefixed", True)):
        try:
            lines = fastmcp_rankings(asked, prefixed=prefixed)
        except PeerMissingError as error:
            found.missing[name] = str(error)
            continue
        found.scores[name] = _score(asked, {key: by_query.__getitem__ for key, by_query in lines.items()})
    return found


def _leading(rank: Rank) -> Rank:
    """The same ranking, of each line only the tool that leads it."""
    return lambda query: [line[:1] for line in rank(query)]


def _score(collections: list[Collection], ranks: dict[str, Rank]) -> Scores:
    sets: dict[str, list[dict[str, float]]] = {}
    kinds: dict[str, list[dict[str, float]]] = {}
    for collection in collections:
        lines: dict[str, list[Line]] = {}
        rank = ranks[collection.name]

        def scored(part: QuerySet, lines: dict[str, list[Line]] = lines, rank: Rank = rank) -> list[dict[str, float]]:
            for question in part.questions:
                if question.text not in lines:
                    lines[question.text] = rank(question.text)
            return [score(question, lines[question.text]) for question in part.questions]

        sets.update({part.name: scored(part) for part in collection.sets})
        kinds.update({part.name: scored(part) for part in collection.kinds})
    return Scores(sets=sets, kinds=kinds)
