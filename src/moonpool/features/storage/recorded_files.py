"""Changes of stored trees that no execution makes: each is on its organisation's journal before it is reported.

INVARIANT: a file is there whole or not at all. What was changed stays changed when it cannot be recorded, and the error
says so.
"""

from __future__ import annotations

import time
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from moonpool.core.audit import JournalError
from moonpool.core.audit_records import StoredFilesRecord, time_stamp
from moonpool.core.errors import InputError, MoonpoolError
from moonpool.features.storage.contents import check_place, is_there
from moonpool.features.storage.model import (
    RESERVED,
    FileTree,
    TreeName,
    UnknownFileError,
    UnknownTreeError,
    is_reserved,
)
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from moonpool.core.audit import Journal
    from moonpool.features.storage.base import OrganisationTrees, TreeState
    from moonpool.features.storage.model import Entry


@dataclass(slots=True)
class _Done:
    size: int = 0
    sha256: str = ""
    is_changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFiles:
    """Of one organisation, by one principal. Methods raise what `OrganisationTrees` raises, and JournalError."""

    trees: OrganisationTrees
    journal: Journal
    principal: str
    redacted: Callable[[str], str] = field(default=str)  # a path as it may be on record

    async def check_place(self, name: TreeName, path: str) -> None:
        """Whether a file could be written there.

        Raises UnknownTreeError (a volume), PathTakenError, InputError for a path that is the host's own.
        """
        if name.kind == "thread" and is_reserved(path):
            raise InputError(f"{RESERVED} of a thread is Moonpool's own folder; choose another path")
        check_place(await self._tree(name), path)

    async def put(
        self,
        name: TreeName,
        path: str,
        content: AsyncIterator[bytes],
        *,
        size: int,
        mode: int = 0o644,
        still_allowed: Callable[[], Awaitable[None]] | None = None,
    ) -> Entry:
        """Write a file of `size` bytes, replacing one; a thread that is not there is made.

        `still_allowed` is asked when everything is here, before anything changes. Raises InputError when there comes
        more or less than `size`, and what `content` and `still_allowed` raise.
        """
        async with self._recording(name, "put", path) as done:
            await self.check_place(name, path)
            writer = self.trees.writer(name)
            await writer.begin_file(path, size=size, mode=mode, modified_ns=time.time_ns())
            async for piece in content:
                done.size += len(piece)
                if done.size > size:
                    break
                await writer.write(piece)
            if done.size != size:
                raise InputError(f"{done.size:,} bytes came instead of {size:,}; nothing was kept")
            if still_allowed is not None:
                await still_allowed()
            await self.check_place(name, path)  # it may have taken long
            snapshot = await finish(self.trees.commit(name, writer))
            entry = snapshot.tree.find(path)
            assert entry is not None
            done.sha256, done.is_changed = entry.sha256, True
        return entry

    async def remove(self, name: TreeName, path: str) -> None:
        """Remove a file or link, or a folder with all below it. Raises UnknownFileError."""
        async with self._recording(name, "removed", path) as done:
            if not is_there((await self.trees.snapshot(name)).tree, path):
                raise UnknownFileError(f"there is no {path[:200]!r} here; list the folder to see what there is")
            writer = self.trees.writer(name)
            writer.remove(path)
            await finish(self.trees.commit(name, writer))
            done.is_changed = True

    async def create_volume(self, slug: str) -> TreeState:
        """Raises InputError when there is one of this slug."""
        async with self._recording(TreeName(kind="volume", name=slug), "created", "") as done:
            state = await finish(self.trees.create_volume(slug))
            done.is_changed = True
        return state

    async def delete(self, name: TreeName) -> None:
        """Delete a thread or volume with all its files. Raises UnknownTreeError, TreeBusyError."""
        async with self._recording(name, "deleted", "") as done:
            await finish(self.trees.delete(name))
            done.is_changed = True

    async def _tree(self, name: TreeName) -> FileTree:
        try:
            return (await self.trees.snapshot(name)).tree
        except UnknownTreeError:
            if name.kind == "volume":
                raise
            return FileTree.empty()

    @asynccontextmanager
    async def _recording(self, name: TreeName, action: str, path: str) -> AsyncGenerator[_Done]:
        """Put what happens in the block on record, whatever happens."""
        done, ended_by = _Done(), "Cancelled"
        try:
            yield done
            ended_by = ""
        except MoonpoolError as error:
            ended_by = error.code
            raise
        except Exception as error:
            ended_by = type(error).__name__
            raise
        finally:
            await finish(self._record(name, action, path, done, ended_by))

    async def _record(self, name: TreeName, action: str, path: str, done: _Done, ended_by: str) -> None:
        record = StoredFilesRecord(
            run_id=f"files_{uuid.uuid4().hex}",
            at=time_stamp(datetime.now(UTC)),
            principal=self.principal,
            tree=f"{name.kind}:{name.name}",
            owner=name.owner,
            action=action,
            path=self.redacted(path),
            bytes=done.size,
            digest=f"sha256:{done.sha256}" if done.sha256 else "",
            error_type="" if done.is_changed else ended_by,
        )
        try:
            await self.journal.record(record)
        except JournalError as error:
            if not done.is_changed:
                raise
            raise JournalError(f"it was done ({action}), but is not on record: {error}") from error
