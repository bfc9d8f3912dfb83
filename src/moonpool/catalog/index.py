"""BM25F index over documents, kept per server.

How well a term fits a document depends only on that document: a field's length is compared with a fixed typical length,
not with the collection's average. So adding, replacing or removing one server touches only its own postings, and the
result does not depend on the order of servers. Only a term's rarity depends on the collection; it is computed from the
length of its postings on demand.

INVARIANT: after any sequence of changes an index answers like a new one over the same documents.

`moonpool.catalog.documents` defines documents, `moonpool.catalog.search` ranks.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from moonpool.catalog.documents import KEPT_MARK
from moonpool.catalog.text import terms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from moonpool.catalog.documents import Document, Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Free parameters of BM25F, tuned on public development sets; the surface is flat (decision 0005)."""

    weights: tuple[float, ...] = (3.0, 2.0, 0.7, 1.5, 0.8, 0.5, 0.5)  # in the order of Fields
    typical_terms: tuple[float, ...] = (3.5, 4.0, 20.0, 4.0, 16.0, 6.0, 24.0)
    saturation: float = 1.2  # k1 of BM25
    length_share: float = 0.7  # b of BM25


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """What is kept of an indexed document."""

    server_id: str
    name: str
    name_terms: frozenset[str]
    bare_name: str  # letters and digits only: equal for tools of the same name

    @property
    def key(self) -> tuple[str, str]:
        return (self.server_id, self.name)


@dataclass(frozen=True, slots=True)
class _Postings:
    """Slots of the documents that contain one term, and how well it fits each: two columns of equal length."""

    slots: array[int] = field(default_factory=lambda: array("I"))
    fits: array[float] = field(default_factory=lambda: array("f"))


@dataclass(frozen=True, slots=True)
class _Share:
    """One server's part of the index."""

    slots: frozenset[int]
    terms: frozenset[str]


