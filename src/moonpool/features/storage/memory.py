"""Stored trees in memory, for tests of what uses them: `trees_in_memory()`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.core.errors import InputError
from moonpool.features.storage.base import TreeState
from moonpool.features.storage.heads import (
    CLAIM_S,
    GARBAGE_S,
    PENDING_S,
    SWEPT_MAX,
    Garbage,
    Head,
    HeadMovedError,
    TreeBounds,
    blob_bytes,
    busy_tree,
    lost_tree,
    new_id,
    removed_commit,
    too_many_bytes,
    too_many_trees,
    unknown_tree,
)
from moonpool.features.storage.service import StoredTrees
from moonpool.store.blobs.memory import MemoryBlobs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.features.storage.heads import Commit, Hold, TreeKey


@dataclass(slots=True)
class _Row:
    head: Head
    created_at: float
    used_at: float
    token: str = ""
    held_by: str = ""
    held_until: float = 0.0


@dataclass(slots=True)
class _Noted:
    garbage: Garbage
    state: str
    due_at: float
    bytes_count: int = 0


class MemoryHeads:
    """The `TreeHeads` of a test."""

    def __init__(self, bounds: TreeBounds | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._bounds, self._clock = bounds or TreeBounds(), clock
        self._rows: dict[TreeKey, _Row] = {}
        self._garbage: dict[str, _Noted] = {}

    async def hold(self, key: TreeKey, hold: Hold, /) -> Head:
        row, now = self._made(key), self._clock()
        if row.token and row.held_until > now:
            raise busy_tree(key.name)
        row.token, row.held_by, row.held_until, row.used_at = hold.token, hold.execution_id, now + hold.lease_s, now
        self._note(key, row.head, hold.commit_id)
        return row.head

    async def renew(self, key: TreeKey, hold: Hold, /) -> bool:
        row = self._rows.get(key)
        if row is None or row.token != hold.token:
            return False
        row.held_until = self._clock() + hold.lease_s
        return True

    async def release(self, key: TreeKey, hold: Hold, /, *, unused: bool) -> None:
        row = self._rows.get(key)
        if row is not None and row.token == hold.token:
            row.token, row.held_by, row.held_until = "", "", 0.0
        if unused and self._is_pending(hold.commit_id):
            del self._garbage[hold.commit_id]

    async def begin(self, key: TreeKey, commit_id: str, /) -> Head:
        row = self._made(key)
        self._note(key, row.head, commit_id)
        return row.head

    async def note(self, organisation: str, commit_id: str, bytes_count: int, /) -> None:
        if not self._is_pending(commit_id):
            raise removed_commit()
        noted = self._garbage[commit_id]
        noted.bytes_count, noted.due_at = bytes_count, self._clock() + PENDING_S
        self._check_stored(organisation)

    async def commit(self, key: TreeKey, commit: Commit, /) -> None:
        row = self._rows.get(key)
        if not self._is_pending(commit.commit_id):
            raise lost_tree(key.name)
        if row is None or row.head.tree_id != commit.base.tree_id:
            raise unknown_tree(key.name)
        if commit.token is not None and row.token != commit.token:
            raise lost_tree(key.name)
        if row.head.version != commit.base.version:
            raise HeadMovedError
        own = sum(one.head.bytes_count for other, one in self._rows.items() if other.organisation == key.organisation)
        grows = commit.head.bytes_count - commit.base.bytes_count
        if grows > 0 and own + grows > self._bounds.bytes_max:
            raise too_many_bytes(self._bounds.bytes_max)
        more = commit.head.stored_bytes - commit.base.stored_bytes + sum(map(blob_bytes, commit.garbage))
        if not commit.only_removes:
            self._check_stored(key.organisation, more - self._garbage[commit.commit_id].bytes_count)
        row.head, row.used_at = commit.head, self._clock()
        del self._garbage[commit.commit_id]
        if commit.garbage:
            garbage = Garbage(key.organisation, commit.commit_id, names=tuple(commit.garbage))
            self._keep(garbage, sum(map(blob_bytes, commit.garbage)))

    async def find(self, key: TreeKey, /) -> tuple[Head, TreeState]:
        row = self._rows.get(key)
        if row is None:
            raise unknown_tree(key.name)
        return row.head, _state(key, row, self._clock())

    async def all(self, organisation: str, kind: str, owner: str | None, /) -> Sequence[TreeState]:
        found = [
            _state(key, row, self._clock())
            for key, row in self._rows.items()
            if key.organisation == organisation and key.name.kind == kind and owner in {None, key.name.owner}
        ]
        return sorted(found, key=lambda one: (one.name.name, one.name.owner))

    async def create(self, key: TreeKey, /) -> TreeState:
        if key in self._rows:
            raise InputError(f"there is a {key.name.kind} {key.name.name} already; choose another name")
        return _state(key, self._made(key, only=key.name.kind), self._clock())

    async def delete(self, key: TreeKey, /) -> None:
        row = self._rows.get(key)
        if row is None:
            raise unknown_tree(key.name)
        if row.token and row.held_until > self._clock():
            raise busy_tree(key.name)
        del self._rows[key]
        self._keep(Garbage(key.organisation, new_id(), prefix=f"{row.head.tree_id}/"), row.head.stored_bytes)

    async def claim_garbage(self) -> Sequence[Garbage]:
        now = self._clock()
        due = [one for one in self._garbage.values() if one.due_at <= now][:SWEPT_MAX]
        for one in due:
            one.state, one.due_at = "swept", now + CLAIM_S
        return [one.garbage for one in due]

    async def forget_garbage(self, garbage: Garbage, /) -> None:
        self._garbage.pop(garbage.garbage_id, None)

    async def clear_holds(self) -> None:
        for row in self._rows.values():
            row.token, row.held_by, row.held_until = "", "", 0.0

    def _made(self, key: TreeKey, *, only: str = "thread") -> _Row:
        if key in self._rows:
            return self._rows[key]
        if key.name.kind != only:
            raise unknown_tree(key.name)
        count_max = self._bounds.threads_max if only == "thread" else self._bounds.volumes_max
        if sum(one.organisation == key.organisation and one.name.kind == only for one in self._rows) >= count_max:
            raise too_many_trees(only, count_max)
        now = self._clock()
        self._rows[key] = _Row(Head(tree_id=new_id()), created_at=now, used_at=now)
        return self._rows[key]

    def _check_stored(self, organisation: str, more: int = 0) -> None:
        stored = sum(row.head.stored_bytes for key, row in self._rows.items() if key.organisation == organisation)
        garbage = sum(one.bytes_count for one in self._garbage.values() if one.garbage.organisation == organisation)
        if stored + garbage + more > 2 * self._bounds.bytes_max:
            raise too_many_bytes(self._bounds.bytes_max)

    def _note(self, key: TreeKey, head: Head, commit_id: str) -> None:
        garbage = Garbage(key.organisation, commit_id, prefix=f"{head.tree_id}/{commit_id}/")
        self._garbage[commit_id] = _Noted(garbage, "pending", self._clock() + PENDING_S)

    def _keep(self, garbage: Garbage, bytes_count: int) -> None:
        self._garbage[garbage.garbage_id] = _Noted(garbage, "garbage", self._clock() + GARBAGE_S, bytes_count)

    def _is_pending(self, commit_id: str) -> bool:
        noted = self._garbage.get(commit_id)
        return noted is not None and noted.state == "pending"


def trees_in_memory(bounds: TreeBounds | None = None) -> StoredTrees:
    """The `Trees` of a test; nothing has to be closed."""
    return StoredTrees(MemoryHeads(bounds), MemoryBlobs())


def _state(key: TreeKey, row: _Row, now: float) -> TreeState:
    head = row.head
    return TreeState(
        name=key.name, bytes_count=head.bytes_count, entry_count=head.entry_count, version=head.version,
        created_at=row.created_at, used_at=row.used_at, held_by=row.held_by if row.held_until > now else "",
    )  # fmt: skip
