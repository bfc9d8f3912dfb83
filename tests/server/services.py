"""A service in a test's own process: real sockets, real sandboxes, callers whose credential is their name."""

from __future__ import annotations

import json
import os
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

import httpx2

from apps import DATA
from moonpool.bootstrap.admission import open_admission
from moonpool.bootstrap.service import open_service
from moonpool.core.scopes import SCOPES
from moonpool.ipybox.mcp_server.hosted import served_profiles
from moonpool.server.http.admission import Bearers, Everybody
from moonpool.server.http.application import Application
from moonpool.server.http.callers import HttpCaller
from moonpool.server.http.health import Readiness
from moonpool.server.http.request_limits import Names
from moonpool.server.http.serving import ServiceListener, http_served
from moonpool.settings import Settings
from shared_backend import shared_backend

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from moonpool.bootstrap.admission import Admitted
    from moonpool.bootstrap.service import Service
    from moonpool.bootstrap.stored_files import StorageOfService
    from moonpool.configuration.servers import McpConfig
    from moonpool.server.http.serving import HttpServer

JSON_TYPE = {"content-type": "application/json"}
STREAMS = {**JSON_TYPE, "accept": "application/json, text/event-stream"}


def caller(name: str, organisation: str = "default", **more: Any) -> HttpCaller:
    """Whoever sends `name` as credential."""
    given: dict[str, Any] = {"organisation": organisation, "principal": f"key:{name}", "scopes": frozenset(SCOPES)}
    return HttpCaller(**{**given, **more})


@dataclass(frozen=True)
class Callers:
    """An `Authenticator` of fixed callers by credential."""

    known: dict[str, HttpCaller]

    async def authenticate(self, credential: str, /) -> HttpCaller | None:
        return self.known.get(credential)


@dataclass(frozen=True)
class OpenService:
    """A service that serves, and a client of it."""

    service: Service
    server: HttpServer
    readiness: Readiness
    base: str
    http: httpx2.AsyncClient = field(repr=False)

    async def post(self, message: Any, *, path: str = "/mcp", **headers: str) -> httpx2.Response:
        """POST one message; header names with _ for -."""
        return await self.http.post(path, json=message, headers={**JSON_TYPE, **named(headers)})

    async def session(self, version: str = "2025-11-25", *, path: str = "/mcp", **headers: str) -> dict[str, str]:
        """Do the handshake; returns the session's headers."""
        accept = "application/json, text/event-stream"
        answer = await self.post(handshake(version), path=path, accept=accept, **headers)
        assert answer.status_code == 200, answer.text
        session = {"mcp_session_id": answer.headers["mcp-session-id"], **headers}
        await self.post(notification("notifications/initialized"), path=path, **session)
        return session


@asynccontextmanager
async def serving(
    callers: dict[str, HttpCaller] | None = None,
    *,
    config: McpConfig | None = None,
    state: Path | None = None,
    profile: str | None = None,
    keys: bool = False,
    admitted: Admitted | None = None,
    storage: StorageOfService | None = None,
    environ: Mapping[str, str] | None = None,
    **settings: Any,
) -> AsyncGenerator[OpenService]:
    """A service for these callers, by credential; None: for everybody. `keys`: for whoever has a key in `state`.

    `environ` is added to this process's.
    """
    chosen = Settings.load({}, **{"data_dir": DATA, "manifest_ttl_s": 0.001, "pool_low": 0, **settings})
    admission: Any = Bearers([Callers(callers)]) if callers is not None else Everybody(caller("me", profile=profile))
    listener, readiness = ServiceListener("127.0.0.1", 0), Readiness()
    names = Names.of(listener.host, listener.port, public_url=chosen.public_url)
    async with AsyncExitStack() as stack:
        if keys:
            assert state is not None
            admitted = await stack.enter_async_context(
                open_admission(chosen, state, names, f"http://{listener.netloc}")
            )
            admission = admitted.admission
        application = Application(names, admission, readiness)
        backend = await stack.enter_async_context(shared_backend(chosen, DATA))
        server = await stack.enter_async_context(http_served(listener, application))
        service = await stack.enter_async_context(
            open_service(
                chosen,
                environ={**os.environ, **(environ or {})},
                config=config,
                report=lambda _: None,
                state=state,
                backend=backend,
                profiles=served_profiles(),
                is_open=callers is None and not keys,
                admitted=admitted,
                storage=storage,
            )
        )
        application.open(service.routes, service.public, limiter=service.limiter, tracing=service.engine.tracing)
        readiness.checks["environment"] = service.check_environment
        readiness.checks["database"] = service.check_database
        readiness.phase = "ready"
        base = f"http://{listener.netloc}"
        async with httpx2.AsyncClient(base_url=base, timeout=60) as http:
            yield OpenService(service, server, readiness, base, http)


@asynccontextmanager
async def in_turn(replicas: Sequence[OpenService]) -> AsyncGenerator[OpenService]:
    """The first of them, whose client sends each request to the next, as one behind a load balancer."""
    bases = [httpx2.URL(one.base) for one in replicas]
    names, following = {base.netloc.decode() for base in bases}, cycle(bases)

    async def send_to_next(request: httpx2.Request) -> None:
        base = next(following)
        if request.headers["host"] in names:
            request.headers["host"] = base.netloc.decode()
            request.url = request.url.copy_with(host=base.host, port=base.port)

    hooks = {"request": [send_to_next]}
    async with httpx2.AsyncClient(base_url=replicas[0].base, timeout=60, event_hooks=hooks) as http:
        yield replace(replicas[0], http=http)


@asynccontextmanager
async def streaming(service: OpenService, method: str, path: str = "/mcp", **more: Any) -> AsyncGenerator[Any]:
    async with service.http.stream(method, path, **more) as response:
        yield response, _events(response)


async def _events(response: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    """Server-sent events, one by one."""
    event: dict[str, Any] = {}
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        if not line and event:
            yield event
            event = {}
        elif name in {"id", "event", "retry"}:
            event[name] = value
        elif name == "data":
            event["data"] = json.loads(value) if value.startswith("{") else None
            event["text"] = value
        elif name == "data:":
            event["data"] = None


async def answer_of(events: AsyncIterator[dict[str, Any]]) -> Any:
    """The answer that a stream ends with."""
    async for event in events:
        data = event.get("data")
        if data is not None and ("result" in data or "error" in data):
            return data
    return None


def named(headers: dict[str, str]) -> dict[str, str]:
    """Headers as they are sent, of keyword arguments."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


def handshake(version: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client}
    return request("initialize", params)


def request(method: str, params: Any = None, id: Any = 1) -> dict[str, Any]:  # noqa: A002
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


def notification(method: str, params: Any = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def execute(code: str, id: Any = 1, **more: Any) -> dict[str, Any]:  # noqa: A002
    meta = {"_meta": more.pop("meta")} if "meta" in more else {}
    return request("tools/call", {"name": "execute_code", "arguments": {"code": code, **more}, **meta}, id)


MODERN = "2026-07-28"
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


def modern_headers(method: str, name: str | None = None) -> dict[str, str]:
    headers = {**STREAMS, "mcp-protocol-version": MODERN, "mcp-method": method}
    return headers if name is None else {**headers, "mcp-name": name}
