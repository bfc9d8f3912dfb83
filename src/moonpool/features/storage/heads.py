"""What is stored of trees besides blobs: heads, who holds them, and garbage. `table` and `memory` keep it."""

from __future__ import annotations

import re
import secrets
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.features.storage.model import TreeBusyError, TreeFullError, TreeLostError, TreeName, UnknownTreeError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from moonpool.features.storage.base import TreeState

LEASE_S: Final = 15.0
GARBAGE_S: Final = 3600.0
"""How long after it was superseded a snapshot can be read."""
PENDING_S: Final = 7200.0
"""How long a commit may write nothing before its blobs are removed."""
CLAIM_S: Final = 600.0
"""How long who removes garbage may take before another tries."""
LISTED_MAX: Final = 10_000
SWEPT_MAX: Final = 20
"""Rows of garbage that are claimed at once."""
_BLOB: Final = re.compile(r"[0-9a-z/]+-([0-9]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class TreeKey:
    """Which tree. SECURITY: every question names the organisation."""

    organisation: str
    name: TreeName


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeBounds:
    """Of one organisation."""

    threads_max: int = 10_000
    volumes_max: int = 100
    bytes_max: int = 100 * 1024**3
    """Of files. Blobs, with those that are still to be removed, may be twice as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a tree is now. Ids of trees are never used again."""

    tree_id: str
    version: int = 0
    manifest: str = ""  # its blob; empty: it was never written
    digest: str = ""
    bytes_count: int = 0  # of its files
    stored_bytes: int = 0  # of its blobs
    entry_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """An execution's claim to be the only one. `token` is the holder's own."""

    token: str
    execution_id: str
    commit_id: str  # noted with it, for the commit that probably follows
    lease_s: float = LEASE_S


@dataclass(frozen=True, slots=True)
class Commit:
    """A step from one head to the next."""

    commit_id: str
    _: KW_ONLY
    base: Head
    head: Head  # with `base.version + 1`
    garbage: Collection[str]  # blobs that nothing refers to any more
    token: str | None = None  # of the holder; None: it is no execution's
    only_removes: bool = False  # so that it may be made where there is too much already


@dataclass(frozen=True, slots=True)
class Garbage:
    """Blobs to be removed: these, or all that begin with `prefix`."""

    organisation: str
    garbage_id: str
    prefix: str = ""
    names: Sequence[str] = ()


class HeadMovedError(Exception):
    """Another commit came between; nothing was changed."""


class TreeHeads(Protocol):
    """All heads of a service. Every method raises DatabaseError."""

    async def hold(self, key: TreeKey, hold: Hold, /) -> Head:
        """Make a thread if there is none; take it, and note the commit. Raises TreeBusyError, UnknownTreeError,
        TreeFullError.
        """
        ...

    async def renew(self, key: TreeKey, hold: Hold, /) -> bool:
        """False: it is not the holder's any more."""
        ...

    async def release(self, key: TreeKey, hold: Hold, /, *, unused: bool) -> None:
        """`unused`: nothing was written for the noted commit."""
        ...

    async def begin(self, key: TreeKey, commit_id: str, /) -> Head:
        """Note a commit without a hold; a thread is made if there is none. Raises UnknownTreeError, TreeFullError."""
        ...

    async def note(self, organisation: str, commit_id: str, bytes_count: int, /) -> None:
        """So much is written for it, from now on. Raises TreeLostError when its blobs are being removed, TreeFullError
        when the organisation's would be too much.
        """
        ...

    async def commit(self, key: TreeKey, commit: Commit, /) -> None:
        """Durably. Raises HeadMovedError, TreeLostError, UnknownTreeError, TreeFullError."""
        ...

    async def find(self, key: TreeKey, /) -> tuple[Head, TreeState]:
        """Raises UnknownTreeError."""
        ...

    async def all(self, organisation: str, kind: str, owner: str | None, /) -> Sequence[TreeState]: ...
    async def create(self, key: TreeKey, /) -> TreeState:
        """Raises InputError when it is there, TreeFullError."""
        ...

    async def delete(self, key: TreeKey, /) -> None:
        """All its blobs become garbage. Raises UnknownTreeError, TreeBusyError."""
        ...

    async def claim_garbage(self) -> Sequence[Garbage]:
        """What is to be removed now, at most `SWEPT_MAX`. INVARIANT: none of its commits can succeed any more."""
        ...

    async def forget_garbage(self, garbage: Garbage, /) -> None:
        """It is removed."""
        ...

    async def clear_holds(self) -> None:
        """Take every tree from its holder. For a service that is alone with its database, when it starts."""
        ...


def new_id() -> str:
    """Of a tree, a commit, a holder: 120 bits."""
    return secrets.token_hex(15)


def blob_bytes(name: str) -> int:
    """How large a blob of a tree is: its name ends in it."""
    found = _BLOB.fullmatch(name)
    return int(found[1]) if found else 0


def unknown_tree(name: TreeName) -> UnknownTreeError:
    return UnknownTreeError(
        f"there is no {name.kind} {name.name} here; list the {name.kind}s of the organisation to see what there is"
    )


def busy_tree(name: TreeName) -> TreeBusyError:
    what = f"thread {name.name} is" if name.kind == "thread" else f"volume {name.name} is written"
    return TreeBusyError(f"{what} in use by another execution; wait for its end, or use another {name.kind}")


def lost_tree(name: TreeName) -> TreeLostError:
    return TreeLostError(f"the {name.kind} {name.name} was taken from this execution; its changes were not kept")


def removed_commit() -> TreeLostError:
    return TreeLostError("what was being stored waited for too long and was removed; begin it anew")


def too_many_trees(kind: str, count_max: int) -> TreeFullError:
    return TreeFullError(f"the organisation has {count_max:,} {kind}s, which is the most; delete one")


def too_many_bytes(bytes_max: int) -> TreeFullError:
    return TreeFullError(
        f"the organisation's files may have {bytes_max:,} bytes in all; remove some (space is free an hour later)"
    )
