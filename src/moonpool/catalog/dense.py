"""Vectors beside words: what the catalog asks of them, and how both scores become one.

The catalog holds no model and no numbers of one: somebody else embeds `dense_texts` and hands a `Similarity` to
`Catalog.use_similarity`. Until then, and after every change of the tools, search goes by words alone.

The two scores are each stretched to 0..1 over the whole catalog (0 stays 0) and added at fixed shares (min-max convex
combination, decision 0030). What is filtered out stays in the stretch, so a filter
never changes the order of what it lets through.
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
    """Vectors of every tool of one manifest. Deterministic: the same question gives the same numbers."""

    @property
    def word_share(self) -> float:
        """What the words' score is worth beside this model's, from 0 to 1."""
        ...

    @property
    def floor(self) -> float:
        """A tool that shares no word with the question counts only when it is at least so similar."""
        ...

    @property
    def bonus_share(self) -> float:
        """How much of the bonuses for names and servers stays: vectors may say the same already."""
        ...

    def to_tools(self, query: str, /) -> Sequence[float]:
        """How similar the question is to each tool, in the order of `dense_texts`."""
        ...


@dataclass(frozen=True, slots=True)
class DenseText:
    """What stands for one tool: `server: name in words`, and the same with the description."""

    name: str
    text: str


def dense_texts(manifest: Manifest) -> list[DenseText]:
    """The texts of each tool, in the manifest's order."""
    return [_dense_text(server, tool) for server in manifest.servers for tool in server.tools]


def _dense_text(server: ServerListing, tool: ToolDefinition) -> DenseText:
    name = f"{server.title or server.name or server.server_id}: {_BREAKS.sub(' ', tool.name)}"[:TEXT_CHARS_MAX]
    return DenseText(name, f"{name}. {tool.description}"[:TEXT_CHARS_MAX])


def mixed(words: Sequence[float], similar: Sequence[float], by: Similarity) -> list[float]:
    """One score per tool, 0 where neither words nor meaning speak for it."""
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
