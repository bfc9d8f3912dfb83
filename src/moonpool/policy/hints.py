"""What policy may assume about a tool: the server's annotations, depending on the host's trust in the server.

SECURITY: annotations come from the server. Those of an untrusted server may raise a risk, never lower it (X-22).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moonpool.core.manifest import ToolDefinition

HINT_NAMES: Final = frozenset({"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """Behaviour of a tool as policy may rely on it. The defaults are MCP's own, which are the cautious ones."""

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True
    declared_destructive: bool = False  # declared by the server; counts with or without trust

    @property
    def repeatable(self) -> bool:
        """Whether calling twice has the same effect as calling once (X-21)."""
        return self.read_only or self.idempotent

    def value(self, hint_name: str) -> bool:
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }[hint_name]


def effective_hints(tool: ToolDefinition, *, trusted: bool) -> Hints:
    """What policy may assume about `tool`.

    SECURITY: of an untrusted server only a declared `destructiveHint: true` counts; everything else has its cautious
    default, so that no annotation makes a call look safer than an unannotated one.
    """
    hints = tool.annotations
    destructive = hints.get("destructiveHint") is True
    if not trusted:
        return Hints(declared_destructive=destructive)
    read_only = hints.get("readOnlyHint") is True and not destructive
    return Hints(
        read_only=read_only,
        destructive=destructive or (not read_only and hints.get("destructiveHint") is not False),
        idempotent=hints.get("idempotentHint") is True,
        open_world=hints.get("openWorldHint") is not False,
        declared_destructive=destructive,
    )
