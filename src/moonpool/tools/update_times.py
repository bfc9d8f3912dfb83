"""Times until a changed tool list is found and its wrappers regenerated (H-085). `features.drift.model.changes` defines
changes.

Two figures per change. `update_ms` is the time from the moment Moonpool could know (the server notified, or was asked)
until the new wrappers are on disk. `unseen_ms` starts at the server's last answer with the former list: the change may
have happened at any moment since, so it is an upper bound for the time that it was unnoticed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moonpool.core.manifest import ServerListing


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUpdate:
    """One server's changed list, from notice to wrappers."""

    server_id: str
    cause: str  # `told` or `asked`
    update_ms: float
    unseen_ms: float


@dataclass(slots=True)
class _Answer:
    tools: tuple[str, ...]  # digests
    at: float  # seconds since 1970


class UpdateClock:
    """Records when servers were asked and what they answered. One per tool registry."""

    def __init__(self) -> None:
        self._noticed: dict[str, tuple[float, str]] = {}
        self._answers: dict[str, _Answer] = {}
        self._found: dict[str, tuple[float, str, float]] = {}

    def told(self, server_id: str) -> None:
        """The server notified that its list changed."""
        self._noticed.setdefault(server_id, (time.monotonic(), "told"))

    def asks(self, server_id: str) -> None:
        """The server is asked for its list."""
        self._noticed.setdefault(server_id, (time.monotonic(), "asked"))

    def answered(self, server_id: str, listing: ServerListing, *, at: float | None = None) -> None:
        """The server answered with `listing`, now or (if cached) at time `at`."""
        now = time.time()
        before, digests = self._answers.get(server_id), tuple(tool.digest for tool in listing.tools)
        self._answers[server_id] = _Answer(digests, now if at is None else at)
        noticed = self._noticed.pop(server_id, None)
        if before is not None and noticed is not None and before.tools != digests:
            self._found.setdefault(server_id, (*noticed, max(0.0, now - before.at)))

    def shown(self) -> tuple[ToolUpdate, ...]:
        """The changes found since the last call: their wrappers are there now."""
        found, self._found = self._found, {}
        now = time.monotonic()
        return tuple(
            ToolUpdate(
                server_id=server_id,
                cause=cause,
                update_ms=round((now - since) * 1000, 3),
                unseen_ms=round(unseen * 1000, 3),
            )
            for server_id, (since, cause, unseen) in found.items()
        )
