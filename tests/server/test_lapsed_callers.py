"""What a caller has open ends when its key is revoked or expires, or its organisation is disabled; and what probes say
when the service lacks something.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.bootstrap.database import open_service_data
from moonpool.core.errors import InputError
from moonpool.features.execution_records.service import ExecutionRecords
from moonpool.features.keys.model import KeySpec
from moonpool.server.http import sessionless
from moonpool.server.http.principal_servers import ServiceBusyError
from moonpool.server.mcp.client_requests import Bindings
from moonpool.server.mcp.connection_calls import CONNECTION_OVER, Caller
from moonpool.server.mcp.direct.waiting import WaitingCalls
from moonpool.server.mcp.profiles import CODE
from moonpool.settings import Settings
from server.services import STREAMS, caller, execute, serving
from server.test_http_requests import UNAUTHORIZED
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from pathlib import Path

    import httpx2

    from moonpool.bootstrap.database import ServiceData
from server.services import OpenService

pytestmark = pytest.mark.anyio
BLOCKED = "import time\nprint('begun', flush=True)\ntime.sleep(600)"


@asynccontextmanager
async def operating(state: Path) -> AsyncGenerator[tuple[OpenService, ServiceData]]:
    """A service with keys, and its data as another process, a command's, has it."""
    state.mkdir()
    async with serving(state=state, keys=True) as service, open_service_data(Settings.load({}), state, {}) as data:
        yield service, data


async def everything_open(service: OpenService, key: str) -> list[asyncio.Task[Any]]:
    """A session of MCP whose code runs and that listens, one of `/v1` whose code runs; tasks that read all of it."""
    auth = {"authorization": f"Bearer {key}"}
    session = await service.session(**auth)
    named = {**STREAMS, **{name.replace("_", "-"): value for name, value in session.items()}}
    served = (await service.http.post("/v1/sessions", json={}, headers=auth)).json()["id"]
    begun = [anyio.Event() for _ in range(2)]

    async def read(number: int | None, method: str, path: str, body: Any) -> None:
        async with service.http.stream(method, path, json=body, headers=named) as response:
            assert response.status_code == 200
            async for line in response.aiter_lines():
                if number is not None and "begun" in line:
                    begun[number].set()

    code = {"id": "0" * 32, "language": "python", "code": BLOCKED}
    tasks = [
        asyncio.create_task(read(0, "POST", "/mcp", execute(BLOCKED, id=7, meta={"progressToken": 1}))),
        asyncio.create_task(read(None, "GET", "/mcp", None)),
        asyncio.create_task(read(1, "POST", f"/v1/sessions/{served}/executions", code)),
    ]
    for event in begun:
        await event.wait()
    return tasks


@pytest.mark.req("J-040", "F-005")
@pytest.mark.skipif(os.geteuid() != 0, reason="without root there is one uid, which the backend of other tests has")
async def test_all_that_a_caller_has_open_ends_with_its_key_and_another_callers_goes_on(tmp_path: Path) -> None:
    with anyio.fail_after(120):
        async with operating(tmp_path / "state") as (service, data):
            await data.organisations.create("acme")
            spec = KeySpec(organisation_id="acme")
            revoked, other = [await data.keys.create(spec) for _ in range(2)]
            tasks = await everything_open(service, revoked.text)
            others = await service.session(authorization=f"Bearer {other.text}")

            await data.keys.revoke(revoked.stored.key_id)
            await asyncio.wait(tasks)
            assert service.service.limiter.held == 0
            assert not service.service.sessions.owners
            refused = await service.post(execute("result = 1"), authorization=f"Bearer {revoked.text}")
            assert refused.status_code == 401
            assert (await service.post(execute("result = 1"), **others)).status_code == 200

            await data.organisations.disable("acme")
            await until(lambda: not service.service.servers.owners)
            assert (await service.post(execute("result = 1"), **others)).status_code == 401


