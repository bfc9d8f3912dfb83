"""A service with a database in a test's own process, and calls of its `/v1/sandbox` as Baponi's clients make them."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from moonpool.bootstrap.admission import Admitted
from moonpool.server.http.admission import Everybody
from moonpool.store.database.addresses import database_address
from moonpool.store.database.opening import open_database
from server.services import caller, in_turn, serving
from service_stores import FOLDER

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    import httpx2

    from moonpool.server.http.callers import HttpCaller
    from server.services import OpenService
    from service_stores import Stores

USER = frozenset({"execute", "files"})
CALLERS = {
    "a": caller("a", scopes=USER),
    "b": caller("b", scopes=USER),
    "admin": caller("admin"),
    "baponi": caller("baponi", scopes=USER, profile="baponi"),
    "direct": caller("direct", scopes=USER, profile="direct"),
}
NDJSON = "application/x-ndjson"


@asynccontextmanager
async def sandbox_serving(
    folder: Path, callers: dict[str, HttpCaller] | None = None, *, stores: Stores = FOLDER, **settings: Any
) -> AsyncGenerator[OpenService]:
    """One whose database is in `folder`, or where `stores` or the setting `database_url` say."""
    settings = {**stores.settings, **settings}
    address = database_address(settings.get("database_url", ""), folder)
    async with open_database(address) as database:
        admitted = Admitted(admission=Everybody(caller("nobody")), database=database)
        serves = serving(callers or CALLERS, state=folder, admitted=admitted, environ=stores.secrets, **settings)
        async with serves as service:
            yield service


@asynccontextmanager
async def on_stores(
    stores: Stores, folder: Path, callers: dict[str, HttpCaller] | None = None, **settings: Any
) -> AsyncGenerator[OpenService]:
    """Where stores are shared, two replicas that answer in turn."""
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(sandbox_serving(folder / name, callers, stores=stores, **settings))
            for name in (("one", "other") if stores.are_shared else ("one",))
        ]
        yield await stack.enter_async_context(in_turn(replicas))


async def execute(service: OpenService, code: str, *, who: str = "a", **body: Any) -> httpx2.Response:
    return await service.http.post("/v1/sandbox/execute", json={"code": code, **body}, headers=as_caller(who))


async def begin(service: OpenService, code: str, *, who: str = "a", **body: Any) -> str:
    """Run it asynchronously; returns its trace id."""
    headers = as_caller(who, prefer="respond-async")
    answer = await service.http.post("/v1/sandbox/execute", json={"code": code, **body}, headers=headers)
    assert answer.status_code == 202, answer.text
    return answer.json()["trace_id"]


@asynccontextmanager
async def streaming(service: OpenService, code: str, *, who: str = "a", **body: Any) -> AsyncGenerator[Any]:
    headers = as_caller(who, accept=NDJSON)
    async with service.http.stream(
        "POST", "/v1/sandbox/execute", json={"code": code, **body}, headers=headers
    ) as response:
        yield response, lines_of(response)


async def lines_of(response: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        yield json.loads(line)


async def get(service: OpenService, path: str, *, who: str = "a") -> httpx2.Response:
    return await service.http.get(f"/v1/executions{path}", headers=as_caller(who))


async def cancel(service: OpenService, trace_id: str, *, who: str = "a") -> httpx2.Response:
    return await service.http.post(f"/v1/executions/{trace_id}/cancel", headers=as_caller(who))


async def ended(service: OpenService, trace_id: str, *, who: str = "a") -> dict[str, Any]:
    """Its record, once it is over: its lines end then."""
    answer = await service.http.get(f"/v1/executions/{trace_id}/output", headers=as_caller(who))
    assert answer.status_code == 200, answer.text
    return (await get(service, f"/{trace_id}", who=who)).json()


def as_caller(who: str, **headers: str) -> dict[str, str]:
    return {"authorization": f"Bearer {who}", **headers}
