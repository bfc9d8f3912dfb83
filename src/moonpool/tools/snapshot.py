"""The tools at one moment, and publishing them in a sandbox.

The tool registry (`moonpool.engine.tool_registry`) makes snapshots; a replay makes one from its recording.

INVARIANT: a snapshot never changes; a changed list gives a new one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moonpool.core.manifest import Manifest
from moonpool.sandboxes.base import SandboxStartError, TreeRef
from moonpool.tools.wrapper_tree import why_missing, write_tree

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from moonpool.features.drift.model.changes import ToolDiff
    from moonpool.sandboxes.base import Sandbox


@dataclass(frozen=True, kw_only=True)
class ToolSnapshot:
    """The tools at one moment, and their wrapper tree."""

    manifest: Manifest = field(default_factory=Manifest)  # what code may use
    direct: Manifest = field(default_factory=Manifest)  # what clients may call without code (`expose`)
    tree: Path
    digest: str  # of the tree; changes when the manifest or the set of unreachable servers does
    problems: Mapping[str, str] = field(default_factory=dict[str, str])  # server id -> why its tools are missing
    changes: tuple[ToolDiff, ...] = ()  # dangerous ones that were not accepted
    missing: tuple[str, ...] = ()  # servers without a listing: their packages say so
    # for some of these: the reason, as shown to code
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    library_problems: tuple[str, ...] = ()  # one sentence per saved action or skill that is left out

    def why_missing(self) -> dict[str, str]:
        """A sentence for each server without a listing, safe to show to code and models."""
        return {server_id: why_missing(server_id, self.reasons) for server_id in self.missing}

    @property
    def tree_ref(self) -> TreeRef:
        """The wrapper tree, for opening a sandbox."""
        return TreeRef(self.tree, self.digest)


async def show(sandbox: Sandbox, snapshot: ToolSnapshot) -> None:
    """Publish a snapshot's wrappers in a sandbox unless it has them. Raises SandboxStartError."""
    if sandbox.shows(snapshot.digest):
        return
    try:
        try:
            await asyncio.to_thread(sandbox.publish, snapshot.tree, snapshot.digest)
        except FileNotFoundError:  # it was removed in favour of newer trees
            await asyncio.to_thread(write_tree, snapshot.tree, snapshot.manifest, snapshot.missing, snapshot.reasons)
            await asyncio.to_thread(sandbox.publish, snapshot.tree, snapshot.digest)
    except OSError as error:
        if not sandbox.has_ended:  # its slot is removed, too
            raise SandboxStartError(step="wrappers", reason=str(error)) from error
