"""A tenant as sessions over HTTP use it: environments, limits and packages of one session, within the operator's."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import msgspec

from moonpool.bootstrap.folders import sandbox_uid
from moonpool.bootstrap.programs import find_runtimes
from moonpool.bootstrap.sandboxes import image_spec, sandbox_limits
from moonpool.bootstrap.tenant import package_installer
from moonpool.core.errors import InputError
from moonpool.engine.current_catalog import CurrentCatalog
from moonpool.engine.missing_tools import tell_missing_tools
from moonpool.engine.packages.model import PackageDisallowedError
from moonpool.engine.packages.specifiers import AllowedPackages
from moonpool.environments.resolve import is_built, resolve_environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from moonpool.bootstrap.tenant import Tenant
    from moonpool.engine.runtime import Runtime
    from moonpool.features.approvals.events import EventApprover
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.sandboxes.base import ImageSpec
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.sessions.messages import CreateSession, TerminalOrder
    from moonpool.server.http.sessions.tenants import TerminalTenant
    from moonpool.settings import Settings

_SETTING_OF: Final = {
    "timeout_s": "timeout_s",
    "memory_bytes": "memory_bytes_max",
    "cpu_s": "cpu_s_max",
    "cpu_cores": "cpu_cores_max",
    "disk_bytes": "disk_bytes_max",
    "processes": "process_count_max",
    "tool_calls": "tool_calls_max",
    "result_bytes": "result_bytes_max",
    "stdout_bytes": "stdout_bytes_max",
    "stderr_bytes": "stderr_bytes_max",
}
_MOST_OF: Final = {"timeout_s": "timeout_s_max"}


class TenantOfSessions:
    """What `moonpool.server.http.sessions` needs of a tenant. Close it before the tenant."""

    def __init__(self, tenant: Tenant, events: EventApprover) -> None:
        """`events` is the approver that the tenant was opened with."""
        self.events, self.approvals = events, tenant.approvals
        self.catalog = CurrentCatalog(tenant.tool_registry, tenant.vectors)
        self._tenant = tenant
        self._images: dict[str, ImageSpec] = {tenant.engine.settings.environment: tenant.engine.sandbox_spec.image}

    async def close(self) -> None:
        """Stop listing tools."""
        await self.catalog.close()

    def tell_missing_tools(self, say: Callable[[str], None], /) -> Coroutine[None, None, None]:
        """See `SessionTenant`."""
        return tell_missing_tools(self._tenant.tool_registry, say)

    def grant(self, caller: HttpCaller, wanted: CreateSession) -> CallerGrant:
        """See `SessionTenant`."""
        return self._tenant.caller_grants.grant(
            caller.principal,
            roles=caller.roles,
            client_id=caller.client_id,
            calls_max=wanted.limits.tool_calls,
            hides_host=not caller.is_terminal,
        )

    async def runtime_for(self, wanted: CreateSession) -> Runtime:
        """See `SessionTenant`."""
        tenant = self._tenant
        settings = narrowed(tenant.settings, wanted)
        image = await self._image(settings.environment)
        spec = replace(tenant.runtime.sandbox_spec, image=image, limits=sandbox_limits(settings))
        packages = tenant.runtime.packages
        if wanted.packages is not None or settings.environment != tenant.settings.environment:
            engine = replace(tenant.engine, sandbox_spec=replace(tenant.engine.sandbox_spec, image=image))
            packages = package_installer(engine, settings, tenant.data, tenant.tenant_id)
        return tenant.runtime.narrowed(settings, spec, packages)

    async def _image(self, name: str) -> ImageSpec:
        """SECURITY: nobody has an environment built by asking for it: that fetches packages and takes minutes."""
        if (known := self._images.get(name)) is not None:
            return known
        engine = self._tenant.engine
        root, uid = engine.data / "environments", sandbox_uid()
        if not await is_built(name, root=root, uid=uid):
            raise InputError(
                f"the environment {name!r} is not built at this service; its operator runs "
                f"`moonpool environments build {name}`"
            )
        environment = await resolve_environment(name, root=root, uid=uid)
        found = await find_runtimes(engine.data, engine.environ)
        return self._images.setdefault(name, image_spec(environment, root, found))


class TenantsOfSessions:
    """The tenants of a service, by organisation. Close it before them, and after all sessions."""

    def __init__(
        self,
        opened: Callable[[str], Awaitable[tuple[Tenant, EventApprover]]],
        for_terminal: Callable[[TerminalOrder], Awaitable[TerminalTenant]] | None = None,
    ) -> None:
        """`opened` gives the tenant of an organisation, opened if need be, and the approver that it was opened with;
        `for_terminal` that of an order.
        """
        self._opened, self._for_terminal = opened, for_terminal
        self._tenants: dict[str, tuple[Tenant, TenantOfSessions]] = {}

    async def tenant(self, organisation: str, /) -> TenantOfSessions:
        """See `SessionTenants`. Raises what opening it raises."""
        tenant, events = await self._opened(organisation)
        known = self._tenants.get(organisation)
        if known is None or known[0] is not tenant:  # it was closed, and opened again
            known = self._tenants[organisation] = tenant, TenantOfSessions(tenant, events)
        return known[1]

    async def end_organisation(self, organisation: str) -> None:
        """Its tenant is closed soon."""
        if (known := self._tenants.pop(organisation, None)) is not None:
            await known[1].close()

    async def for_terminal(self, order: TerminalOrder, /) -> TerminalTenant:
        """See `SessionTenants`."""
        if self._for_terminal is None:
            raise InputError("this service has no sessions of terminals")
        return await self._for_terminal(order)

    async def close(self) -> None:
        """Stop what they do."""
        tenants, self._tenants = self._tenants, {}
        await asyncio.gather(*(of_sessions.close() for _, of_sessions in tenants.values()))


def narrowed(settings: Settings, wanted: CreateSession) -> Settings:
    """`settings` with what a session wants. Raises InputError for more than they allow."""
    changed: dict[str, object] = {}
    for name, setting in _SETTING_OF.items():
        value = getattr(wanted.limits, name)
        if value is None:
            continue
        most = getattr(settings, _MOST_OF.get(name, setting))
        if value > most:
            raise InputError(f"limits: {name} is {value:,}, but this service allows at most {most:,}")
        changed[setting] = value
    if wanted.environment is not None:
        changed["environment"] = wanted.environment
    if wanted.packages is not None:
        changed["packages"] = _narrowed_packages(settings.packages, wanted.packages)
    return msgspec.structs.replace(settings, **changed)


def _narrowed_packages(operators: str, wanted: tuple[str, ...]) -> str:
    """The setting `packages` of a session: what it wants, without what the operator denies.

    SECURITY: a pattern is within the operator's if that matches it as text; a `?` of the operator's matches one
    character and never a `*`, so such patterns must be the same.
    """
    bound = AllowedPackages.parse("" if operators.strip() == "none" else operators)
    asked = AllowedPackages.parse(",".join(wanted))
    for word in asked.allowed:
        within = any(word == one or ("?" not in one and fnmatchcase(word, one)) for one in bound.allowed)
        if not within:
            raise PackageDisallowedError(f"this service does not let sessions install {word!r}")
    words = [*("any" if word == "*" else word for word in asked.allowed), *(f"!{one}" for one in asked.denied)]
    return ",".join([*words, *(f"!{one}" for one in bound.denied)]) or "none"
