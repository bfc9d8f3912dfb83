"""Servers that an organisation adds by URL: over HTTP, while the service runs, with a real server behind real TLS."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.bootstrap import database
from moonpool.bootstrap.admission import Admitted
from moonpool.bootstrap.database import open_service_data
from moonpool.bootstrap.stores import FileStores
from moonpool.configuration.servers import parse_config
from moonpool.features.servers import table
from moonpool.features.servers.model import ServerSpec
from moonpool.network import public_http
from moonpool.network.public_http import PublicBackend
from moonpool.oauth.grants import TokenSet
from moonpool.oauth.registration import ClientIdentity
from moonpool.oauth.stored_logins import Login, Logins
from moonpool.server.http.admission import Bearers
from moonpool.settings import Settings
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from moonpool.store.secret_key import SecretStoreError
from network.tls_hosts import signer
from server.services import caller, request, serving
from tenants import PathsServer, token_of
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.bootstrap.database import ServiceData
    from server.services import OpenService

pytestmark = pytest.mark.anyio
HOST = "mcp.example.com"
ADDRESSES = {HOST: "93.184.216.34", "silent.example.com": "93.184.216.35"}
URL = f"https://{HOST}/x/mcp"
ADMIN, USER = {"authorization": "Bearer admin"}, {"authorization": "Bearer user"}
HEADERS = {"Authorization": f"Bearer {token_of('x')}"}
OPERATORS = {
    "operators": {"command": "/bin/false"},
    "theirs": {"command": "/bin/false", "moonpool": {"organisations": ["other"]}},
}


@asynccontextmanager
async def public_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[PathsServer]:
    """A server called `HOST`, which an address of the public internet stands for."""

    async def resolve(host: str, port: int) -> list[str]:
        return [ADDRESSES[host] if port == 443 and host in ADDRESSES else "10.0.0.7"]

    async with PathsServer(read_only=True).serving() as server:
        there = int(server.base.rpartition(":")[2])

        async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while data := await reader.read(65_536):
                    writer.write(data)
                    await writer.drain()
            writer.close()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            inner, outer = await asyncio.open_connection("127.0.0.1", there)
            await asyncio.gather(pipe(reader, outer), pipe(inner, writer))

        async with await asyncio.start_server(relay, "127.0.0.1", 0, ssl=signer().context(folder, HOST)) as tls:
            port = tls.sockets[0].getsockname()[1]
            dial = PublicBackend._dial
            trusted = ssl.create_default_context(cadata=signer().roots.decode())

            async def dialled(backend: PublicBackend, address: str, _: int, *rest: Any) -> Any:
                if address == "93.184.216.35":
                    await anyio.sleep_forever()
                assert address == "93.184.216.34"
                return await dial(backend, "127.0.0.1", port, *rest)

            monkeypatch.setattr(public_http, "Resolver", lambda **_: resolve)
            monkeypatch.setattr(PublicBackend, "_dial", dialled)
            monkeypatch.setattr(public_http, "system_trust", lambda: trusted)
            yield server


@asynccontextmanager
async def service_of(folder: Path) -> AsyncGenerator[tuple[OpenService, ServiceData]]:
    """A service with one administrator, one user, and the database."""
    callers = {"admin": caller("admin"), "user": caller("user", scopes=frozenset({"execute", "files"}))}
    config = parse_config(json.dumps({"mcpServers": OPERATORS}).encode(), source="test", environ={})
    async with open_service_data(Settings.load({}), folder, {}) as data:
        await data.organisations.ensure("default")
        admitted = Admitted(admission=Bearers([]), servers=data.servers, consents=data.consents)
        async with serving(callers, config=config, state=folder, admitted=admitted, environment="base") as service:
            yield service, data


async def tools(service: OpenService) -> set[str]:
    """Names of the tools that a client of the profile `direct` sees."""
    answer = await service.post(request("tools/list"), path="/mcp/direct", **USER)
    return {one["name"] for one in answer.json()["result"]["tools"]}


async def test_a_server_is_taken_in_while_the_service_runs_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with public_server(tmp_path, monkeypatch) as server, service_of(tmp_path / "state") as (service, data):
        with anyio.fail_after(90):
            assert await tools(service) == set()
            wanted = {"name": "crm", "url": URL, "headers": HEADERS, "expose": "both"}
            added = await service.http.post("/v1/servers", json=wanted, headers=ADMIN)
            assert added.status_code == 201, added.text
            while await tools(service) != {"only_x"}:
                pass
            (told,) = (await service.http.get("/v1/servers", headers=ADMIN)).json()["servers"]
            assert (told["name"], told["headers"], told["is_listed"]) == ("crm", ["Authorization"], True)
            assert told["added_by"] == "key:admin"
            assert "tools/list" in server.asked  # which wants the header

            # Its header stands nowhere in the clear, and nothing was sent before it was on record.
            state = tmp_path / "state"
            written = b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())
            assert token_of("x").encode() not in written + added.content + json.dumps(told).encode()
            assert await records(state) == ["organisation_server_added"]

            # Another process removes it, and one that was added before and is silent, which holds up nothing.
            silent = {"name": "silent", "url": "https://silent.example.com/mcp"}
            assert (await service.http.post("/v1/servers", json=silent, headers=ADMIN)).status_code == 201
            while len(await records(state)) < 2:
                pass
            with anyio.fail_after(20):  # `connect_timeout_s` is 30
                await data.servers.remove("default", "crm", by="terminal:alice")
                while await tools(service) != set():
                    pass
                await data.servers.remove("default", "silent", by="terminal:alice")
                assert (await service.http.get("/v1/servers", headers=ADMIN)).json() == {"servers": []}
                while await data.servers.all():  # until that is on record
                    await asyncio.to_thread(int)  # the database is read on this loop
            assert sorted(await records(state)) == [
                *["organisation_server_added"] * 2,
                *["organisation_server_removed"] * 2,
            ]


async def records(state: Path) -> list[str]:
    rows = await asyncio.to_thread(lambda: [row.to_json() for row in read_rows(journal_path(state))])
    return [row["rule_id"] for row in rows if row.get("tool_name") == "register_mcp_server"]


@pytest.mark.slow
async def test_what_may_not_be_added_and_by_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with public_server(tmp_path, monkeypatch), service_of(tmp_path / "state") as (service, data):
        with anyio.fail_after(60):
            own = {"name": "crm", "url": URL}
            for refused in (
                {**own, "url": "https://10.0.0.1/mcp"},
                {**own, "name": "operators"},
                {**own, "name": "theirs"},  # the operator's, for another organisation
                {**own, "name": "0perators"},
                {**own, "name": "Operators"},
                {**own, "headers": {"Host": "other"}},
                {**own, "headers": {"X-Key": "a\r\nX-Other: b"}},
                {**own, "command": "/bin/sh"},
            ):
                answer = await service.http.post("/v1/servers", json=refused, headers=ADMIN)
                assert (answer.status_code, answer.json()["error"]["code"]) == (400, "input_invalid"), refused
            for method, path in (("GET", "/v1/servers"), ("POST", "/v1/servers"), ("DELETE", "/v1/servers/crm")):
                answer = await service.http.request(method, path, headers=USER)
                assert answer.status_code == 403
            missing = await service.http.delete("/v1/servers/crm", headers=ADMIN)
            operators = await service.http.delete("/v1/servers/operators", headers=ADMIN)
            assert [missing.status_code, operators.status_code] == [400, 400]
            assert await data.servers.all() == []

            # A name that leads to a private address is taken, and never reached.
            moved = {"name": "moved", "url": "https://moved.example.com/mcp"}
            assert (await service.http.post("/v1/servers", json=moved, headers=ADMIN)).status_code == 201
            assert await tools(service) == set()
            tenant = (await service.service.organisations.get("default")).tenant
            await until(lambda: "not on the public internet" in str(tenant.tool_registry.problems.get("moved")))
            assert "theirs" not in tenant.tool_registry.all_ids

            # A login that the operator made to a server serves none of the organisation's at its address, whose tools
            # the operator's rules for that server would not be about.
            login = Login(
                server_url=URL,
                issuer="https://issuer.example.com",
                resource=URL,
                token_endpoint="https://issuer.example.com/token",
                client=ClientIdentity(client_id="client"),
                tokens=TokenSet(access_token=token_of("x")),
            )
            await Logins(FileStores(tmp_path / "state").logins()).keep(login)
            alias = {"name": "alias", "url": URL, "expose": "direct"}
            assert (await service.http.post("/v1/servers", json=alias, headers=ADMIN)).status_code == 201
            await until(lambda: "needs a login" in str(tenant.tool_registry.problems.get("alias")))
            await Logins(FileStores(tmp_path / "state").logins(of_own=True)).keep(login)
            while await tools(service) != {"only_x"}:
                await tenant.tool_registry.relist("alias")


async def test_headers_are_sealed_for_their_own_row(tmp_path: Path) -> None:
    async with open_service_data(Settings.load({}), tmp_path, {}) as data:
        await data.organisations.ensure("acme")
        spec = ServerSpec(server_id="crm", url=URL, headers={"X-Key": "secret-of-acme"})
        made = await data.servers.add("acme", spec, taken=(), by="terminal:a")
        assert await data.servers.headers(made) == {"X-Key": "secret-of-acme"}
        for moved in (replace(made, organisation_id="other"), replace(made, url="https://evil.example.com/")):
            with pytest.raises(SecretStoreError):
                await data.servers.headers(moved)


async def test_rows_of_one_organisation_leave_out_none_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "LISTED_MAX", 1)
    monkeypatch.setattr(database, "serves_several_tenants", lambda: True)
    async with open_service_data(Settings.load({}), tmp_path, {}) as data:
        for organisation in ("acme", "globex"):
            await data.organisations.ensure(organisation)
            await data.servers.add(organisation, ServerSpec(server_id="crm", url=URL), taken=(), by="terminal:a")
        assert len(await data.servers.all({"acme": 1, "globex": 2}.keys())) == 2
