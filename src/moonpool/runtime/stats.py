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
    """What a model would read of one configuration's tools: every definition, or the manifest alone."""

    tools: int
    upfront: int
    manifest: int

    def to_json(self) -> JsonObject:
        saved = self.upfront - self.manifest
        return {
            "tools": self.tools,
            "upfront": self.upfront,
            "manifest": self.manifest,
            "saved": saved,
            "reduction": round(saved / self.upfront, 4) if self.upfront else None,
        }


def read_measures(journal: Path, *, records: int = RECORDS) -> Measures:
    """Figures of the newest `records` of the journal; blocking. Raises JournalError."""
    return measure(row.to_json() for row in read_rows(journal, tail=records))


def token_baseline(manifest: Manifest, shown: str) -> Baseline:
    """`shown` is the text that a model gets instead of the definitions; blocking."""
    tools = tuple(manifest.tools())
    return Baseline(tools=len(tools), upfront=DefinitionCosts().upfront(tools), manifest=count_tokens(shown))
