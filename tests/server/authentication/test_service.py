"""What the service does with tokens: every request needs one, and nothing of it goes anywhere else."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.bootstrap.database import open_service_data
from moonpool.bootstrap.stores import FileStores
from moonpool.configuration.servers import parse_config, resolved_key
from moonpool.features.keys.model import KeySpec
from moonpool.oauth.challenge import bearer_challenge
from moonpool.oauth.login_command import enter
from moonpool.oauth.stored_logins import Logins
from moonpool.store.paths import tenant_dir
from oauth.issuing import Person, open_issuer
from server.authentication.issuers import open_fake_issuer
from server.authentication.service import INITIALIZE, LIST, call, open_service_of
from server.test_http_requests import UNAUTHORIZED
from tenants import PathsServer, token_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from server.authentication.issuers import FakeIssuer
    from server.authentication.service import Served

pytestmark = pytest.mark.anyio
REQUESTS = [
    ("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("POST", "/mcp/code"), ("GET", "/sse"), ("POST", "/message"),
    ("GET", "/metrics"), ("GET", "/nowhere"),
]  # fmt: skip


CALL_PLAIN = """
import servers.paths as paths
answer = await paths.plain()
result = answer.data if answer.ok else answer.error["type"]
"""


@pytest.fixture
async def issuer() -> AsyncGenerator[FakeIssuer]:
    async with open_fake_issuer() as opened:
        yield opened


@pytest.fixture
async def server() -> AsyncGenerator[PathsServer]:
    async with PathsServer().serving() as serving:
        yield serving


@pytest.fixture
async def served(issuer: FakeIssuer, server: PathsServer, tmp_path: Path) -> AsyncGenerator[Served]:
    entry = {
        "url": f"{server.base}/x/mcp",
        "headers": {"Authorization": f"Bearer {token_of('x')}"},
        "moonpool": {"allow": ["*"]},
    }
    async with open_service_of(issuer.url, tmp_path, entry=entry) as opened:
        yield opened


@pytest.mark.claim("C-WEB-1")
@pytest.mark.req("E-009", "E-010", "E-012", "E-016", "X-18")
async def test_without_a_token_every_door_is_closed_and_nothing_happens(served: Served, server: PathsServer) -> None:
    async with served.client() as client:
        for method, path in REQUESTS:
            answer = await client.request(method, path, json=INITIALIZE if method == "POST" else None)
            told = bearer_challenge([answer.headers["www-authenticate"]])
            assert (answer.status_code, answer.content, told.error) == (401, UNAUTHORIZED, ""), path
            assert (await client.get(told.resource_metadata)).status_code == 200, path
    assert not (served.state / "tenants").exists()
    assert server.asked == []


@pytest.mark.req("E-012", "E-013", "E-018", "E-019")
async def test_what_is_wrong_with_a_credential_has_its_own_answer(served: Served, issuer: FakeIssuer) -> None:
    good = issuer.token(aud=served.resource)
    async with served.client() as client:
        for query in ("access_token", "token", "authorization"):
            assert (await client.post("/mcp", params={query: good}, json=INITIALIZE)).status_code == 401, query
        for header in ("Bearer", "Basic YTpi", f"Bearer {good} x", f"Bearer {'x' * 20_000}"):
            malformed = await client.post("/mcp", json=INITIALIZE, headers={"authorization": header})
            assert malformed.status_code in {400, 431}, header
    async with served.client(good) as client:
        answer = await client.get("/metrics")
    told = bearer_challenge([answer.headers["www-authenticate"]])
    assert (answer.status_code, told.error, told.scopes) == (403, "insufficient_scope", ("admin",))
    assert told.resource_metadata.startswith(served.origin)
    for bad in (issuer.token(aud=served.resource, exp=1000), issuer.token(), good[:-4] + "AAAA"):
        async with served.client(bad) as client:
            answer = await client.post("/mcp", json=INITIALIZE)
        told = bearer_challenge([answer.headers["www-authenticate"]])
        assert (answer.status_code, answer.content, told.error) == (401, UNAUTHORIZED, "invalid_token"), bad
    async with served.client(good) as client:  # after three failures the address waits, with whatever it sends
        answer = await client.post("/mcp", json=INITIALIZE)
    assert (answer.status_code, 0 < int(answer.headers["retry-after"]) <= 60) == (429, True)


@pytest.mark.claim("C-WEB-1")
@pytest.mark.req("E-017", "F-005")
async def test_a_session_is_no_credential(served: Served, issuer: FakeIssuer) -> None:
    async with served.client(issuer.token(aud=served.resource)) as alice:
        opened = await alice.post("/mcp", json=INITIALIZE)
        assert opened.status_code == 200
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        assert (await alice.post("/mcp", json=LIST, headers=session)).status_code == 200
    async with served.client() as nobody:
        assert (await nobody.post("/mcp", json=LIST, headers=session)).status_code == 401
        assert (await nobody.delete("/mcp", headers=session)).status_code == 401
    async with served.client(issuer.token(aud=served.resource, sub="bob")) as bob:
        assert (await bob.post("/mcp", json=LIST, headers=session)).status_code == 404
    async with served.client(issuer.token(aud=served.resource, exp=1000)) as late:
        assert (await late.post("/mcp", json=LIST, headers=session)).status_code == 401


@pytest.mark.claim("C-WEB-4")
@pytest.mark.req("E-015", "E-020", "F-002", "F-004")
@pytest.mark.skipif(os.geteuid() != 0, reason="without root there is one uid, which the backend of other tests has")
async def test_a_token_goes_nowhere_and_the_record_names_its_user(
    served: Served, issuer: FakeIssuer, server: PathsServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = issuer.token(aud=served.resource)
    async with served.client(token) as client:
        result = await call(client, "execute_code", code="import servers.paths as p\nresult = (await p.only_x()).ok")
    assert result["structuredContent"]["ok"], result
    assert server.calls == [("x", "only_x")]  # which it answers for its own credential only
    signature = token.rpartition(".")[2]
    written = b"".join(path.read_bytes() for path in served.state.rglob("*") if path.is_file())
    for place in (str(result), caplog.text, written.decode("latin-1")):
        assert signature not in place
    assert f"user:{issuer.url}#alice".encode() in written


@pytest.mark.req("E-005", "X-18")
async def test_keys_and_tokens_are_taken_side_by_side(served: Served, issuer: FakeIssuer) -> None:
    async with open_service_data(served.service.engine.settings, served.state, {}) as data:
        key = await data.keys.create(KeySpec(organisation_id="acme"))
    for credential in (key.text, issuer.token(aud=served.resource)):
        async with served.client(credential) as client:
            assert (await client.post("/mcp", json=INITIALIZE)).status_code == 200


async def test_a_token_for_one_profile_opens_no_other(served: Served, issuer: FakeIssuer) -> None:
    async with served.client(issuer.token(aud=f"{served.resource}/code")) as client:
        own = await client.post("/mcp/code", json=INITIALIZE)
    async with served.client(issuer.token(aud=f"{served.resource}/direct")) as client:
        other = await client.post("/mcp/code", json=INITIALIZE)
    assert (own.status_code, other.status_code) == (200, 404)


async def test_while_the_issuer_is_away_nobody_new_is_let_in(served: Served, issuer: FakeIssuer) -> None:
    issuer.down = True
    async with served.client(issuer.token(aud=served.resource)) as client:
        answer = await client.post("/mcp", json=INITIALIZE)
    assert (answer.status_code, answer.json()["error"]) == (503, "issuer_unavailable")
    assert answer.headers["retry-after"]


@pytest.mark.slow
@pytest.mark.req("F-001", "E-015")
async def test_a_login_of_ours_serves_only_clients_whose_user_agreed(
    issuer: FakeIssuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two clients of one user, at a service that is logged in to a server behind OAuth."""
    caplog.set_level(logging.WARNING)
    async with open_issuer() as upstream:
        entry = {"url": upstream.url, "moonpool": {"allow": ["*"]}}
        (server,) = parse_config(json.dumps({"mcpServers": {"paths": entry}}).encode(), source="t", environ={}).servers
        logins = Logins(FileStores(tenant_dir(tmp_path / "state", "acme")).logins())
        await enter(server, logins, Person())
        async with open_service_of(issuer.url, tmp_path, entry=entry) as served:
            seen, user, token = dict[str, Any](), f"user:{issuer.url}#alice", ""
            for consented in (False, True):
                if consented:  # by another process
                    async with open_service_data(served.service.engine.settings, served.state, {}) as data:
                        await data.consents.give(
                            "acme", user, "app", "paths", resolved_key(server), given_by="terminal:alice"
                        )
                for client in ("app", "app-2"):
                    token = issuer.token(aud=served.resource, client_id=client)
                    async with served.client(token) as http:
                        done = await call(http, "execute_code", code=CALL_PLAIN)
                    seen[f"{client} {consented}"] = done["structuredContent"]["data"]
    assert seen == {
        "app False": "PolicyDenied", "app-2 False": "PolicyDenied", "app True": "done", "app-2 True": "PolicyDenied",
    }  # fmt: skip
    assert f"moonpool consents give paths --org acme --user '{user}' --client app-2" in caplog.text
    assert not any(token in said for _, _, said in upstream.seen)


