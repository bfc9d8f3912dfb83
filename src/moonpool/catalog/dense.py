"""Vector scores: the interface that the catalog needs, and how they are combined with word scores.

The catalog holds no model and no vectors: a caller embeds `dense_texts` and passes a `Similarity` to
`Catalog.use_similarity`. Until then, and after every change of the tools, search uses words alone.

Each score is scaled to 0..1 over the whole catalog (0 stays 0); both are added with fixed weights (min-max convex
combination, decision 0030). Scaling includes tools that are filtered out, so a filter never changes the order of the
others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition

TEXT_CHARS_MAX: Final = 1_000
_BREAKS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-./]+")


class Similarity(Protocol):
    """Vectors of all tools of one manifest. Deterministic."""

    @property
    def word_share(self) -> float:
        """The weight of the word score against this model's score, from 0 to 1."""
        ...

    @property
    def floor(self) -> float:
        """Minimum similarity for a tool that shares no word with the question."""
        ...

    @property
    def bonus_share(self) -> float:
        """The share of the bonuses for names and servers that is kept; vectors may cover the same."""
        ...

    def to_tools(self, query: str, /) -> Sequence[float]:
        """The similarity of the question to each tool, in the order of `dense_texts`."""
        ...


@dataclass(frozen=True, slots=True)
class DenseText:
    """The text embedded for one tool: `server: name in words`, and the same with the description."""

    name: str
    text: str


def dense_texts(manifest: Manifest) -> list[DenseText]:
    """The texts of each tool, in the manifest's order."""
    return [_dense_text(server, tool) for server in manifest.servers for tool in server.tools]


def _dense_text(server: ServerListing, tool: ToolDefinition) -> DenseText:
    name = f"{server.title or server.name or server.server_id}: {_BREAKS.sub(' ', tool.name)}"[:TEXT_CHARS_MAX]
    return DenseText(name, f"{name}. {tool.description}"[:TEXT_CHARS_MAX])


def mixed(words: Sequence[float], similar: Sequence[float], by: Similarity) -> list[float]:
    """One combined score per tool; 0 if neither words nor vectors match."""
    if not words:
        return []
    best, low, high = max(words), min(0.0, *similar), max(similar)
    by_words = by.word_share / best if best > 0 else 0.0
    by_meaning = (1 - by.word_share) / (high - low) if high > low else 0.0
    floor = by.floor
    return [
        by_words * word + by_meaning * (near - low) if word > 0 or near >= floor else 0.0
        for word, near in zip(words, similar, strict=True)
    ]