@pytest.mark.claim("C-KEY-2")
@pytest.mark.req("J-040")
async def test_what_runs_by_one_call_ends_with_its_key_and_another_callers_goes_on(tmp_path: Path) -> None:
    with anyio.fail_after(120):
        async with operating(tmp_path / "state") as (service, data):
            await data.organisations.ensure("default")
            scopes = frozenset({"execute", "admin"})
            specs = [KeySpec(organisation_id="default", scopes=one) for one in (scopes, frozenset({"execute"}))]
            revoked, other = [await data.keys.create(one) for one in specs]
            records = ExecutionRecords(data.database)

            def run(key: str, code: str, **headers: str) -> Awaitable[httpx2.Response]:
                asked = {"authorization": f"Bearer {key}", **headers}
                return service.http.post("/v1/sandbox/execute", json={"code": code}, headers=asked)

            background = (await run(revoked.text, BLOCKED, prefer="respond-async")).headers["x-trace-id"]
            others = (await run(other.text, BLOCKED, prefer="respond-async")).headers["x-trace-id"]
            waiting = asyncio.ensure_future(run(revoked.text, BLOCKED))
            path, auth = f"/v1/executions/{others}/output", {"authorization": f"Bearer {revoked.text}"}
            async with service.http.stream("GET", path, headers=auth) as response:
                lines = response.aiter_lines()
                first = json.loads(await anext(lines))
                await until(lambda: service.service.limiter.held == 3)
                await data.keys.revoke(revoked.stored.key_id)
                ended = (await waiting).json()
                rest = [json.loads(line)["type"] async for line in lines]
            await until(lambda: service.service.limiter.held == 1)
            found = [await records.find("default", one, None) for one in (background, others)]

    assert (ended["error"], ended["success"]) == ("cancelled", False)
    assert first["type"] == "status"
    assert "result" not in rest
    assert [one and one[0].status for one in found] == ["cancelled", "running"]


@pytest.mark.req("G-023")
@pytest.mark.parametrize("keys", [True, False], ids=["keys", "everybody"])
async def test_readyz_says_in_a_word_that_the_database_is_gone_and_that_it_is_back(tmp_path: Path, keys: bool) -> None:
    state = tmp_path / "state"
    state.mkdir()
    with anyio.fail_after(120):
        async with serving(state=state, keys=keys) as service:

            async def said(wanted: tuple[int, str]) -> bool:
                answer = await service.http.get("/readyz")
                return (answer.status_code, answer.text) == wanted

            assert await said((200, "ready\n"))
            (database,) = state.rglob("service*.sqlite3")
            away = database.rename(tmp_path / "away")
            while not await said((503, "database\n")):  # noqa: ASYNC110
                await anyio.sleep(0.05)
            assert (await service.http.get("/healthz")).status_code == 200
            away.rename(database)
            while not await said((200, "ready\n")):  # noqa: ASYNC110
                await anyio.sleep(0.05)


async def sent_but_for_one_byte(service: OpenService, path: str, body: Any, key: str) -> Callable[[], Awaitable[bytes]]:
    """A request whose body is not whole; what is returned sends the rest and gives the answer."""
    host, _, port = service.base.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    content = json.dumps(body).encode()
    writer.write(
        f"POST {path} HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: Bearer {key}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n".encode()
        + content[:-1]
    )
    await writer.drain()

    async def rest() -> bytes:
        writer.write(content[-1:])
        answer = await reader.read()
        writer.close()
        return answer

    return rest


async def test_a_request_that_was_begun_before_its_key_was_revoked_does_nothing_afterwards(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with operating(tmp_path / "state") as (service, data):
            await data.organisations.ensure("default")
            key = await data.keys.create(KeySpec(organisation_id="default", scopes=frozenset({"execute", "admin"})))
            server = {"name": "late", "url": "https://mcp.example.com/mcp"}
            waiting = [
                await sent_but_for_one_byte(service, path, body, key.text)
                for path, body in (("/mcp", execute("result = 1")), ("/v1/servers", server))
            ]
            await until(lambda: bool(service.service.servers.owners))  # the head was taken
            await data.keys.revoke(key.stored.key_id)
            auth = {"authorization": f"Bearer {key.text}"}
            while (await service.http.get("/v1/sessions", headers=auth)).status_code == 200:
                pass
            for rest in waiting:
                head, _, body = (await rest()).partition(b"\r\n\r\n")
                assert (head[:12], body) == (b"HTTP/1.1 401", UNAUTHORIZED)
                assert b'\r\nwww-authenticate: Bearer realm="moonpool", error="invalid_token"' in head
            assert not await data.servers.all()


async def test_a_call_that_comes_after_its_caller_has_ended_is_not_begun() -> None:
    me = caller("me")
    with anyio.fail_after(60):
        async with serving({"me": me}) as service:
            servers = service.service.servers
            server = await servers.get(me, CODE)
            servers.end_caller(me.organisation, me.principal)
            await asyncio.wait(servers._closing)
            answer = await sessionless.answer(server.server, "2025-03-26", execute("result = 1"))
            assert CONNECTION_OVER.encode() in answer.body
            with pytest.raises(ServiceBusyError):
                server.open_session()

            direct = WaitingCalls(Settings.load({}), me.principal, Bindings(), lambda _: ())
            await direct.close()
            with pytest.raises(InputError, match=CONNECTION_OVER):
                await direct.outcome("only_x", "key", lambda _: pytest.fail("it was begun"), Caller(answers={}))
