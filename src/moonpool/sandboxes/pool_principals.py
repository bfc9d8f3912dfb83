"""Which principal of a tenant may have one more sandbox: nobody keeps the others of the tenant out.

A principal that is alone in its tenant may have all of the tenant's sandboxes; where there are more, each has at most
three quarters (`core.shares`). A caller above that waits here, before it stands in the pool's line; its place is taken
from the moment it may go on until its sandbox has ended, or until it got none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from moonpool.core.shares import Level, Shares
from moonpool.sandboxes.pool_refusals import PoolClosedError

if TYPE_CHECKING:
    from moonpool.sandboxes.base import Sandbox
    from moonpool.sandboxes.pool_limits import PoolLimits
    from moonpool.sandboxes.pool_refusals import Refusals


class PrincipalPlaces:
    """Places of the principals of one pool, by tenant (scope) and principal."""

    def __init__(self, limits: PoolLimits, refusals: Refusals) -> None:
        self._limits, self._refusals = limits, refusals
        self._shares = Shares(limits.alive_max, tenant_max=limits.alive_per_scope_max)
        self._line = Shares(limits.waiting_max)  # who waits, so that nobody fills it
        self._waiting: deque[tuple[str, str, asyncio.Future[None]]] = deque()
        self._of: dict[Sandbox, tuple[str, str]] = {}

    def __len__(self) -> int:
        """How many callers wait for another caller of their principal."""
        return len(self._waiting)

    def take_nowait(self, scope: str, principal: str) -> bool:
        """Take a place if the principal may have one more."""
        if self._shares.reached(scope, principal) is Level.PRINCIPAL:
            return False
        self._shares.take(scope, principal)
        return True

    async def take(self, scope: str, principal: str) -> None:
        """Take a place, or wait for one. Raises BusyError, PoolClosedError."""
        if self.take_nowait(scope, principal):
            return
        if self._line.reached(scope, principal):
            raise self._refusals.line_is_full(len(self._waiting))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (scope, principal, turn)
        self._waiting.append(entry)
        self._line.take(scope, principal)
        try:
            async with asyncio.timeout(self._limits.wait_s_max):
                await turn
        except (TimeoutError, asyncio.CancelledError) as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give_back(scope, principal)  # its turn came in the same moment
            if isinstance(error, asyncio.CancelledError):
                raise
            raise self._refusals.principal_has_its_share(self._shares.principal_max(scope, principal)) from None
        finally:
            self._line.give_back(scope, principal)
            if entry in self._waiting:
                self._waiting.remove(entry)

    def hold(self, sandbox: Sandbox, scope: str, principal: str) -> None:
        """The place is this sandbox's, until `ended`; one that has ended before its caller got it needs none."""
        if sandbox.has_ended:
            self.give_back(scope, principal)
        else:
            self._of[sandbox] = (scope, principal)

    def ended(self, sandbox: Sandbox) -> None:
        """A sandbox has ended; nothing happens for one that nobody held."""
        if (held := self._of.pop(sandbox, None)) is not None:
            self.give_back(*held)

    def refuse(self, scope: str | None = None) -> None:
        """Refuse the callers that wait, of one tenant or all."""
        for entry in tuple(self._waiting):
            if scope in (None, entry[0]) and not entry[2].done():
                self._waiting.remove(entry)
                entry[2].set_exception(PoolClosedError())

    def give_back(self, scope: str, principal: str) -> None:
        """A place is free again: whoever waited longest and may go on goes on."""
        self._shares.give_back(scope, principal)
        for entry in tuple(self._waiting):
            waiting_scope, waiting_principal, turn = entry
            if not turn.done() and self.take_nowait(waiting_scope, waiting_principal):
                self._waiting.remove(entry)
                turn.set_result(None)
