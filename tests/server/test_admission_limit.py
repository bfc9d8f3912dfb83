"""The limit on failed authentications in front of keys: what counts, for whom, and that nobody else waits."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest

from cli.console import environment, moonpool
from commands.process import SCRIPT
from moonpool.features.keys.model import KeySpec
from moonpool.features.keys.service import Keys
from moonpool.features.organisations.service import Organisations
from moonpool.net.forwarded import trusted_networks
from moonpool.server.http.admission import Bearers
from moonpool.server.http.application import Application
from moonpool.server.http.authentication.failures import FAILURES_MAX, ClientAddresses, FailedAuthentications
from moonpool.server.http.authentication.keys import KeyAuthenticator
from moonpool.server.http.callers import AuthenticationError, HttpCaller
from moonpool.server.http.health import Readiness
from moonpool.server.http.request_limits import Names, RequestError
from moonpool.store.database.addresses import SqliteAddress
from moonpool.store.database.base import DatabaseError
from moonpool.store.database.opening import open_database
from server.services import serving
from server.test_http_requests import UNAUTHORIZED

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.anyio


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Door:
    """Requests to an admission, from wherever they claim to come."""

    def __init__(self, keys: Keys, good: str) -> None:
        self.good, self.clock = good, Clock()
        addresses = ClientAddresses(trusted_networks("10.0.0.0/8"))
        failed = FailedAuthentications(clock=self.clock)
        self._admission = Bearers([KeyAuthenticator(keys)], failed=failed, addresses=addresses)

    async def answer(self, credential: str | None, *, peer: str = "192.0.2.1", **headers: str) -> str:
        """The principal's kind, or how it was refused."""
        given = {**headers} if credential is None else {"authorization": f"Bearer {credential}", **headers}
        scope: Mapping[str, Any] = {
            "type": "http",
            "client": (peer, 1),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
        }
        try:
            caller = await self._admission.caller(dict(scope))
        except AuthenticationError:
            return "401"
        except RequestError as error:
            return f"{error.status} {error.headers['retry-after']}"
        return caller.principal.partition(":")[0]


@pytest.fixture
async def door(tmp_path: Path) -> AsyncGenerator[Door]:
    async with open_database(SqliteAddress(tmp_path / "service.sqlite3")) as database:
        keys = Keys(database)
        await Organisations(database, several=True).create("acme")
        yield Door(keys, (await keys.create(KeySpec(organisation_id="acme"))).text)
        await keys.close()


@pytest.mark.claim("C-KEY-3")
@pytest.mark.req("F-024", "J-039")
async def test_the_fourth_attempt_is_refused_whatever_it_has_and_other_addresses_are_not(door: Door) -> None:
    for _ in range(FAILURES_MAX):
        assert await door.answer("sk-local-guess") == "401"
    assert await door.answer("sk-local-guess") == "429 60"
    assert await door.answer(door.good) == "429 60"
    assert await door.answer(door.good, peer="192.0.2.2") == "key"
    door.clock.now += 59.2
    assert await door.answer(door.good) == "429 1"
    door.clock.now += 0.8
    assert await door.answer(door.good) == "key"


async def test_requests_without_a_credential_are_challenged_as_often_as_they_come(door: Door) -> None:
    assert [await door.answer(None) for _ in range(20)] == ["401"] * 20
    assert await door.answer(door.good) == "key"


async def test_good_credentials_between_do_not_make_room_for_guesses(door: Door) -> None:
    for _ in range(FAILURES_MAX):
        assert await door.answer(door.good) == "key"
        assert await door.answer("other") == "401"
    assert (await door.answer(door.good)).startswith("429")


