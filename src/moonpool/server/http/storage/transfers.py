"""Uploads and downloads by signed URL that are in progress: how many there may be, and their end when who asked for the
URL counts no more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.features.signed_urls.model import UrlRefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.server.http.lapsed_callers import Owner

TRANSFERS_MAX: Final = 64
"""Of one process. Each has some pieces of 8 MiB in memory at the most."""
OWN_TRANSFERS_MAX: Final = 16
"""Of them, of one organisation."""


class TooManyTransfersError(MoonpoolError):
    """As many files are sent by signed URL as may be at once. Nothing was done (HTTP 429)."""

    code = "too_many_transfers"
    fault = Fault.CALLER
    retryable = True

    def __init__(self) -> None:
        super().__init__(
            f"as many files are on their way as may be ({OWN_TRANSFERS_MAX} of an organisation, {TRANSFERS_MAX} in "
            "all); try again when one has ended"
        )


class Transfers:
    """Of one process. Used on one event loop."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[object], Owner] = {}
        self._lapsed: set[asyncio.Task[object]] = set()

    @property
    def owners(self) -> set[Owner]:
        """Organisation and principal of those that have one."""
        return set(self._tasks.values())

    def uses(self, organisation: str) -> bool:
        return any(owner[0] == organisation for owner in self._tasks.values())

    def end_owner(self, organisation: str, principal: str) -> None:
        """End those of this principal, whose credential counts no more."""
        for task, owner in self._tasks.items():
            if owner == (organisation, principal) and task not in self._lapsed:
                self._lapsed.add(task)
                task.cancel()

    @asynccontextmanager
    async def taking(self, organisation: str, principal: str) -> AsyncGenerator[None]:
        """The current task carries one out in the block. Raises TooManyTransfersError; UrlRefusedError when it is ended
        by `end_owner`.
        """
        if len(self._tasks) >= TRANSFERS_MAX or self._count(organisation) >= OWN_TRANSFERS_MAX:
            raise TooManyTransfersError
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = (organisation, principal)
        try:
            yield
        except asyncio.CancelledError:
            if task in self._lapsed and not task.uncancel():
                raise UrlRefusedError from None
            raise
        finally:
            del self._tasks[task]
            self._lapsed.discard(task)

    def _count(self, organisation: str) -> int:
        return Counter(owner[0] for owner in self._tasks.values())[organisation]
