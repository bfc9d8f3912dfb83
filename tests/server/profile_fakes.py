"""The profiles `baponi` and `codegen` over real sockets, on stored trees in memory and executions that are looked up.

What code would do is a table: the test says what a piece of code prints and which files it leaves in its thread.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx2

from moonpool.core.errors import InputError
from moonpool.engine.sandbox_runs.base import RunOwner, RunResult
from moonpool.engine.sandbox_runs.results import not_run
from moonpool.features.caller_limits.model import NO_LIMITS
from moonpool.features.caller_limits.service import CallerLimiter
from moonpool.features.caller_limits.table import QuotasInMemory
from moonpool.features.execution_records.model import new_trace_id
from moonpool.features.sandbox_configurations.model import BUILT_IN, SandboxConfiguration
from moonpool.features.storage.model import (
    Entry,
    FileTree,
    TreeBusyError,
    TreeName,
    UnknownTreeError,
    manifest_digest,
    owner_of_threads,
)
from moonpool.pipeline.caller_grant import CallerGrant
from moonpool.redaction.redactor import Redactor
from moonpool.server.http.admission import Bearers, Everybody
from moonpool.server.http.application import Application, asgi_route
from moonpool.server.http.health import Readiness
from moonpool.server.http.mcp_endpoint import McpEndpoints
from moonpool.server.http.principal_servers import PrincipalServers
from moonpool.server.http.request_limits import Names
from moonpool.server.http.serving import ServiceListener, http_served
from moonpool.server.mcp.client_requests import Bindings
from moonpool.server.mcp.profiles import PROFILES
from moonpool.server.mcp.sandbox_services import CallerSetup
from server.services import Callers, OpenService, caller

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from moonpool.core.errors import MoonpoolError
    from moonpool.engine.sandbox_runs.base import SandboxOrder
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.mcp.profiles import Profile

WITH_STORAGE = replace(BUILT_IN, has_storage=True)
CANARY = "canary-4711-do-not-tell"


class FakeSnapshot:
    """A tree at one moment."""

    version = 1

    def __init__(self, files: Mapping[str, tuple[Entry, bytes]]) -> None:
        self._files = dict(files)
        self.tree = FileTree({path: entry for path, (entry, _) in sorted(files.items())})
        self.digest = manifest_digest(self.tree.encode())

    async def read(self, entry: Entry, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        content = self._files[entry.path][1][start:end]
        for at in range(0, len(content), 100_000):
            yield content[at : at + 100_000]


class FakeTrees:
    """Threads and volumes by name. `fault` is raised by every use of them."""

    def __init__(self) -> None:
        self.trees: dict[TreeName, dict[str, tuple[Entry, bytes]]] = {}
        self.fault: MoonpoolError | None = None

    def put(self, name: TreeName, path: str, content: bytes, **entry: Any) -> None:
        made = Entry(path=path, size=len(content), **entry)
        self.trees.setdefault(name, {})[path] = (made, content)

    async def snapshot(self, name: TreeName) -> FakeSnapshot:
        if self.fault is not None:
            raise self.fault
        if name not in self.trees:
            raise UnknownTreeError(f"there is no {name.kind} {name.name}")
        return FakeSnapshot(self.trees[name])


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What a piece of code does."""

    result: RunResult
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


def printed(stdout: str = "", stderr: str = "", exit_code: int = 0, **more: Any) -> Ran:
    success = exit_code == 0
    given = {"status": "success" if success else "failed", "stdout": stdout, "stderr": stderr, **more}
    return Ran(result=RunResult(success=success, exit_code=exit_code, **given))


class FakeRun:
    """One execution; `hangs` until it is cancelled."""

    def __init__(self, ran: Ran, *, hangs: bool) -> None:
        self.trace_id, self._ran, self.cancelled = new_trace_id(), ran, asyncio.Event()
        self._hangs = hangs

    async def result(self) -> RunResult:
        if self._hangs:
            await self.cancelled.wait()
            return not_run("cancelled", "cancelled")
        return self._ran.result

    def cancel(self) -> None:
        self.cancelled.set()


