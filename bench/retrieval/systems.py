"""The rankings that are compared: the catalog's search, a plain BM25F, SQLite's FTS5. fastmcp's stands apart."""

from __future__ import annotations

import math
import re
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from bench.retrieval.metrics import DEPTH
from moonpool.catalog.documents import tool_document
from moonpool.catalog.questions import QUERY_CHARS_MAX
from moonpool.catalog.render import ALSO_MAX
from moonpool.catalog.text import terms

if TYPE_CHECKING:
    from bench.retrieval.metrics import Line
    from bench.retrieval.query_sets import Key
    from moonpool.catalog.catalog import Catalog
    from moonpool.core.manifest import Manifest

_WEIGHTS = (3.0, 2.0, 0.7, 1.5, 0.8, 0.5, 0.5)
_K1, _B = 1.2, 0.7
_FTS_WEIGHTS = (5.0, 5.0, 1.0)


class Ranker(Protocol):
    """Ranks the tools of one catalog."""

    def rank(self, query: str, depth: int = DEPTH) -> list[Line]: ...


def asked_text(query: str) -> str:
    """As much of a question as a search takes."""
    return query.strip()[:QUERY_CHARS_MAX]


class OurSearch:
    """What a session asks. `strict`: a folded namesake does not count as shown."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def rank(self, query: str, depth: int = DEPTH) -> list[Line]:
        if not query.strip():
            return []  # the catalog refuses it
        hits = self.catalog.search(asked_text(query), limit=depth, detail="name")
        return [self._line(hit.path, hit.also) for hit in hits]

    def _line(self, path: str, also: tuple[str, ...]) -> Line:
        tools = [self.catalog.find_path(one) for one in (path, *also[:ALSO_MAX])]
        return tuple((tool.server_id, tool.name) for tool in tools)


class PlainBm25f:
    """BM25F as in the books over the same fields and words: no synonyms, no bonuses, no folding."""

    def __init__(self, manifest: Manifest) -> None:
        self._keys: list[Key] = []
        documents: list[list[list[str]]] = []
        for server in manifest.servers:
            for tool in server.tools:
                documents.append([terms(text) for text in tool_document(tool, server).fields])
                self._keys.append((tool.server_id, tool.name))
        count = max(1, len(documents))
        averages = [max(1.0, sum(len(one[place]) for one in documents) / count) for place in range(len(_WEIGHTS))]
        self._postings: dict[str, list[tuple[int, float]]] = {}
        for slot, texts in enumerate(documents):
            frequency: Counter[str] = Counter()
            for words, weight, average in zip(texts, _WEIGHTS, averages, strict=True):
                for word in words:
                    frequency[word] += weight / (1 - _B + _B * len(words) / average)  # type: ignore[assignment]
            for word, value in frequency.items():
                self._postings.setdefault(word, []).append((slot, value / (_K1 + value)))

    def rank(self, query: str, depth: int = DEPTH) -> list[Line]:
        scores: dict[int, float] = {}
        for word, count in Counter(terms(query)).items():
            postings = self._postings.get(word, [])
            rarity = math.log((len(self._keys) - len(postings) + 0.5) / (len(postings) + 0.5) + 1)
            for slot, fit in postings:
                scores[slot] = scores.get(slot, 0.0) + (1 + math.log(count)) * rarity * fit
        best = sorted(scores, key=lambda slot: (-scores[slot], self._keys[slot]))[:depth]
        return [(self._keys[slot],) for slot in best]


class SqliteFts5:
    """FTS5 with the Porter stemmer over split identifiers; name and server weigh 5, the rest 1."""

    def __init__(self, manifest: Manifest) -> None:
        self._keys: list[Key] = []
        self._db = sqlite3.connect(":memory:")
        self._db.execute("create virtual table t using fts5(name, server, rest, tokenize='porter unicode61')")
        for server in manifest.servers:
            for tool in server.tools:
                texts = tool_document(tool, server).fields
                rest = " ".join(
                    (
                        texts.title,
                        texts.description,
                        texts.server_description,
                        texts.parameter_names,
                        texts.parameter_descriptions,
                    )
                )
                self._db.execute(
                    "insert into t(rowid, name, server, rest) values (?, ?, ?, ?)",
                    (len(self._keys) + 1, _split(texts.name), _split(texts.server), _split(rest)),
                )
                self._keys.append((tool.server_id, tool.name))

    def rank(self, query: str, depth: int = DEPTH) -> list[Line]:
        words = dict.fromkeys(re.findall(r"[^\W_]+", _split(query).lower()))
        kept = [word for word in words if terms(word)]  # the same stop words
        if not kept:
            return []
        asked = " OR ".join(f'"{word}"' for word in kept)
        rows = self._db.execute(
            f"select rowid from t where t match ? order by bm25(t, {', '.join(map(str, _FTS_WEIGHTS))}), rowid limit ?",  # noqa: S608
            (asked, depth),
        )
        return [(self._keys[row[0] - 1],) for row in rows]


def _split(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", text)