class Index:
    """Postings of all documents. A slot is a document's number for as long as its server stays unchanged."""

    def __init__(self, tuning: Tuning | None = None) -> None:
        self._tuning = tuning or Tuning()
        self._postings: dict[str, _Postings] = {}
        self._indexed: list[Indexed | None] = []
        self._free: list[int] = []
        self._shares: dict[str, _Share] = {}
        self._rarities: dict[str, float] = {}  # for the current documents

    def copied(self) -> Index:
        """An independent copy."""
        copy = Index(self._tuning)
        copy._postings = {term: _Postings(one.slots[:], one.fits[:]) for term, one in self._postings.items()}
        copy._indexed, copy._free, copy._shares = list(self._indexed), list(self._free), dict(self._shares)
        return copy

    def __len__(self) -> int:
        return len(self._indexed) - len(self._free)

    @property
    def slot_count(self) -> int:
        """One more than the highest slot; slots below it may be empty."""
        return len(self._indexed)

    def at(self, slot: int) -> Indexed:
        indexed = self._indexed[slot]
        assert indexed is not None, f"slot {slot} is empty"
        return indexed

    def slots_of(self, server_ids: Iterable[str]) -> frozenset[int]:
        return frozenset[int]().union(*(self._shares[name].slots for name in server_ids if name in self._shares))

    def holds(self, term: str) -> bool:
        return term in self._postings

    def slots_by_key(self) -> dict[tuple[str, str], int]:
        return {indexed.key: slot for slot, indexed in enumerate(self._indexed) if indexed is not None}

    def replace(self, server_id: str, documents: Iterable[Document]) -> None:
        """Replace the documents of `server_id`. No documents: the server is removed."""
        self._rarities.clear()
        self._remove(server_id)
        read = cache(terms)  # text about the server repeats for each of its tools
        slots, server_terms = set[int](), set[str]()
        for document in documents:
            slot = self._take_slot()
            self._indexed[slot] = Indexed(
                server_id=server_id,
                name=document.name,
                name_terms=frozenset(read(document.fields.name)),
                bare_name=_bare_name(document),
            )
            slots.add(slot)
            server_terms.update(self._post(slot, _fits(document.fields, self._tuning, read)))
        if slots:
            self._shares[server_id] = _Share(frozenset(slots), frozenset(server_terms))

    def scores(self, questions: Sequence[Mapping[str, float]]) -> list[list[float]]:
        """For each question (terms with weights) the score of every slot. Shared terms are read once."""
        found = [[0.0] * self.slot_count for _ in questions]
        wanted: dict[str, list[tuple[list[float], float]]] = {}
        for weighted, earned in zip(questions, found, strict=True):
            for term, weight in weighted.items():
                wanted.setdefault(term, []).append((earned, weight))
        for term, places in wanted.items():
            if (postings := self._postings.get(term)) is not None:
                _add(postings, [(earned, weight * self.rarity(term)) for earned, weight in places])
        return found

    def rarity(self, term: str) -> float:
        """Inverse document frequency: high for rare terms, never negative."""
        rarity = self._rarities.get(term)
        if rarity is None:
            postings = self._postings.get(term)
            holders = len(postings.slots) if postings else 0
            rarity = math.log((len(self) - holders + 0.5) / (holders + 0.5) + 1)
            if postings:  # do not cache unknown words: there is no limit on them
                self._rarities[term] = rarity
        return rarity

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._indexed.append(None)
        return len(self._indexed) - 1

    def _post(self, slot: int, fits: Mapping[str, float]) -> Collection[str]:
        for term, fit in fits.items():
            postings = self._postings.get(term)
            if postings is None:
                postings = self._postings[term] = _Postings()
            postings.slots.append(slot)
            postings.fits.append(fit)
        return fits.keys()

    def _remove(self, server_id: str) -> None:
        share = self._shares.pop(server_id, None)
        if share is None:
            return
        for slot in share.slots:
            self._indexed[slot] = None
        self._free.extend(sorted(share.slots, reverse=True))
        for term in share.terms:
            kept = _without(self._postings.pop(term), share.slots)
            if kept.slots:
                self._postings[term] = kept


def _bare_name(document: Document) -> str:
    """Empty for library entries: they are not the same as a tool of that name."""
    if document.server_id.startswith(KEPT_MARK):
        return f"{document.server_id}.{document.name}"
    return "".join(filter(str.isalnum, document.name.casefold())) or document.name


def _add(postings: _Postings, places: list[tuple[list[float], float]]) -> None:
    """Add a term's scores to each of `places`, two at a time: a long question shares most terms with one sentence."""
    for (one, worth), *rest in (places[at : at + 2] for at in range(0, len(places), 2)):
        if rest:
            ((other, other_worth),) = rest
            for slot, fit in zip(postings.slots, postings.fits, strict=True):
                one[slot] += worth * fit
                other[slot] += other_worth * fit
        else:
            for slot, fit in zip(postings.slots, postings.fits, strict=True):
                one[slot] += worth * fit


def _without(postings: _Postings, gone: frozenset[int]) -> _Postings:
    kept = _Postings()
    for slot, fit in zip(postings.slots, postings.fits, strict=True):
        if slot not in gone:
            kept.slots.append(slot)
            kept.fits.append(fit)
    return kept


def _fits(fields: Fields, tuning: Tuning, read: Callable[[str], list[str]]) -> dict[str, float]:
    """How well each term fits, between 0 and 1: frequency weighted by field and length, saturated."""
    frequency: dict[str, float] = {}
    for text, weight, typical in zip(fields, tuning.weights, tuning.typical_terms, strict=True):
        found = read(text)
        worth = weight / (1 - tuning.length_share + tuning.length_share * len(found) / typical)
        for term in found:
            frequency[term] = frequency.get(term, 0.0) + worth
    return {term: value / (tuning.saturation + value) for term, value in frequency.items()}
