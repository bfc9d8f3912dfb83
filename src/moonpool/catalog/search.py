"""From questions to ranked tools.

One question is ranked in five steps: BM25F with synonyms and neighbour words, over the question and over its sentences;
vector similarity mixed in, if available (`moonpool.catalog.dense`); a bonus for tools whose whole name is in the
question; a bonus for servers with several good tools; tools of the same name on several servers folded into one.
Several questions are ranked separately and answered in turn, so that each has its best tools among the first. A short
question that even the best tool hardly matches gets no tool: a model would take unrelated ones for an answer.

INVARIANT: equal scores are ordered by server and tool name, never by the order in which servers were added; library
entries (actions, then skills) come before tools (I-099).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from moonpool.catalog.documents import KEPT_MARK
from moonpool.catalog.synonyms import (
    NEIGHBOUR_WEIGHT,
    NEIGHBOURS_MAX,
    QUESTION_TERMS_MAX,
    SYNONYM_WEIGHT,
    neighbours,
    synonyms,
)
from moonpool.catalog.text import sentences, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.catalog.index import Index

Key = tuple[str, str]

CANDIDATES: Final = 300  # the bonuses reorder these; lower ranks cannot reach the top
SENTENCE_SHARE: Final = 0.5
_ROUNDING: Final = 1 - 1e-9
NAME_BONUS: Final = 0.35
SERVER_BONUS: Final = 0.25
SERVER_BEST: Final = 3  # how many of a server's best tools count for its bonus
FIT_MIN: Final = 0.1  # share of the score of a question's own words; below it nothing fits (decision 0044)
FIT_TERMS_MAX: Final = 5  # longer questions describe more than one tool
FIT_TOOLS_MIN: Final = 20  # of fewer tools a model reads all definitions anyway, and no word is rare


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One tool and tools of the same name on other servers, best first."""

    key: Key
    score: float
    also: tuple[Key, ...] = ()


class Answer(NamedTuple):
    """One ranked tool and the question that found it."""

    query_index: int
    ranked: Ranked


class _Scored(NamedTuple):
    slot: int
    score: float


def answer_in_turn(rankings: Sequence[Sequence[Ranked]]) -> list[Answer]:
    """Take the first of each ranking, then the second of each, and so on; a tool appears once."""
    seen, answers = set[Key](), list[Answer]()
    for place in range(max((len(ranking) for ranking in rankings), default=0)):
        for query_index, ranking in enumerate(rankings):
            if place < len(ranking) and ranking[place].key not in seen:
                seen.add(ranking[place].key)
                answers.append(Answer(query_index, ranking[place]))
    return answers


def rank(
    index: Index,
    query: str,
    *,
    limit: int,
    admit: Callable[[int], bool] | None = None,
    mix: Callable[[str, list[float]], list[float]] | None = None,
    bonus_share: float = 1.0,
) -> list[Ranked]:
    """Return the `limit` best tools for one question, among the slots that `admit` accepts.

    `mix` may change the word scores by slot; `bonus_share` is the share of the bonuses that is added.
    """
    weighted, words = weigh(query), _WordScores.of(index, query)
    earned = words.whole if mix is None else mix(query, words.at(range(index.slot_count)))
    found = [slot for slot, value in enumerate(earned) if value > 0 and (admit is None or admit(slot))]
    if mix is None and admit is None and _nothing_fits(index, weighted, words.at(found)):
        return []

    def score(slots: Sequence[int]) -> list[float]:
        return words.at(slots) if mix is None else [earned[slot] for slot in slots]

    near = found if mix is not None else words.contenders(found)
    best = _order(index, _with_bonuses(index, weighted, _best(near, score(near), CANDIDATES), bonus_share))
    ranking = _fold_namesakes(index, best, limit)
    if len(ranking) < limit and len(found) > len(best):  # too many tools of the same name among the candidates
        everything = _best(found, score(found), len(found))
        ranking = _fold_namesakes(index, _order(index, _with_bonuses(index, weighted, everything, bonus_share)), limit)
    return ranking


def _nothing_fits(index: Index, weighted: dict[str, float], earned: list[float]) -> bool:
    """Whether the best tool matches too little of a short question. Words that no tool has count as the rarest."""
    own = {term: weight for term, weight in weighted.items() if weight >= 1}
    if len(own) > FIT_TERMS_MAX or len(index) <= FIT_TOOLS_MIN:
        return False
    worth = math.fsum(weight * index.rarity(term) for term, weight in own.items())
    return max(earned, default=0.0) < FIT_MIN * worth