@pytest.mark.claim("C-KEY-3")
async def test_a_header_changes_the_address_behind_our_proxy_only(door: Door) -> None:
    for number in range(FAILURES_MAX):  # as if from elsewhere each time
        assert await door.answer("guess", x_forwarded_for=f"203.0.113.{number}") == "401"
    assert (await door.answer("guess", x_forwarded_for="203.0.113.9")).startswith("429")

    for _ in range(FAILURES_MAX):
        assert await door.answer("guess", peer="10.0.0.1", x_forwarded_for="1.1.1.1, 198.51.100.7") == "401"
    assert (await door.answer("x", peer="10.0.0.1", x_forwarded_for="2.2.2.2, 198.51.100.7")).startswith("429")
    assert await door.answer(door.good, peer="10.0.0.1", x_forwarded_for="198.51.100.8") == "key"


@pytest.mark.claim("C-KEY-3")
@pytest.mark.req("J-039")
async def test_a_service_counts_clients_of_a_proxy_that_it_trusts_each_by_itself(tmp_path: Path) -> None:
    (state := tmp_path / "state").mkdir()
    async with serving(state=state, keys=True, trusted_proxies="127.0.0.0/8") as service:

        async def status(client: str) -> int:
            headers = {"authorization": "Bearer sk-local-x", "x-forwarded-for": f"127.0.0.9, {client}"}
            return (await service.http.get("/mcp", headers=headers)).status_code

        assert [await status("203.0.113.1") for _ in range(4)] == [401, 401, 401, 429]
        assert await status("203.0.113.2") == 401


@pytest.mark.slow
@pytest.mark.claim("C-KEY-2", "C-KEY-3")
@pytest.mark.req("J-038", "J-039", "J-040", "E-010", "E-017")
async def test_a_service_takes_keys_as_commands_make_and_revoke_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = json.loads(moonpool(tmp_path, "keys", "create", "--data-dir", data, "--org", "acme", "--json").stdout)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, SCRIPT, "serve", "--port", "0", "--data-dir", data],
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment(tmp_path),
        cwd=tmp_path,
    ) as service:
        assert service.stderr is not None
        try:
            with anyio.fail_after(90):
                line = await anyio.to_thread.run_sync(service.stderr.readline)
                (url,) = re.findall(r"http://\S+/mcp", line)
                async with httpx2.AsyncClient(timeout=60) as client:

                    async def status(key: str | None, **more: str) -> int:
                        headers = more if key is None else {"authorization": f"Bearer {key}", **more}
                        answer = await client.post(url, json=call, headers=headers)
                        assert (answer.status_code == 401) == (answer.content == UNAUTHORIZED)
                        return answer.status_code

                    assert (await status(made["key"]), await status(None)) == (200, 401)
                    later = moonpool(tmp_path, "keys", "create", "--data-dir", data, "--org", "acme")
                    assert await status(later.stdout.strip().decode()) == 200
                    moonpool(tmp_path, "keys", "revoke", made["id"], "--data-dir", data)
                    while await status(made["key"]) == 200:
                        pass  # for less than a second: test_keys
                    elsewhere = [{"x-forwarded-for": f"203.0.113.{number}"} for number in range(3)]  # nobody's proxy
                    assert [await status("sk-local-x", **one) for one in elsewhere] == [401, 401, 429]
        finally:
            service.send_signal(signal.SIGTERM)
        assert await anyio.to_thread.run_sync(service.wait) == 0


async def test_a_lost_database_is_a_503_that_names_no_host_and_no_file(caplog: pytest.LogCaptureFixture) -> None:
    class Lost:
        async def caller(self, _scope: object, /) -> HttpCaller:
            raise DatabaseError("PostgreSQL at db.internal, database moon cannot be reached")

        def challenge(self, _scope: object, _missing: object = None, /) -> str:
            return "Bearer"

    readiness = Readiness()
    application = Application(Names.of("127.0.0.1", 80, public_url=""), Lost(), readiness)
    application.open(())
    readiness.phase = "ready"
    transport = httpx2.ASGITransport(app=application)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.post("/mcp", json={})

    assert (answer.status_code, answer.json()["error"], answer.headers["retry-after"]) == (
        503,
        "database_unusable",
        "1",
    )
    assert "db.internal" not in answer.text
    assert "db.internal" in caplog.text
