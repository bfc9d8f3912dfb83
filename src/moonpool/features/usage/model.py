"""What the tools of a configuration cost to show, and what a model was shown of them, in o200k tokens. Pure.

These figures are the same wherever they are told: in every envelope (`metrics.tokens`), by `moonpool stats tokens` and
on `/metrics`. They are counted in `moonpool.features.usage.token_accounting` alone.

INVARIANT: nothing saved is flattered. Where no model was shown anything nothing was spent, and nothing was saved
either; a catalog that cost more than all definitions saved less than nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject

KINDS: Final = ("manifest", "own_tools", "search", "definition")
"""What a model reads in order to know the tools: the handshake's text, our own definitions, answers on demand."""
OTHER: Final = "other"
"""Of records of another version: kinds that this one does not know."""
ON_DEMAND: Final = ("search", "definition")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTokens:
    """What the tools of one moment cost to show: all definitions, or what a model is given unasked instead."""

    tools: int = 0
    upfront: int = 0  # every definition, as a client without a catalog sends it
    manifest: int = 0  # the text of our handshake for these tools
    own_tools: int = 0  # our own definitions
    uncounted: int = 0  # tools that are not in the figures yet; 0 but for a moment after they are new

    @property
    def instead(self) -> int:
        """What is read unasked instead of every definition."""
        return self.manifest + self.own_tools

    def to_json(self) -> JsonObject:
        """As a figure of the configuration: what a model that connects now would be spared before it asks."""
        saved = self.upfront - self.instead
        return {
            "tools": self.tools,
            "upfront": self.upfront,
            "manifest": self.manifest,
            "own_tools": self.own_tools,
            "saved": saved,
            "reduction": _share(saved, self.upfront),
            **({"uncounted": self.uncounted} if self.uncounted else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFigures:
    """The tools behind executions, and what their model was shown so far; nobody was shown anything: no kinds."""

    tools: ToolTokens = field(default_factory=ToolTokens)
    by_kind: Mapping[str, int] = field(default_factory=dict[str, int])
    executions: int = 0

    @property
    def spent(self) -> int:
        return sum(self.by_kind.values())

    @property
    def manifest(self) -> int:
        """As it was shown; where nobody was shown it, what it would have been."""
        return self.by_kind.get("manifest", 0) if self.by_kind else self.tools.manifest

    @property
    def on_demand(self) -> int:
        """Of what was spent, answers of searches and definitions."""
        return sum(self.by_kind.get(kind, 0) for kind in ON_DEMAND)

    @property
    def on_demand_per_task(self) -> float:
        """Discovery so far, shared out over the executions that there were."""
        return round(self.on_demand / max(1, self.executions), 1)

    @property
    def saved(self) -> int:
        return self.tools.upfront - self.spent if self.by_kind else 0

    def to_json(self) -> JsonObject:
        return {
            "tools": self.tools.tools,
            "upfront": self.tools.upfront,
            "manifest": self.manifest,
            "spent": self.spent,
            "by_kind": {kind: self.by_kind[kind] for kind in (*KINDS, OTHER) if kind in self.by_kind},
            "on_demand_per_task": self.on_demand_per_task,
            "saved": self.saved,
            "reduction": _share(self.saved, self.tools.upfront),
            **({"uncounted": self.tools.uncounted} if self.tools.uncounted else {}),
        }


def _share(saved: int, upfront: int) -> float:
    """Of all definitions; 0 where there are none."""
    return round(saved / upfront, 4) if upfront else 0.0