@dataclass(frozen=True, slots=True)
class _WordScores:
    """The word score of each slot: for the whole question, and by sentence if there are several."""

    whole: list[float]
    parts: list[list[float]]

    @classmethod
    def of(cls, index: Index, query: str) -> _WordScores:
        asked = [weigh(query), *map(weigh, sentences(query))]
        if len(set(terms(query))) <= QUESTION_TERMS_MAX:
            asked = [with_neighbours(weighted, index) for weighted in asked]
        whole, *parts = index.scores(asked)
        return cls(whole, parts)

    def at(self, slots: Sequence[int]) -> list[float]:
        """The score of each slot, mixed as in `by_sentence`."""
        whole = [self.whole[slot] for slot in slots]
        if not self.parts:
            return whole
        best = map(max, zip(*([part[slot] for slot in slots] for part in self.parts), strict=True))
        return [(1 - SENTENCE_SHARE) * one + SENTENCE_SHARE * other for one, other in zip(whole, best, strict=True)]

    def contenders(self, slots: list[int]) -> list[int]:
        """Those of `slots` that can be among the best `CANDIDATES`; the sentences of others need no scoring.

        INVARIANT: a sentence scores no slot higher than the whole question does, since it has no other terms and none
        with a higher weight; neighbour words are added to all sentences or to none. So a slot's score for the whole
        question is an upper bound of its mixed score, and the worst mixed score of any `CANDIDATES` slots is a lower
        bound for the last of the best.
        """
        if not self.parts or len(slots) <= CANDIDATES:
            return slots
        last = sorted((self.whole[slot] for slot in slots), reverse=True)[CANDIDATES - 1]
        least = min(self.at([slot for slot in slots if self.whole[slot] >= last])) * _ROUNDING
        return [slot for slot in slots if self.whole[slot] >= least]


def by_sentence(query: str, score: Callable[[str], list[float]]) -> list[float]:
    """Average the score of the whole question and that of the sentence that fits each tool best.

    A long question asks for several tools, one per sentence; as a whole it favours tools that fit a bit of everything.
    Short questions, typical of agents, are one sentence and scored once.
    """
    whole, parts = score(query), [score(sentence) for sentence in sentences(query)]
    if not parts:
        return whole
    best = map(max, zip(*parts, strict=True))
    return [(1 - SENTENCE_SHARE) * one + SENTENCE_SHARE * other for one, other in zip(whole, best, strict=True)]


def weigh(query: str) -> dict[str, float]:
    """Terms of the question with their weights; its own words first, then their synonyms."""
    counts = Counter(terms(query))
    weighted = {term: 1 + math.log(count) for term, count in counts.items()}
    for term in counts:
        for neighbour in synonyms(term):
            weighted.setdefault(neighbour, SYNONYM_WEIGHT)
    return weighted


def with_neighbours(weighted: dict[str, float], index: Index) -> dict[str, float]:
    """The same terms plus, for each of the question's own terms, its neighbours in the index."""
    widened = dict(weighted)
    for term in (term for term, weight in weighted.items() if weight >= 1):
        held = (near for near in neighbours(term) if index.holds(near))
        for near in islice(held, NEIGHBOURS_MAX):
            widened.setdefault(near, NEIGHBOUR_WEIGHT)
    return widened


def _best(slots: list[int], values: list[float], count: int) -> list[_Scored]:
    """The `count` best and all with the same score as the last of them.

    Thousands of slots are compared as plain numbers: one object for each would trigger the garbage collector, which
    takes a tenth of a second with a large manifest.
    """
    least = sorted(values, reverse=True)[count - 1] if len(values) > count else 0.0
    return [_Scored(slot, value) for slot, value in zip(slots, values, strict=True) if value >= least]


def _with_bonuses(index: Index, weighted: dict[str, float], found: list[_Scored], bonus_share: float) -> list[_Scored]:
    named = [
        _Scored(
            slot, score * (1 + bonus_share * NAME_BONUS * _spoken_share(index.at(slot).name_terms, weighted, index))
        )
        for slot, score in found
    ]
    by_server: dict[str, list[float]] = {}
    kept: list[_Scored] = []  # an entry gets the bonus of a server whose tools are all as good
    for slot, score in named:
        if (server_id := index.at(slot).server_id).startswith(KEPT_MARK):
            kept.append(_Scored(slot, score * (1 + bonus_share * SERVER_BONUS)))
        else:
            by_server.setdefault(server_id, []).append(score)
    bonus = {
        server_id: bonus_share * SERVER_BONUS * math.fsum(sorted(scores, reverse=True)[:SERVER_BEST]) / SERVER_BEST
        for server_id, scores in by_server.items()
    }
    tools = [(slot, score, index.at(slot).server_id) for slot, score in named]
    return [*kept, *(_Scored(slot, score + bonus[one]) for slot, score, one in tools if one in bonus)]


def _spoken_share(name_terms: frozenset[str], weighted: dict[str, float], index: Index) -> float:
    """The share of a tool's name that is in the question, from 0 to 1; rare words count more."""
    if name_terms.isdisjoint(weighted):
        return 0.0
    whole = math.fsum(index.rarity(term) for term in name_terms)
    spoken = math.fsum(index.rarity(term) * min(1.0, weighted[term]) for term in name_terms if term in weighted)
    return spoken / whole if whole else 0.0


def _order(index: Index, found: list[_Scored]) -> list[_Scored]:
    return sorted(found, key=lambda item: (-item.score, index.at(item.slot).key))


def _fold_namesakes(index: Index, ordered: list[_Scored], limit: int) -> list[Ranked]:
    """Fold tools of the same name on different servers into the best of them; return the `limit` first."""
    groups: dict[tuple[str, int], list[_Scored]] = {}
    namesakes = Counter[Key]()
    for item in ordered:
        server_id, bare = index.at(item.slot).server_id, index.at(item.slot).bare_name
        groups.setdefault((bare, namesakes[server_id, bare]), []).append(item)
        namesakes[server_id, bare] += 1  # `get-x` and `get_x` of one server stay two tools
    return [
        Ranked(
            key=index.at(group[0].slot).key,
            score=group[0].score,
            also=tuple(index.at(item.slot).key for item in group[1:]),
        )
        for group in islice(groups.values(), limit)
    ]
