"""The tenants of organisations at a service.

One is opened when its organisation is first used and kept; its id is the organisation's. Without authentication there
is one, the command line's.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.bootstrap.organisation_servers import OrganisationServers
from moonpool.bootstrap.tenant import open_tenant
from moonpool.configuration.policies import policy_in_force
from moonpool.features.approvals.events import EventApprover
from moonpool.features.approvals.files import open_queue
from moonpool.sandboxes.shielding import finish
from moonpool.server.http.principal_servers import ServiceBusyError
from moonpool.store.paths import DEFAULT_TENANT, tenant_dir

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from moonpool.bootstrap.engine import Engine
    from moonpool.bootstrap.organisation_rules import OrganisationRules
    from moonpool.bootstrap.replicas import Replica
    from moonpool.bootstrap.stores import Stores
    from moonpool.bootstrap.tenant import Tenant
    from moonpool.configuration.servers import McpConfig
    from moonpool.features.consents.service import UserConsents
    from moonpool.features.servers.service import OwnServers
    from moonpool.settings import Settings

TENANTS_MAX: Final = 256
ORGANISATION_IDLE_S: float = 60.0
"""How long nobody must have asked for an organisation before it makes room for another. Longer than a request that
holds a tenant and is not among its callers or sessions takes.
"""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenOrganisation:
    """An organisation's tenant, and what asks about the calls of its sessions."""

    tenant: Tenant
    events: EventApprover
    stack: AsyncExitStack  # closes it


