"""Figures about Moonpool itself: from the audit journal, and what the tools of a configuration cost to show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.catalog.tokens import DefinitionCosts, count_tokens
from moonpool.core.measures import Measures, measure
from moonpool.store.journal_file import read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import Manifest

RECORDS: Final = 100_000
"""How many of the newest records are read unless somebody wants more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a model reads unasked of one configuration's tools: every definition, or the manifest and our own tools."""

    tools: int
    upfront: int
    manifest: int
    own_tools: int

    @property
    def instead(self) -> int:
        """What is read instead of every definition."""
        return self.manifest + self.own_tools

    def to_json(self) -> JsonObject:
        saved = self.upfront - self.instead
        return {
            "tools": self.tools,
            "upfront": self.upfront,
            "manifest": self.manifest,
            "own_tools": self.own_tools,
            "saved": saved,
            "reduction": round(saved / self.upfront, 4) if self.upfront else None,
        }


def read_measures(journal: Path, *, records: int = RECORDS) -> Measures:
    """Figures of the newest `records` of the journal, none before there is one; blocking. Raises JournalError."""
    if not journal.exists():
        return measure([])
    return measure(row.to_json() for row in read_rows(journal, tail=records))


def token_baseline(manifest: Manifest, *, shown: str, own_tools: str) -> Baseline:
    """`shown` and `own_tools` are the texts that a model gets instead of the definitions; blocking."""
    tools = tuple(manifest.tools())
    return Baseline(
        tools=len(tools),
        upfront=DefinitionCosts().upfront(tools),
        manifest=count_tokens(shown),
        own_tools=count_tokens(own_tools),
    )
