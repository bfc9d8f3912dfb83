"""Labels: what a tool returns and does, declared by the host, never by a server.

`returns` names the kind of data that a tool's results are; a session remembers which labels it has received. `does`
names the effects of a call. Rules use them with `after` and `does` (`moonpool.policy.rules`). Labels of all layers are
combined, and such rules only tighten, so an additional label never loosens a decision (docs/decisions/0015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from moonpool.policy.conditions import check_pattern_size
from moonpool.policy.globs import glob_matches

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ToolDefinition

Returns: TypeAlias = Literal["private", "untrusted"]
"""Data that must not be sent out; text that anybody may have written."""
Does: TypeAlias = Literal["sends_out", "spends", "destroys"]
"""Lets data out; costs money; cannot be taken back."""
RETURNS: Final[tuple[Returns, ...]] = get_args(Returns)
DOES: Final[tuple[Does, ...]] = get_args(Does)
LABELS_PER_LAYER_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Labels for the tools that match two globs."""

    server: str = "*"
    tool: str = "*"
    returns: tuple[str, ...] = ()
    does: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_labels(self.returns, RETURNS)
        check_labels(self.does, DOES)
        for glob in (self.server, self.tool):
            check_pattern_size(glob)

    def covers(self, tool: ToolDefinition) -> bool:
        return glob_matches(self.server, tool.server_id) and glob_matches(self.tool, tool.name)

    def to_json(self) -> JsonObject:
        return {"server": self.server, "tool": self.tool, "returns": list(self.returns), "does": list(self.does)}


def check_labels(given: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Raise ValueError for an unknown label."""
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"unknown label {unknown[0]!r}; known are {', '.join(known)}")