class Organisations:
    """The open tenants. Each is opened once; one that nobody uses makes room when there are too many."""

    def __init__(  # noqa: PLR0913  parts of the composition
        self,
        engine: Engine,
        config: McpConfig | None,
        report: Callable[[str], None],
        *,
        is_alone: bool,
        consents: UserConsents | None,
        servers: OwnServers | None,
        replica: Replica | None,
        stores: Stores,
        rules: OrganisationRules | None = None,
    ) -> None:
        """`is_alone`: this process can keep only one apart from others, see `sandboxes.identity`. `rules` follows those
        of organisations themselves.
        """
        self._engine, self._config, self._report, self._consents = engine, config, report, consents
        self.servers = None if servers is None else OrganisationServers(servers, config)
        self._replica, self._stores, self.rules = replica, stores, rules
        self._count_max = 1 if is_alone else TENANTS_MAX
        self._opening: dict[str, asyncio.Task[OpenOrganisation]] = {}
        self._asked_at: dict[str, float] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.use: Sequence[Callable[[str], bool]] = ()
        """Say whether something of an organisation is open or runs."""
        self.end_use: Sequence[Callable[[str], Awaitable[object]]] = ()
        """Forget its tenant; what they return ends when nothing of that is used any more."""

    @property
    def settings(self) -> Settings:
        return self._engine.settings

    async def get(self, organisation: str) -> OpenOrganisation:
        """Its open tenant. Raises ServiceBusyError when there is no room, or it cannot be opened now."""
        self._asked_at[organisation] = asyncio.get_running_loop().time()
        opening = self._opening.get(organisation)
        if opening is None:
            if len(self._opening) >= self._count_max:
                self._make_room()
            opening = self._opening[organisation] = asyncio.create_task(self._open(organisation))
        try:
            return await asyncio.shield(opening)
        except Exception:  # noqa: BLE001  whatever it was, the next request tries again
            # SECURITY: the message may name files of this machine; it is for the operator.
            _log.exception("the organisation %s cannot be served", organisation)
            if self._opening.get(organisation) is opening:
                del self._opening[organisation]
            raise ServiceBusyError("this organisation cannot be served now; the service's log says why") from None

    async def tenant(self, organisation: str) -> Tenant:
        """See `get`."""
        return (await self.get(organisation)).tenant

    @property
    def executes_in_background(self) -> bool:
        return any(self.background_count(organisation, "") for organisation in self._opening)

    def background_count(self, organisation: str, principal: str) -> int:
        """Executions of a principal, or of all (empty), that go on while no request waits for them."""
        found = self._found(organisation)
        if found is None:
            return 0
        executions = found.tenant.executions
        return (executions.of(principal) if principal else executions).detached_count

    def _found(self, organisation: str) -> OpenOrganisation | None:
        """It, if it is open."""
        opening = self._opening.get(organisation)
        if opening is None or not opening.done() or opening.cancelled() or opening.exception() is not None:
            return None
        return opening.result()

    def _make_room(self) -> None:
        """Close the one that nobody has used for longest. Raises ServiceBusyError when all are used."""
        idle = [] if self._count_max == 1 else [one for one in self._opening if self._is_idle(one)]
        if not idle:
            raise ServiceBusyError(self._no_room())
        organisation = min(idle, key=self._asked_at.__getitem__)
        opened = self._opening.pop(organisation).result()
        # INVARIANT: whoever asks from now on finds none of what uses its tenant, and opens it anew when it is closed.
        ending = [end(organisation) for end in self.end_use]
        closing = asyncio.create_task(self._close_one(organisation, opened, ending))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _is_idle(self, organisation: str) -> bool:
        unasked_s = asyncio.get_running_loop().time() - self._asked_at[organisation]
        found = self._found(organisation)
        return (
            organisation != DEFAULT_TENANT
            and unasked_s >= ORGANISATION_IDLE_S
            and found is not None
            and not found.tenant.runtime.is_executing
            and not self.background_count(organisation, "")
            and not any(uses(organisation) for uses in self.use)
        )

    async def _close_one(
        self, organisation: str, opened: OpenOrganisation, ending: Sequence[Awaitable[object]] = ()
    ) -> None:
        await asyncio.gather(*ending, return_exceptions=True)
        if self.servers is not None:
            await self.servers.unfollow(organisation)
        if self.rules is not None:
            self.rules.unfollow(organisation)
        if self._replica is not None:
            self._replica.running.pop(organisation, None)
        try:
            await finish(opened.stack.aclose())
        except Exception:  # noqa: BLE001  the others are closed all the same
            _log.exception("the organisation %s could not be closed in order", organisation)

    async def close(self) -> None:
        """Close all of them."""
        for opening in self._opening.values():
            opening.cancel()  # one that is open is not touched by this
        if left := {*self._opening.values(), *self._closing}:
            await asyncio.wait(left)
        if self.servers is not None:
            await self.servers.close()
        if self.rules is not None:
            await self.rules.close()
        for organisation in reversed(self._opening):
            if (opened := self._found(organisation)) is not None:
                await self._close_one(organisation, opened)

    async def _open(self, organisation: str) -> OpenOrganisation:
        engine, settings, replica = self._engine, self._engine.settings, self._replica
        if self._closing:  # it itself, perhaps; and no more are open than may be
            await asyncio.wait(set(self._closing))
        async with AsyncExitStack() as stack:
            folder = tenant_dir(engine.state, organisation)
            store = self._stores.of(organisation, folder).approvals()
            queue = await stack.enter_async_context(
                open_queue(store, self._report, settings.approval_command, engine.environ)
            )
            events = EventApprover(queue=queue)
            config = None if self._config is None else self._config.for_organisation(organisation)
            policy = await asyncio.to_thread(policy_in_force, settings, config)
            tenant = await stack.enter_async_context(
                open_tenant(
                    engine,
                    organisation,
                    config=config,
                    approver=events,
                    policy=policy,
                    eagerly=True,
                    journal_place=None if replica is None else replica.journal_place(organisation),
                    kept=None if replica is None else replica.kept(organisation),
                    consents=self._consents,
                    stores=self._stores,
                )
            )
            if self.rules is not None:
                await self.rules.follow(tenant)
            if self.servers is not None:
                await self.servers.follow(tenant)
            if replica is not None:
                replica.running[organisation] = tenant.executions
            return OpenOrganisation(tenant, events, stack.pop_all())

    def _no_room(self) -> str:
        if self._count_max == 1:
            return "this service serves another organisation; its operator has to start it as root to serve more"
        return f"this service serves {self._count_max} organisations now; try again later"
