"""All sessions over HTTP of a process, by whose they are.

SECURITY: everything is looked up below (organisation, principal). A session of another caller is not found in the same
way, and in the same time, as one that never was.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from moonpool.core.errors import InputError
from moonpool.features.caller_limits.model import NO_LIMITS
from moonpool.features.caller_limits.service import CallerLimiter
from moonpool.features.caller_limits.table import QuotasInMemory
from moonpool.server.http.sessions.errors import (
    ServiceClosingError,
    TooManySessionsError,
    UnknownSessionError,
)
from moonpool.server.http.sessions.served_session import ServedSession, SessionOrigin, network_rules, open_kernel
from moonpool.server.http.sessions.tenants import SessionBounds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from moonpool.features.approvals.events import ApprovalQuestion
    from moonpool.features.approvals.service import Approvals
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.sessions import messages
    from moonpool.server.http.sessions.tenants import SessionTenants

_log = logging.getLogger(__name__)
_Owner = tuple[str, str]
_BOUNDS: Final = SessionBounds()


@asynccontextmanager
async def open_sessions(
    tenants: SessionTenants, bounds: SessionBounds = _BOUNDS, limiter: CallerLimiter | None = None
) -> AsyncGenerator[SessionRegistry]:
    """A registry; on exit its sessions are closed, and with them their streams end."""
    registry = SessionRegistry(tenants, bounds, limiter)
    try:
        yield registry
    finally:
        await registry.close_all()


class SessionRegistry:
    """Made by `open_sessions`."""

    def __init__(self, tenants: SessionTenants, bounds: SessionBounds, limiter: CallerLimiter | None = None) -> None:
        """Without `limiter` callers have no limits but these bounds."""
        self._tenants, self.bounds = tenants, bounds
        self.limiter = limiter or CallerLimiter(QuotasInMemory(), caller=NO_LIMITS, organisation=NO_LIMITS)
        self._sessions: dict[_Owner, dict[str, ServedSession]] = {}
        self._opening: dict[_Owner, int] = {}
        self._naming: WeakValueDictionary[_Owner, asyncio.Lock] = WeakValueDictionary()  # while one is opened by name
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self.changed = asyncio.Event()
        """Set whenever a session was opened or has ended."""

    # --- sessions

    async def create(self, caller: HttpCaller, wanted: messages.CreateSession) -> ServedSession:
        """Open a session, or find the one that has its name already.

        Raises TooManySessionsError, InputError, NetworkRuleError, and what opening a tenant does.
        """
        if wanted.name is None:
            return await self._created(caller, wanted)
        async with self._naming.setdefault((caller.organisation, caller.principal), asyncio.Lock()):
            if (named := self.named(caller, wanted.name)) is not None:
                return named
            return await self._created(caller, wanted)

    async def _created(self, caller: HttpCaller, wanted: messages.CreateSession) -> ServedSession:
        # SECURITY: an order names folders and programs of this machine.
        if wanted.terminal is not None and (not caller.is_terminal or wanted.checkpoints):
            raise InputError("`terminal` is for commands of the service's own user, without checkpoints; leave it out")

        async def made() -> ServedSession:
            async with AsyncExitStack() as stack:
                origin = await self._origin(caller, wanted, stack)
                session = ServedSession(origin, open_kernel(origin, network_rules(wanted.network)), now=self.now)
                stack.pop_all()  # the session releases it
                return session

        return await self._added(caller, made)

    async def _origin(self, caller: HttpCaller, wanted: messages.CreateSession, stack: AsyncExitStack) -> SessionOrigin:
        bounds, terminal = self.bounds, None
        if wanted.terminal is None:
            tenant = await self._tenants.tenant(caller.organisation)
        else:
            terminal = await self._tenants.for_terminal(wanted.terminal)
            stack.push_async_callback(terminal.release)
            tenant = terminal.tenant
        return SessionOrigin(
            caller=caller,
            tenant=tenant,
            runtime=await tenant.runtime_for(wanted),
            grant=tenant.grant(caller, wanted),
            wanted=wanted,
            idle_s=bounds.idle_s if terminal is None else terminal.idle_s,
            lifetime_s=bounds.lifetime_s if terminal is None else bounds.terminal_lifetime_s,
            folders=None if terminal is None else terminal.folders,
            release=None if terminal is None else terminal.release,
        )

    def named(self, caller: HttpCaller, name: str) -> ServedSession | None:
        """The session of this caller that has this name."""
        return next((one for one in self.all_of(caller) if one.origin.wanted.name == name and not one.is_closed), None)

    def uses(self, organisation: str) -> bool:
        """Whether it has a session, or one is being opened."""
        return any(owner[0] == organisation for owner in (*self._sessions, *self._opening))

    @property
    def is_empty(self) -> bool:
        """Whether no session is open or being opened."""
        return not self._sessions and not self._opening

    async def fork(self, caller: HttpCaller, session: ServedSession) -> ServedSession:
        """Another session with the state of this one. Raises TooManySessionsError, CheckpointError, InputError."""
        return await self._added(caller, lambda: session.fork(now=self.now))

    async def _added(self, caller: HttpCaller, make: Callable[[], Awaitable[ServedSession]]) -> ServedSession:
        owner = (caller.organisation, caller.principal)
        self._check_room(owner)
        self._opening[owner] = self._opening.get(owner, 0) + 1
        try:
            session = await make()
            if self._is_closing:
                await session.close()
                raise ServiceClosingError
            self._sessions.setdefault(owner, {})[session.session_id] = session
            self._look_again(owner, session)
            return session
        finally:
            self._opening[owner] -= 1
            if not self._opening[owner]:
                del self._opening[owner]
            self.changed.set()

    def _check_room(self, owner: _Owner) -> None:
        if self._is_closing:
            raise ServiceClosingError
        own = len(self._sessions.get(owner, ())) + self._opening.get(owner, 0)
        if own >= self.bounds.per_principal_max:
            raise TooManySessionsError(f"you have {own} sessions open; close some first")
        organisation = owner[0]
        opened = sum(len(found) for whose, found in self._sessions.items() if whose[0] == organisation)
        opened += sum(count for whose, count in self._opening.items() if whose[0] == organisation)
        if opened >= self.bounds.per_organisation_max:
            raise TooManySessionsError(f"your organisation has {opened} sessions open; close some first")

    def get(self, caller: HttpCaller, session_id: str) -> ServedSession:
        """A session of this caller. Raises UnknownSessionError."""
        if self._is_closing:
            raise ServiceClosingError
        session = self._sessions.get((caller.organisation, caller.principal), {}).get(session_id)
        if session is None or session.is_closed:
            raise UnknownSessionError
        return session

    def all_of(self, caller: HttpCaller) -> tuple[ServedSession, ...]:
        """The sessions of this caller, the oldest first."""
        return tuple(self._sessions.get((caller.organisation, caller.principal), {}).values())

    async def close(self, caller: HttpCaller, session_id: str) -> None:
        """End a session of this caller. Raises UnknownSessionError."""
        await self._end((caller.organisation, caller.principal), self.get(caller, session_id))

    async def _end(self, owner: _Owner, session: ServedSession) -> None:
        own = self._sessions.get(owner, {})
        own.pop(session.session_id, None)
        if not own:
            self._sessions.pop(owner, None)
        if (timer := self._timers.pop(session.session_id, None)) is not None:
            timer.cancel()
        await session.close()
        self.changed.set()

    @property
    def owners(self) -> set[tuple[str, str]]:
        """Organisation and principal of those that have a session."""
        return set(self._sessions)

    @property
    def is_busy(self) -> bool:
        """Whether code runs or waits in a session."""
        return any(session.runs_code for own in self._sessions.values() for session in own.values())

    def end_owner(self, organisation: str, principal: str) -> None:
        """End the sessions of this caller, in the background."""
        owner = (organisation, principal)
        for session in tuple(self._sessions.get(owner, {}).values()):
            self._end_soon(owner, session)

    def _end_soon(self, owner: _Owner, session: ServedSession) -> None:
        ending = asyncio.ensure_future(self._end(owner, session))
        self._ending.add(ending)
        ending.add_done_callback(self._ended)

    async def close_all(self) -> None:
        """End all sessions; none is opened any more."""
        self._is_closing = True
        sessions = [(owner, session) for owner, own in self._sessions.items() for session in own.values()]
        await asyncio.gather(*(self._end(owner, session) for owner, session in sessions), *self._ending)

    # --- time

    @property
    def now(self) -> float:
        """The clock of idle times."""
        return asyncio.get_running_loop().time()

    def _look_again(self, owner: _Owner, session: ServedSession) -> None:
        """End it when it has been idle for long enough, or lived for so long; look again at that time otherwise."""
        if session.is_closed:
            return
        idle_at = (self.now if session.is_busy else session.used_at) + session.origin.idle_s
        due = min(idle_at, session.expires_at)
        if due <= self.now:
            self._end_soon(owner, session)
            return
        timer = asyncio.get_running_loop().call_at(due, self._look_again, owner, session)
        self._timers[session.session_id] = timer

    def _ended(self, ending: asyncio.Task[None]) -> None:
        self._ending.discard(ending)
        if not ending.cancelled() and (error := ending.exception()) is not None:
            _log.error("a session that expired did not end well", exc_info=error)

    # --- approvals

    async def approvals(self, caller: HttpCaller) -> Approvals:
        """Those of the caller's organisation. Raises what opening its tenant does."""
        return (await self._tenants.tenant(caller.organisation)).approvals

    def asked_at_terminal(self, caller: HttpCaller) -> list[ApprovalQuestion]:
        """Calls of a terminal's sessions that wait. SECURITY: they are asked at that terminal, and nowhere else."""
        if not caller.is_terminal:
            return []
        own = self._sessions.get((caller.organisation, caller.principal), {}).values()
        return [
            question
            for session in own
            if session.origin.is_terminal
            for question in session.origin.tenant.events.open
            if question.request.run_id in session.run_ids
        ]
