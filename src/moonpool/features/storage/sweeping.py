"""Removes blobs that nothing refers to: an hour after they were superseded, two after a commit went silent."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.store.blobs.base import LISTED_MAX, StorageError
from moonpool.store.database.base import DatabaseError

if TYPE_CHECKING:
    from moonpool.features.storage.heads import Garbage, TreeHeads
    from moonpool.store.blobs.base import BlobStore

_log = logging.getLogger(__name__)
_EVERY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Of one process; those of replicas do not get in each other's way."""

    heads: TreeHeads
    blobs: BlobStore

    async def run(self) -> None:
        """Sweep until cancelled. What cannot be removed now is tried again later."""
        while True:
            try:
                while await self.sweep():
                    pass
            except DatabaseError as error:
                _log.warning("stored files that are no longer needed were not removed: %s", error)
            await asyncio.sleep(_EVERY_S)

    async def sweep(self) -> int:
        """Remove what is due, as much as is claimed at once; returns how much. Raises DatabaseError.

        INVARIANT: blobs go first and their row last, so what is not removed stays noted. What cannot be removed, until
        its claim ends, keeps nothing else from being removed.
        """
        count = 0
        for one in await self.heads.claim_garbage():
            try:
                await self._remove(one)
            except StorageError as error:
                _log.warning("stored files that are no longer needed were not removed: %s", error)
                continue
            await self.heads.forget_garbage(one)
            count += 1
        return count

    async def _remove(self, garbage: Garbage) -> None:
        names = garbage.names
        for start in range(0, len(names), LISTED_MAX):
            await self.blobs.delete(names[start : start + LISTED_MAX])
        if garbage.prefix:
            while found := await self.blobs.list(garbage.prefix):
                await self.blobs.delete(found)
                if len(found) < LISTED_MAX:
                    return
