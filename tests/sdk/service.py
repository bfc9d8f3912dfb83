"""A service of sessions on loopback: uvicorn in a thread of its own, organisations opened as tests want them."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from moonpool.bootstrap.session_tenants import TenantsOfSessions
from moonpool.bootstrap.stores import FileStores, FolderStores
from moonpool.bootstrap.tenant import open_tenant
from moonpool.configuration.policies import policy_in_force
from moonpool.core.scopes import SCOPES
from moonpool.features.approvals.events import EventApprover
from moonpool.features.approvals.files import open_queue
from moonpool.sdk.engines import shared_engine
from moonpool.sdk.options import SessionOptions
from moonpool.server.http.callers import AuthenticationError, HttpCaller
from moonpool.server.http.sessions.application import sessions_application
from moonpool.server.http.sessions.registry import SessionRegistry
from moonpool.server.http.sessions.tenants import SessionBounds
from moonpool.store.paths import tenant_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from starlette.requests import Request

    from moonpool.bootstrap import Tenant

_NUMBERS = count(1)


async def _opened_tenant(stack: AsyncExitStack, name: str, options: SessionOptions) -> tuple[Tenant, EventApprover]:
    """As `moonpool.bootstrap.service` opens it, on the engine that sessions of the SDK here have."""
    environ = dict(os.environ)
    settings = options.settings(environ)
    config, policy = options.config(environ), policy_in_force(settings, options.config(environ))
    policy = replace(policy, layers=(*policy.layers, *options.layers()))
    engine = await stack.enter_async_context(shared_engine(settings, environ, name))
    store = FileStores(tenant_dir(engine.state, name)).approvals()
    queue = await stack.enter_async_context(open_queue(store, lambda _: None, "", environ))
    events = EventApprover(queue=queue)
    opening = open_tenant(
        engine, name, config=config, approver=events, policy=policy, eagerly=True, stores=FolderStores()
    )
    return await stack.enter_async_context(opening), events


@dataclass(frozen=True)
class Organisation:
    """Credentials of one organisation."""

    key: str
    other_key: str  # of another principal, with all scopes
    person: str  # an OIDC login
    powerless: str  # without a scope
    direct: str  # with all scopes, of a profile that runs no code


class ServiceThread:
    """Use `start` and `stop`; `url` is where it serves."""

    def __init__(self, bounds: SessionBounds | None = None) -> None:
        self._bounds = bounds or SessionBounds()
        self.callers: dict[str, HttpCaller] = {}
        self._open: dict[str, tuple[Tenant, EventApprover]] = {}
        self._tenants = TenantsOfSessions(self._opened)
        self.seen: list[str] = []  # request lines and headers, as an access log would have them
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="test service", daemon=True)
        self._ready: Future[str] = Future()
        self.registry: SessionRegistry
        self.server: uvicorn.Server

    def start(self) -> ServiceThread:
        self._thread.start()
        self.url = self._ready.result(60)
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something in its thread; blocks."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The same, for coroutines of other loops."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    @asynccontextmanager
    async def organisation(self, **options: Any) -> AsyncGenerator[Organisation]:
        """An organisation whose operator chose these servers and rules, with its keys."""
        chosen = SessionOptions(**options)
        chosen.check()
        opened: Future[Organisation] = Future()
        over = asyncio.Event()
        living = asyncio.run_coroutine_threadsafe(self._organisation(chosen, opened, over), self._loop)
        life = asyncio.wrap_future(living)
        try:
            await asyncio.wait({asyncio.wrap_future(opened), life}, return_when="FIRST_COMPLETED")
            yield await life if life.done() else opened.result()
        finally:
            self._loop.call_soon_threadsafe(over.set)
            await asyncio.gather(life, return_exceptions=True)

    async def _organisation(self, options: SessionOptions, opened: Future[Organisation], over: asyncio.Event) -> Any:
        name = f"org-{next(_NUMBERS)}"
        async with AsyncExitStack() as stack:
            self._open[name] = await _opened_tenant(stack, name, options)
            keys = Organisation(*(f"sk-test-{os.urandom(8).hex()}" for _ in range(5)))
            for number, key in enumerate(vars(keys).values()):
                is_person = key == keys.person
                self.callers[key] = HttpCaller(
                    organisation=name,
                    principal=f"user:https://issuer#{number}" if is_person else f"key:{name}-{number}",
                    scopes=frozenset() if key == keys.powerless else frozenset(SCOPES),
                    is_person=is_person,
                    profile="direct" if key == keys.direct else None,
                )
            opened.set_result(keys)
            await over.wait()
            del self._open[name]

    def paths(self, part: str) -> int:
        """How many requests had this part in their addresses since `seen` was emptied."""
        return sum(part in request for request in self.seen)

    def keep_open(self) -> Callable[[], None]:
        """Keep an organisation without servers open, and with it the engine, until what this returns is called."""
        opened: Future[Organisation] = Future()
        over = asyncio.Event()
        life = asyncio.run_coroutine_threadsafe(self._organisation(SessionOptions(), opened, over), self._loop)
        opened.result(60)

        def end() -> None:
            self._loop.call_soon_threadsafe(over.set)
            life.result(60)

        return end

    async def _opened(self, organisation: str) -> tuple[Tenant, EventApprover]:
        return self._open[organisation]

    def _caller(self, request: Request) -> HttpCaller:
        self.seen.append(f"{request.method} {request.url}")
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or key not in self.callers:
            raise AuthenticationError
        return self.callers[key]

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._live())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _live(self) -> None:
        async with AsyncExitStack() as stack:
            self.registry = SessionRegistry(self._tenants, self._bounds)
            listening = socket.socket()
            listening.bind(("127.0.0.1", 0))
            listening.listen(128)  # who connects before it serves waits
            app = Starlette(routes=[Mount("/v1", sessions_application(self.registry, self._caller))])
            config = uvicorn.Config(
                app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=20
            )
            self.server = uvicorn.Server(config)
            serving = asyncio.ensure_future(self.server.serve(sockets=[listening]))
            self._ready.set_result(f"http://127.0.0.1:{listening.getsockname()[1]}")
            stack.callback(listening.close)
            await self._stop.wait()
            await self.registry.close_all()
            await self._tenants.close()
            self.server.should_exit = True
            await serving