class FakeRuns:
    """Executions by their code; code that is not in the table prints itself."""

    def __init__(self, trees: FakeTrees) -> None:
        self.table: dict[str, Ran] = {}
        self.hanging: set[str] = set()
        self.begun: list[tuple[RunOwner, SandboxOrder, FakeRun]] = []
        self.fault: Exception | None = None
        self.busy_threads: set[str] = set()
        self._trees = trees

    async def begin(self, owner: RunOwner, order: SandboxOrder) -> FakeRun:
        if self.fault is not None:
            raise self.fault
        if not all(name.isascii() and name.isupper() for name in order.variables):
            raise InputError("Environment variable keys must start with an uppercase letter")
        if (order.timeout_s or 0) > owner.configuration.timeout_s_max:
            raise InputError(f"timeout must be 1 to {owner.configuration.timeout_s_max} s here")
        ran = self.table.get(order.code, printed(order.code))
        if order.thread_id is not None:
            thread = TreeName(kind="thread", name=order.thread_id, owner=owner.thread_owner)
            if order.thread_id in self.busy_threads:
                raise TreeBusyError(f"the thread {order.thread_id} is in use; try again when its execution has ended")
            for path, content in ran.files.items():
                self._trees.put(thread, path, content)
        run = FakeRun(ran, hangs=order.code in self.hanging)
        self.begun.append((owner, order, run))
        return run


@dataclass
class FakeServices:
    """A `SandboxServices` whose callers' configurations and switches a test sets, by principal."""

    trees: FakeTrees = field(default_factory=FakeTrees)
    configurations: dict[str, SandboxConfiguration] = field(default_factory=dict[str, SandboxConfiguration])
    workspaces: dict[str, str] = field(default_factory=dict[str, str])
    executes: bool = True
    tools_off: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.runs = FakeRuns(self.trees)

    async def setup(self, grant: CallerGrant, /) -> CallerSetup:
        principal = grant.principal
        owner = RunOwner(
            principal=principal,
            thread_owner=owner_of_threads(principal),
            grant=grant,
            configuration=self.configurations.get(principal, WITH_STORAGE),
        )
        workspace = self.workspaces.get(principal)
        return CallerSetup(owner=owner, executes=self.executes, tools_off=self.tools_off, workspace=workspace)


@dataclass(frozen=True)
class _Source:
    """Opens the tools of callers, each in a tenant of its organisation's services."""

    services: Mapping[str, FakeServices]
    redactor: Redactor

    async def open_tools(self, who: HttpCaller, profile: Profile, /) -> Any:
        grant = CallerGrant(principal=who.principal, make_context=cast("Any", None), hides_host=True)
        runtime = SimpleNamespace(redactor=self.redactor, tracing=None)
        app = SimpleNamespace(runtime=runtime, caller_grant=grant, sandbox_services=self.services.get(who.organisation))
        return profile.make_tools(cast("Any", app), Bindings())


@asynccontextmanager
async def serving_profiles(
    services: Mapping[str, FakeServices] | FakeServices,
    callers: dict[str, HttpCaller] | None = None,
    *,
    profile: str | None = None,
) -> AsyncGenerator[OpenService]:
    """A service of these profiles for callers by credential; None: for everybody, with this profile."""
    by_organisation = {"default": services} if isinstance(services, FakeServices) else services
    listener, readiness = ServiceListener("127.0.0.1", 0), Readiness()
    names = Names.of(listener.host, listener.port)
    everybody = HTTP_CALLER if profile is None else replace(HTTP_CALLER, profile=profile)
    admission: Any = Everybody(everybody) if callers is None else Bearers([Callers(callers)])
    application = Application(names, admission, readiness)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(http_served(listener, application))
        servers = PrincipalServers(_Source(by_organisation, Redactor.of({"CANARY": CANARY})))
        stack.push_async_callback(servers.close)
        limiter = CallerLimiter(QuotasInMemory(), caller=NO_LIMITS, organisation=NO_LIMITS)
        endpoints = McpEndpoints(servers, PROFILES, limiter, body_bytes_max=4 * 1024**2)
        routes = [
            asgi_route("/mcp", endpoints.mcp),
            asgi_route("/mcp/{profile}", endpoints.mcp),
            asgi_route("/sse", endpoints.sse),
            asgi_route("/message", endpoints.message),
        ]
        application.open(routes, limiter=limiter)
        readiness.phase = "ready"
        base = f"http://{listener.netloc}"
        whole = SimpleNamespace(servers=servers)
        async with httpx2.AsyncClient(base_url=base, timeout=60) as http:
            yield OpenService(cast("Any", whole), server, readiness, base, http)


HTTP_CALLER = caller("one", principal="local:me")