@pytest.mark.req("F-001")
async def test_a_user_agrees_with_a_client_that_the_operator_named_for_it(issuer: FakeIssuer, tmp_path: Path) -> None:
    entry = {"url": "http://127.0.0.1:9/mcp", "moonpool": {"allow": ["*"]}}
    wanted = {"client": "app", "server": "paths"}
    async with open_service_of(issuer.url, tmp_path, entry=entry) as served:
        for refused in ({}, {"client_id": "consents-app", "auth_time": None}, {"client_id": "app-2"}):
            async with served.client(issuer.token(aud=served.resource, **refused)) as http:
                for method, path in (("GET", ""), ("POST", ""), ("POST", "/withdraw")):
                    answer = await http.request(
                        method, f"/v1/consents{path}", json=wanted if method == "POST" else None
                    )
                    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "consent_forbidden")
        async with served.client(issuer.token(aud=served.resource, client_id="consents-app")) as http:
            assert (await http.post("/v1/consents", json={**wanted, "server": "other"})).status_code == 400
            assert (await http.post("/v1/consents", json=wanted)).status_code == 201
            given = (await http.get("/v1/consents")).json()["consents"]
            assert [(one["client"], one["server"]) for one in given] == [("app", "paths")]
        async with served.client(issuer.token(aud=served.resource, client_id="consents-app", sub="bob")) as http:
            assert (await http.get("/v1/consents")).json() == {"consents": []}
            assert (await http.post("/v1/consents/withdraw", json=wanted)).status_code == 204  # of bob's, who has none
        async with open_service_data(served.service.engine.settings, served.state, {}) as data:
            (consent,) = await data.consents.all("acme")
        user = f"user:{issuer.url}#alice"
        assert (consent.principal, consent.given_by, consent.withdrawn_at) == (user, f"{user} by consents-app", None)
        async with served.client(issuer.token(aud=served.resource, client_id="consents-app")) as http:
            assert (await http.post("/v1/consents/withdraw", json=wanted)).status_code == 204
            assert (await http.get("/v1/consents")).json() == {"consents": []}


@pytest.mark.req("E-021")
async def test_older_clients_find_the_issuer_at_our_root(served: Served, issuer: FakeIssuer) -> None:
    async with served.client() as client:
        found = await client.get("/.well-known/oauth-authorization-server", follow_redirects=True)
    assert (found.status_code, found.json()["issuer"]) == (200, issuer.url)
    assert [str(one.url) for one in found.history] == [f"{served.origin}/.well-known/oauth-authorization-server"]


ABSENT = ["/authorize", "/token", "/register", "/introspect", "/revoke", "/oauth/callback", "/callback", "/login"]


@pytest.mark.claim("C-WEB-4")
@pytest.mark.req("E-044", "E-045", "E-046", "E-047", "E-048", "E-049", "E-050", "E-051", "E-052", "E-053", "E-054")
@pytest.mark.req("E-055", "E-056")
async def test_the_service_is_no_authorization_server(served: Served, issuer: FakeIssuer) -> None:
    async with served.client(issuer.token(aud=served.resource, scope="execute files approve admin")) as client:
        found: list[Any] = [
            (method, path, answer.status_code)
            for path in ABSENT
            for method in ("GET", "POST")
            if (answer := await client.request(method, path)).status_code != 404
        ]
    assert found == []
