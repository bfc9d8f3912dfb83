"""The profile over HTTP: a kernel for each MCP session, and one for all requests of a caller that have no session.

A kernel ends with its connection (DELETE, idle, the end of its stream), and when it was not used for
`session_idle_s`. There is no folder of the host, and no server is connected on an agent's word: a server is the
operator's or the organisation's.

SECURITY: the tools of a caller are found below (organisation, principal), as everywhere (`server.http`), so nobody
reaches another's kernel.
"""

from __future__ import annotations

import weakref
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from moonpool.core.errors import Fault, InputError, MoonpoolError
from moonpool.core.json import digest_json
from moonpool.core.phrases import near_names
from moonpool.ipybox.mcp_apigen import check_name
from moonpool.ipybox.mcp_server.definitions import HOSTED_OFFER, REGISTER
from moonpool.ipybox.mcp_server.kernel import Stay
from moonpool.ipybox.mcp_server.outcomes import outcome_of
from moonpool.ipybox.mcp_server.tools import IpyboxTools
from moonpool.sandboxes.shielding import finish
from moonpool.server.mcp.profiles import PROFILES, Profile, Profiles
from moonpool.server.mcp.server import build_server
from moonpool.wrappers.names import name_manifest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from mcp.server import Server

    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.tool_registry import ToolRegistry
    from moonpool.features.approvals.model import ApprovalRequest
    from moonpool.ipybox.mcp_server.registration import Asking
    from moonpool.sdk.results import Result
    from moonpool.server.mcp.client_requests import Bindings
    from moonpool.server.mcp.tools import ServedApp

PER_PRINCIPAL_MAX: Final = 8
PER_ORGANISATION_MAX: Final = 32


class KernelsBusyError(MoonpoolError):
    """This caller, or its organisation, has as many kernels as it may. None was started."""

    code = "kernels_busy"
    fault = Fault.CALLER
    retryable = True


class KernelCounts:
    """How many kernels there are, by organisation and principal."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def take(self, organisation: str, principal: str) -> Callable[[], None]:
        """Count one more, until what is returned is called. Raises KernelsBusyError."""
        counts = self._counts.setdefault(organisation, Counter())
        if counts[principal] >= PER_PRINCIPAL_MAX:
            raise KernelsBusyError(_busy(f"you have {PER_PRINCIPAL_MAX} kernels"))
        if counts.total() >= PER_ORGANISATION_MAX:
            raise KernelsBusyError(_busy(f"your organisation has {PER_ORGANISATION_MAX} kernels"))
        counts[principal] += 1

        def leave() -> None:
            counts[principal] -= 1
            if not counts[principal]:
                del counts[principal]
            if not counts:
                self._counts.pop(organisation, None)

        return leave


def _busy(problem: str) -> str:
    return f"{problem}, which is the most; end an MCP session with DELETE, or wait until one was idle for long enough"


@dataclass(frozen=True, slots=True)
class HostedHome:
    """The `KernelHome` of a sandbox: its /workspace, which ends with it."""

    kernel_variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType(dict[str, str]()))
    calls: tuple[str, ...] = ()
    is_here: bool = False

    def make_packages(self) -> None:
        """Nothing: the sandbox has them."""

    def keep_pictures(self, result: Result) -> list[tuple[str, str]]:
        """Where code finds them; the answer shows them, too."""
        return [(one.name, f"/workspace/{one.name}") for one in result.displays if one.name]


@dataclass(frozen=True, slots=True)
class KnownServers:
    """Registers none: a server that the organisation has is told of."""

    registry: ToolRegistry

    async def register(self, name: str, params: JsonObject, run_id: str, asking: Asking, /) -> Envelope:
        """See `Registers`. Raises InputError."""
        del asking
        try:
            check_name(name)
        except ValueError as error:
            raise InputError(str(error)) from None
        begun = datetime.now(UTC)
        servers = name_manifest((await self.registry.snapshot()).manifest).servers
        by_module = {names.module: names for names in servers.values()}
        if (names := by_module.get(name)) is None:
            near = near_names([name], list(by_module))
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(
                f"there is no server {name!r} here, and over HTTP an agent registers none: administrators of the "
                f"organisation add servers{hint}"
            )
        modules: list[JsonValue] = [tool.module for tool in names.tools.values()]
        return outcome_of(REGISTER, run_id, digest_json(dict(params)), begun, modules)

    def waiting(self, run_id: str, /) -> Sequence[ApprovalRequest]:
        """See `Registers`: it asks nobody."""
        del run_id
        return ()


class HostedKernels:
    """What one caller is served: tools and a kernel for each of its connections."""

    def __init__(self, app: ServedApp, bindings: Bindings, counts: KernelCounts) -> None:
        self._app, self._bindings, self._counts = app, bindings, counts
        self._open: weakref.WeakSet[IpyboxTools] = weakref.WeakSet()  # of connections that never began, nothing stays

    def make_server(self) -> Server[Any]:
        """The server of a connection, which has a kernel as long as that runs."""
        app = self._app
        tools = IpyboxTools(
            app,
            self._bindings,
            HostedHome(),
            KnownServers(app.tool_registry),
            offer=HOSTED_OFFER,
            stay=Stay(
                idle_s=app.settings.session_idle_s,
                take=partial(self._counts.take, app.tenant_id, app.caller_grant.principal),
            ),
        )
        self._open.add(tools)

        @asynccontextmanager
        async def running(_: Server[Any]) -> AsyncGenerator[dict[str, Any]]:
            try:
                yield {}
            finally:
                await finish(tools.close())

        return build_server(tools, lifespan=running)

    @property
    def is_busy(self) -> bool:
        """Whether a call goes on in one of them."""
        return any(tools.is_busy for tools in self._open)

    def prepare(self) -> None:
        """Open sandboxes now, before the first cell."""
        runtime = self._app.runtime
        runtime.pool.fill(runtime.sandbox_spec)

    async def instructions(self) -> str:
        """The handshake's text."""
        return HOSTED_OFFER.how

    def instructions_now(self) -> str:
        return HOSTED_OFFER.how

    def leave(self) -> int:
        """See `ServedProfile`; over HTTP no call continues for that."""
        return sum(tools.leave() for tools in self._open)

    async def wait_spared(self) -> None:
        """See `ServedProfile`."""
        for tools in tuple(self._open):
            await tools.wait_spared()

    async def close(self) -> None:
        """End every kernel."""
        for tools in tuple(self._open):
            await tools.close()


def served_profiles() -> Profiles:
    """The profiles of a service, with this one."""
    counts = KernelCounts()
    ipybox = Profile(name="ipybox", make_tools=lambda app, bindings: HostedKernels(app, bindings, counts))
    return Profiles.of([*PROFILES.by_name.values(), ipybox])
