"""What others use of stored trees; `service` implements it. Both it and the fake pass `tests/storage/test_contract.py`.

How a tree is used by an execution: `hold` it (one execution at a time), bring `held.snapshot` into the sandbox, run,
write what changed into `held.writer()`, `commit`. What is not committed leaves the tree as it was: a hold that is given
up, or whose process dies, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from moonpool.features.storage.model import Entry, FileTree, TreeName


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeState:
    """What is known of a tree without opening it. Times in seconds since 1970."""

    name: TreeName
    bytes_count: int
    entry_count: int
    version: int  # of its content, 0 while it was never written
    created_at: float
    used_at: float
    held_by: str  # the execution that has it by a lease that goes on; empty: none


class Snapshot(Protocol):
    """A tree as it was at one commit, readable for an hour after it was superseded."""

    @property
    def tree(self) -> FileTree: ...
    @property
    def digest(self) -> str:
        """SHA-256 of its manifest."""
        ...

    @property
    def version(self) -> int: ...
    def read(self, entry: Entry, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Bytes `start` to before `end` of a file of this tree, in parts of 8 MiB at most. A whole read is compared
        with the file's digest. Raises StorageError.
        """
        ...


class TreeWriter(Protocol):
    """Collects a change; blobs are written as they fill. Files are written one after the other."""

    async def begin_file(self, path: str, *, size: int, mode: int = 0o644, modified_ns: int = 0) -> None:
        """The next `size` bytes of `write` are its content. Raises InputError, TreeFullError."""
        ...

    async def write(self, content: bytes) -> None: ...
    def folder(self, path: str, *, mode: int = 0o755, modified_ns: int = 0) -> None: ...
    def link(self, path: str, target: str, *, modified_ns: int = 0) -> None: ...
    def remove(self, path: str) -> None:
        """It and all below it."""
        ...

    @property
    def bytes_count(self) -> int:
        """Of file contents, so far."""
        ...


class HeldTree(Protocol):
    """A tree that this execution alone may change by running. Uploads may change it meanwhile."""

    @property
    def name(self) -> TreeName: ...
    @property
    def snapshot(self) -> Snapshot:
        """What it was when it was taken."""
        ...

    def writer(self) -> TreeWriter: ...
    async def commit(self, writer: TreeWriter) -> Snapshot:
        """Apply what `writer` collected to what the tree is now, durably, whole or not at all.

        Raises TreeLostError, TreeFullError, StorageError, DatabaseError.
        """
        ...


class OrganisationTrees(Protocol):
    """Threads and volumes of one organisation. Every method raises DatabaseError, StorageError."""

    def hold(self, name: TreeName, execution_id: str) -> AbstractAsyncContextManager[HeldTree]:
        """Have it until the block ends. A thread is made by its first use; a volume is there or unknown.

        Raises TreeBusyError, UnknownTreeError, TreeFullError (too many threads).
        """
        ...

    async def snapshot(self, name: TreeName) -> Snapshot:
        """As it is now. Raises UnknownTreeError."""
        ...

    async def state(self, name: TreeName) -> TreeState:
        """Raises UnknownTreeError."""
        ...

    async def all(self, kind: str, owner: str | None = None) -> Sequence[TreeState]:
        """By name; `owner` None: of all owners."""
        ...

    async def create_volume(self, slug: str) -> TreeState:
        """Raises InputError when there is one of this slug."""
        ...

    def writer(self, name: TreeName) -> TreeWriter:
        """For a change that no execution makes: an upload, a removal."""
        ...

    async def commit(self, name: TreeName, writer: TreeWriter) -> Snapshot:
        """As `HeldTree.commit`, also while an execution has it. A thread is made if there is none."""
        ...

    async def delete(self, name: TreeName) -> None:
        """It and its files. Raises UnknownTreeError, TreeBusyError."""
        ...


class Trees(Protocol):
    """Those of a service."""

    def of(self, organisation: str, /) -> OrganisationTrees: ...
