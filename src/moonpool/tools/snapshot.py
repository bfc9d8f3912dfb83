"""The tools at one moment, and how a sandbox comes to see them.

The tool registry (`moonpool.engine.tool_registry`) makes snapshots, a replay makes one of what was recorded.

INVARIANT: a snapshot never changes; a changed list makes another one.
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
    """The tools at one moment, and the wrapper tree that goes with them."""

    manifest: Manifest = field(default_factory=Manifest)
    tree: Path
    digest: str  # of the tree; changes when the manifest or the set of unreachable servers does
    problems: Mapping[str, str] = field(default_factory=dict[str, str])  # server id -> why its tools are missing
    changes: tuple[ToolDiff, ...] = ()  # dangerous ones that nobody has accepted
    missing: tuple[str, ...] = ()  # servers without a listing: their packages say so
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])  # of some of these, for code: why
    library_problems: tuple[str, ...] = ()  # a sentence for each saved action or skill that is left out

    def why_missing(self) -> dict[str, str]:
        """A sentence for each server without a listing, as code and models may read it."""
        return {server_id: why_missing(server_id, self.reasons) for server_id in self.missing}

    @property
    def tree_ref(self) -> TreeRef:
        """The wrapper tree, as a sandbox is opened with it."""
        return TreeRef(self.tree, self.digest)


async def show(sandbox: Sandbox, snapshot: ToolSnapshot) -> None:
    """Publish a snapshot's wrappers in a sandbox, unless they are there. Raises SandboxStartError."""
    if sandbox.shows(snapshot.digest):
        return
    try:
        try:
            await asyncio.to_thread(sandbox.publish, snapshot.tree, snapshot.digest)
        except FileNotFoundError:  # newer trees have taken its place on disk
            await asyncio.to_thread(write_tree, snapshot.tree, snapshot.manifest, snapshot.missing, snapshot.reasons)
            await asyncio.to_thread(sandbox.publish, snapshot.tree, snapshot.digest)
    except OSError as error:
        if not sandbox.has_ended:  # its slot goes with it
            raise SandboxStartError(step="wrappers", reason=str(error)) from error
