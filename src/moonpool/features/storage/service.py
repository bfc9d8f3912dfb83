"""Threads and volumes: held by executions, read, changed and removed. Blobs are durable before a head refers to them.

A commit builds the next tree on the head as it is known, writes what is new and the manifest side by side, and changes
the head by compare-and-swap. When another commit came between, the change is applied to that one's tree instead.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio.to_thread

from moonpool.features.storage.heads import (
    LEASE_S,
    Commit,
    Head,
    HeadMovedError,
    Hold,
    TreeKey,
    blob_bytes,
    lost_tree,
    new_id,
)
from moonpool.features.storage.model import (
    BLOB_BYTES_MAX,
    FileTree,
    TreeFullError,
    TreeLostError,
    TreeName,
    UnknownTreeError,
    manifest_digest,
)
from moonpool.features.storage.snapshots import IN_THREAD, StoredSnapshot, TreeReader
from moonpool.features.storage.writer import ChangeWriter, PendingCommit
from moonpool.sandboxes.shielding import finish
from moonpool.store.blobs.base import LISTED_MAX, StorageError
from moonpool.store.database.base import DatabaseError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from moonpool.features.storage.base import TreeState, TreeWriter
    from moonpool.features.storage.heads import TreeHeads
    from moonpool.features.storage.model import TreeChange
    from moonpool.features.storage.writer import NamedBlob
    from moonpool.store.blobs.base import BlobStore

_log = logging.getLogger(__name__)
_ATTEMPTS_MAX: Final = 50
"""Commits of others that may come between."""
_REMEMBERED_BLOB: Final = 1024**2


class StoredTrees:
    """The `Trees` of a service."""

    def __init__(self, heads: TreeHeads, blobs: BlobStore, *, lease_s: float = LEASE_S) -> None:
        self._heads, self._reader, self._lease_s = heads, TreeReader(blobs), lease_s

    def of(self, organisation: str, /) -> StoredOrganisation:
        return StoredOrganisation(self._heads, self._reader, organisation, self._lease_s)


@dataclass(frozen=True, slots=True)
class StoredOrganisation:
    """The `OrganisationTrees` of one."""

    heads: TreeHeads
    reader: TreeReader
    organisation: str
    lease_s: float = LEASE_S

    @asynccontextmanager
    async def hold(self, name: TreeName, execution_id: str) -> AsyncGenerator[StoredHold]:
        """See `OrganisationTrees.hold`."""
        key = self._key(name)
        hold = Hold(token=new_id(), execution_id=execution_id, commit_id=new_id(), lease_s=self.lease_s)
        try:
            head = await finish(self.heads.hold(key, hold))
        except asyncio.CancelledError:
            await finish(self._release(key, hold, unused=True))
            raise
        renewing = asyncio.create_task(self._renew(key, hold))
        held: StoredHold | None = None
        try:
            held = StoredHold(self, key, hold, await self.reader.open(head))
            yield held
        finally:
            renewing.cancel()
            await finish(self._release(key, hold, unused=held is None or held.is_unused))

    async def _renew(self, key: TreeKey, hold: Hold) -> None:
        while True:
            await asyncio.sleep(hold.lease_s / 3)
            try:
                if not await self.heads.renew(key, hold):
                    _log.warning("execution %s lost its %s", hold.execution_id, key.name.kind)
                    return
            except DatabaseError as error:
                _log.warning("the hold of execution %s was not renewed: %s", hold.execution_id, error)

    async def _release(self, key: TreeKey, hold: Hold, *, unused: bool) -> None:
        """One that cannot be given back ends with its lease."""
        try:
            await self.heads.release(key, hold, unused=unused)
        except DatabaseError as error:
            _log.warning("the hold of execution %s was not given back: %s", hold.execution_id, error)

    async def snapshot(self, name: TreeName) -> StoredSnapshot:
        return await self.reader.open((await self.heads.find(self._key(name)))[0])

    async def state(self, name: TreeName) -> TreeState:
        return (await self.heads.find(self._key(name)))[1]

    async def all(self, kind: str, owner: str | None = None) -> Sequence[TreeState]:
        return await self.heads.all(self.organisation, kind, owner)

    async def create_volume(self, slug: str) -> TreeState:
        return await self.heads.create(self._key(TreeName(kind="volume", name=slug)))

    async def delete(self, name: TreeName) -> None:
        await self.heads.delete(self._key(name))

    def writer(self, name: TreeName) -> ChangeWriter:
        return self.writer_of(self._key(name))

    def writer_of(self, key: TreeKey, noted: PendingCommit | None = None) -> ChangeWriter:
        """`noted`: its commit; None: it notes one when something is to be written."""

        async def begin() -> PendingCommit:
            if noted is not None:
                return noted
            commit_id = new_id()
            return PendingCommit((await self.heads.begin(key, commit_id)).tree_id, commit_id)

        async def note(pending: PendingCommit, bytes_count: int) -> None:
            await self.heads.note(self.organisation, pending.commit_id, bytes_count)

        return ChangeWriter(self.reader.blobs, begin, note)

    async def commit(self, name: TreeName, writer: TreeWriter) -> StoredSnapshot:
        """See `OrganisationTrees.commit`."""
        key = self._key(name)
        pending = await _own(writer).pending()  # which makes the thread
        head = (await self.heads.find(key))[0]
        if head.tree_id != pending.tree_id:
            raise lost_tree(name)  # it was removed, and made anew
        return await self.applied(key, _own(writer), head)

    async def applied(self, key: TreeKey, writer: ChangeWriter, head: Head, token: str | None = None) -> StoredSnapshot:
        """The snapshot with the change of `writer`, once it is durable; `head` is what is known of the tree."""
        change, blobs = await writer.finish()
        if change.is_empty:
            return await self.reader.open(head)
        pending = await writer.pending()
        for _ in range(_ATTEMPTS_MAX):
            snapshot = await self.reader.open(head)
            next_ = await _next(snapshot.tree, change)
            manifest = writer.next_name(len(next_.manifest))
            await self._put((*blobs, (manifest, next_.manifest)))
            blobs = ()
            new = _head_of(head, next_, manifest)
            garbage = _unreachable(snapshot, writer.names, next_.blobs | {manifest})
            try:
                await self.heads.commit(
                    key,
                    Commit(
                        pending.commit_id,
                        base=head,
                        head=new,
                        garbage=garbage,
                        token=token,
                        only_removes=not change.put,
                    ),
                )
            except HeadMovedError:
                head = (await self.heads.find(key))[0]
                continue
            except (TreeLostError, UnknownTreeError, TreeFullError):
                await self._discard(writer.names)
                raise
            self.reader.remember_tree(new.digest, next_.tree)
            return StoredSnapshot(self.reader, new, next_.tree)
        raise StorageError(f"the {key.name.kind} {key.name.name} is changed too often at the same time; try again")

    async def _put(self, blobs: Sequence[NamedBlob]) -> None:
        """All at once. Waits for each, and raises the first error."""
        puts = [self.reader.blobs.put(name, content) for name, content in blobs]
        for outcome in await asyncio.gather(*puts, return_exceptions=True):
            if outcome is not None:
                raise outcome
        for name, content in blobs[:-1]:  # the last is a manifest
            if len(content) <= _REMEMBERED_BLOB:
                self.reader.remember_blob(name, content)

    async def _discard(self, names: Sequence[str]) -> None:
        """Of a commit that was refused: its blobs may be noted no more, and they take room."""
        try:
            for start in range(0, len(names), LISTED_MAX):
                await self.reader.blobs.delete(names[start : start + LISTED_MAX])
        except StorageError as error:
            _log.warning("blobs of a refused commit were not removed: %s", error)

    def _key(self, name: TreeName) -> TreeKey:
        return TreeKey(self.organisation, name)


class StoredHold:
    """The `HeldTree` of an execution."""

    def __init__(self, trees: StoredOrganisation, key: TreeKey, hold: Hold, snapshot: StoredSnapshot) -> None:
        self._trees, self._key, self._hold, self._snapshot = trees, key, hold, snapshot
        self._first: ChangeWriter | None = None

    @property
    def name(self) -> TreeName:
        return self._key.name

    @property
    def snapshot(self) -> StoredSnapshot:
        return self._snapshot

    @property
    def is_unused(self) -> bool:
        """Nothing was written for the commit that was noted with the hold."""
        return self._first is None or self._first.is_unused

    def writer(self) -> ChangeWriter:
        if self._first is not None:
            return self._trees.writer_of(self._key)
        noted = PendingCommit(self._snapshot.head.tree_id, self._hold.commit_id)
        self._first = self._trees.writer_of(self._key, noted)
        return self._first

    async def commit(self, writer: TreeWriter) -> StoredSnapshot:
        """See `HeldTree.commit`."""
        self._snapshot = await self._trees.applied(self._key, _own(writer), self._snapshot.head, self._hold.token)
        return self._snapshot


class _Next(NamedTuple):
    """A tree that is to be, and what is computed of it."""

    tree: FileTree
    manifest: bytes
    digest: str
    blobs: frozenset[str]


async def _next(tree: FileTree, change: TreeChange) -> _Next:
    """Raises TreeFullError, InputError."""
    if len(tree) + len(change.put) < IN_THREAD:
        return _changed(tree, change)
    return await anyio.to_thread.run_sync(_changed, tree, change)


def _changed(tree: FileTree, change: TreeChange) -> _Next:
    changed = tree.changed(change)
    manifest = changed.encode()
    if len(manifest) > BLOB_BYTES_MAX:
        raise TreeFullError("the names of its files are too long in all; remove some files, or shorten their paths")
    return _Next(changed, manifest, manifest_digest(manifest), changed.blobs)


def _head_of(base: Head, next_: _Next, manifest: str) -> Head:
    return Head(
        tree_id=base.tree_id, version=base.version + 1, manifest=manifest, digest=next_.digest,
        bytes_count=next_.tree.bytes_count, entry_count=len(next_.tree),
        stored_bytes=len(next_.manifest) + sum(map(blob_bytes, next_.blobs)),
    )  # fmt: skip


def _unreachable(before: StoredSnapshot, written: Sequence[str], reachable: frozenset[str]) -> frozenset[str]:
    old = before.tree.blobs | {before.head.manifest} if before.head.manifest else before.tree.blobs
    return (old | frozenset(written)) - reachable


def _own(writer: TreeWriter) -> ChangeWriter:
    assert isinstance(writer, ChangeWriter), "a writer is committed where it was made"
    return writer
