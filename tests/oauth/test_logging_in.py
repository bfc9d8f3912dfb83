"""Logging in to a server with a real authorization code flow over the loopback interface, and what follows."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

import anyio
import httpx2
import pytest
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from moonpool.configuration.oauth_settings import OAuthSettings
from moonpool.configuration.servers import McpConfig, parse_config
from moonpool.oauth.challenge import Challenge, bearer_challenge
from moonpool.oauth.credentials import Credentials
from moonpool.oauth.errors import LoginNeededError, OAuthError
from moonpool.oauth.login_command import enter
from moonpool.oauth.loopback import STRANGERS_MAX, LoopbackAgent, PastingAgent
from moonpool.oauth.stored_logins import Logins, MemoryLoginStore
from moonpool.redaction.known_values import GrowingValues
from moonpool.redaction.redactor import Redactor, Tally
from moonpool.upstreams import Upstream, open_upstreams
from moonpool.upstreams.base import UpstreamLoginFailedError, UpstreamLoginNeededError
from oauth.issuing import Issuer, Person, browse, open_issuer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

pytestmark = pytest.mark.anyio


@pytest.fixture
async def issuer() -> AsyncGenerator[Issuer]:
    async with open_issuer() as opened:
        yield opened


class Side:
    """Our side: a configuration, a shelf, a person or none."""

    def __init__(self, issuer: Issuer, *, person: Any = None, **entry: Any) -> None:
        document = {"mcpServers": {"srv": {"url": issuer.url, "type": "http", **entry}}}
        self.config: McpConfig = parse_config(json.dumps(document).encode(), source="test", environ={})
        self.shelf = MemoryLoginStore()
        self.tokens = GrowingValues()
        self.person = person

    def credentials(self) -> Credentials:
        server = self.config.servers[0]
        return Credentials(
            "srv", server.url, server.oauth, Logins(self.shelf), agent=self.person,
            on_secrets=lambda values: self.tokens.set_values("srv", values),
        )  # fmt: skip

    @asynccontextmanager
    async def upstream(self) -> AsyncGenerator[Upstream]:
        credentials = {"srv": self.credentials()}
        with anyio.fail_after(20):
            async with open_upstreams(self.config, environ=dict(os.environ), credentials=credentials) as opened:
                found = opened.get("srv")
                assert found is not None
                yield found
            await credentials["srv"].close()

    async def log_in(self) -> None:
        await enter(self.config.servers[0], Logins(self.shelf), Person())


async def call(srv: Upstream, tool: str = "plain") -> Any:
    return await srv.call_tool(tool, {}, timeout_s=10)


@pytest.mark.req("E-043")
async def test_without_a_login_a_call_fails_and_says_what_to_run(issuer: Issuer) -> None:
    async with Side(issuer).upstream() as srv:
        for _ in range(3):  # it never rests: the call after a login must work
            with pytest.raises(UpstreamLoginNeededError, match="moonpool login srv") as caught:
                await call(srv)
            assert "moonpool login srv" in caught.value.for_guest


@pytest.mark.req("E-025", "E-029", "E-031", "E-032", "E-035", "E-036", "E-042", "H-059", "L-002")
async def test_after_a_login_every_request_carries_the_token(issuer: Issuer) -> None:
    side = Side(issuer)
    await side.log_in()
    issuer.seen.clear()
    async with side.upstream() as srv:
        assert (await call(srv))["content"][0]["text"] == "done"
    (token,) = issuer.access
    assert {method for method, _, _ in issuer.seen} == {"POST", "GET", "DELETE"}
    assert {given for _, _, given in issuer.seen} == {f"Bearer {token}"}
    assert not any(token.encode() in said for said in issuer.said)
    assert all(form["resource"] == issuer.url for form in issuer.forms)


@pytest.mark.req("E-022")
async def test_the_authorization_server_of_another_origin_is_found_by_the_servers_metadata(issuer: Issuer) -> None:
    async with open_issuer() as elsewhere:
        issuer.issuer, elsewhere.audience, issuer.access = f"{elsewhere.base}/as", issuer.url, elsewhere.access
        side = Side(issuer)
        await side.log_in()
        async with side.upstream() as srv:
            assert (await call(srv))["content"][0]["text"] == "done"
    assert {path for path in issuer.paths if path != "/mcp"} == {"/.well-known/oauth-protected-resource/mcp"}
    assert {"/as/register", "/as/authorize", "/as/token"} <= set(elsewhere.paths)


@pytest.mark.req("B-075")
async def test_metadata_is_asked_for_with_the_revision(issuer: Issuer) -> None:
    await Side(issuer).log_in()
    asked = [(path, revision) for path, revision in issuer.revisions if "/.well-known/" in path]
    assert {path.split("/")[2] for path, _ in asked} == {"oauth-protected-resource", "oauth-authorization-server"}
    assert {revision for _, revision in asked} == {LATEST_HANDSHAKE_VERSION}


@pytest.mark.req("E-026", "E-027", "E-028")
async def test_a_server_that_publishes_nothing_is_logged_in_to_at_the_default_paths_of_its_root(
    issuer: Issuer,
) -> None:
    issuer.publishes = False
    side = Side(issuer)
    await side.log_in()
    asked = [path for path in issuer.paths if path != "/mcp"]
    assert asked[-3:] == ["/register", "/authorize", "/token"]
    assert all(path.startswith("/.well-known/") for path in asked[:-3])
    assert "/.well-known/oauth-authorization-server" in asked
    async with side.upstream() as srv:
        assert (await call(srv))["content"][0]["text"] == "done"


@pytest.mark.req("E-032")
async def test_a_redirect_uri_that_is_not_registered_is_refused_and_the_remedy_named(issuer: Issuer) -> None:
    taken = socket.socket()  # until the end: whoever asks for any port gets another
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind(("127.0.0.1", 0))
    uri = f"http://127.0.0.1:{taken.getsockname()[1]}/callback"
    issuer.clients["by-hand"] = {"client_secret": "s-1234567", "redirect_uris": [uri]}
    browsing: list[asyncio.Task[str]] = []

    async def visit(address: str) -> str:
        async with httpx2.AsyncClient(follow_redirects=True) as client:
            return (await client.get(address)).text

    def entering(redirect_uri: str, timeout_s: float) -> Awaitable[object]:
        oauth = {"client_id": "by-hand", "client_secret": "s-1234567", "redirect_uri": redirect_uri}
        agent = LoopbackAgent(lambda to: browsing.append(asyncio.create_task(visit(to))), timeout_s=timeout_s)
        return enter(Side(issuer, oauth=oauth).config.servers[0], Logins(MemoryLoginStore()), agent)

    await entering(uri, 60)
    other = uri.replace("/callback", "/other")
    with pytest.raises(OAuthError, match=f"register {other} as a redirect URI") as refused:
        await entering(other, 0.5)
    assert "the browser did not return" in str(refused.value)
    assert (await browsing[1]) == "unknown client or redirect"
    taken.close()


async def test_a_login_over_a_loopback_port_answers_one_request_with_a_safe_page(issuer: Issuer) -> None:
    side, pages = Side(issuer), list[httpx2.Response]()
    browsing: list[asyncio.Task[None]] = []

    async def visit(address: str) -> None:
        back = await browse(address)
        async with httpx2.AsyncClient() as client:
            pages.append(await client.get(back.replace("/callback", "/other")))
            pages.append(await client.get(back))

    agent = LoopbackAgent(lambda address: browsing.append(asyncio.create_task(visit(address))), timeout_s=60)
    await enter(side.config.servers[0], Logins(side.shelf), agent)
    await browsing[0]
    assert [page.status_code for page in pages] == [404, 200]
    assert not any(value in pages[1].text for value in issuer.issued)
    assert pages[1].headers["content-security-policy"] == "default-src 'none'"
    async with side.upstream() as srv:
        await call(srv)


async def test_a_request_without_end_is_hung_up_on_and_the_login_goes_on(issuer: Issuer) -> None:
    side = Side(issuer)
    browsing: list[asyncio.Task[None]] = []

    async def visit(address: str) -> None:
        back = urlsplit(await browse(address))
        reader, writer = await asyncio.open_connection(back.hostname, back.port)
        writer.write(b"GET /" + b"a" * 300_000)
        with anyio.fail_after(30), contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        async with httpx2.AsyncClient() as client:
            await client.get(back.geturl())

    agent = LoopbackAgent(lambda address: browsing.append(asyncio.create_task(visit(address))), timeout_s=60)
    await enter(side.config.servers[0], Logins(side.shelf), agent)
    await browsing[0]


async def test_requests_with_another_state_do_not_spoil_a_login(issuer: Issuer) -> None:
    side, pages = Side(issuer), list[httpx2.Response]()
    browsing: list[asyncio.Task[None]] = []

    async def visit(address: str) -> None:
        back = await browse(address)
        page, _, query = back.partition("?")
        async with httpx2.AsyncClient() as client:
            for wrong in ("", "code=x&state=forged", "error=access_denied", f"{query}&state=other", "state=%ff"):
                pages.append(await client.get(f"{page}?{wrong}"))
            pages.append(await client.get(back))

    agent = LoopbackAgent(lambda address: browsing.append(asyncio.create_task(visit(address))), timeout_s=60)
    await enter(side.config.servers[0], Logins(side.shelf), agent)
    await browsing[0]
    assert [page.status_code for page in pages] == [400, 400, 400, 400, 400, 200]
    assert len(side.shelf.texts) == 1


async def test_a_login_is_given_up_when_somebody_keeps_guessing(issuer: Issuer) -> None:
    side = Side(issuer)
    browsing: list[asyncio.Task[None]] = []

    async def guess(address: str) -> None:
        page, _, _ = (await browse(address)).partition("?")
        async with httpx2.AsyncClient() as client:
            with contextlib.suppress(httpx2.HTTPError):
                for number in range(STRANGERS_MAX):
                    await client.get(f"{page}?code=x&state={number}")

    agent = LoopbackAgent(lambda address: browsing.append(asyncio.create_task(guess(address))), timeout_s=60)
    with pytest.raises(OAuthError, match="another state"):
        await enter(side.config.servers[0], Logins(side.shelf), agent)
    await browsing[0]
    assert side.shelf.texts == {}


async def test_nobody_coming_back_ends_a_login(issuer: Issuer) -> None:
    with pytest.raises(OAuthError, match="the browser did not return"):
        await enter(
            Side(issuer).config.servers[0], Logins(MemoryLoginStore()), LoopbackAgent(lambda _: None, timeout_s=0.05)
        )


async def test_a_login_without_a_browser_here_reads_the_pasted_address(issuer: Issuer) -> None:
    side, shown = Side(issuer), list[str]()

    def read() -> str:
        return anyio.from_thread.run(browse, shown[0]) + "\n"

    await enter(side.config.servers[0], Logins(side.shelf), PastingAgent(shown.append, read))
    assert len(side.shelf.texts) == 1


@pytest.mark.req("L-027")
@pytest.mark.parametrize("offered", [None, [], ["plain"]], ids=str)
async def test_nobody_logs_in_where_pkce_is_not_offered(issuer: Issuer, offered: list[str] | None) -> None:
    issuer.pkce = offered
    person = Person()
    side = Side(issuer, person=person)
    async with side.upstream() as srv:
        with pytest.raises(UpstreamLoginFailedError, match="PKCE with S256"):
            await call(srv)
    assert person.visits == []


@pytest.mark.req("E-034")
@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        pytest.param({"state": "other"}, "another state", id="another state"),
        pytest.param({"iss": "https://evil.example"}, "another authorization server", id="another issuer"),
        pytest.param({"error": "access_denied"}, "refused: access_denied", id="an error"),
        pytest.param({"code": ""}, "no code", id="no code"),
    ],
)
async def test_an_answer_that_is_not_ours_ends_the_login(issuer: Issuer, extra: dict[str, str], problem: str) -> None:
    issuer.answer_extra = extra
    side = Side(issuer)
    with pytest.raises(OAuthError, match=problem):
        await side.log_in()
    assert issuer.forms == []
    assert side.shelf.texts == {}


async def test_metadata_for_another_resource_ends_the_login(issuer: Issuer) -> None:
    issuer.resource = "https://other.example/mcp"
    with pytest.raises(OAuthError, match="another resource"):
        await Side(issuer).log_in()


@pytest.mark.req("E-040")
async def test_of_many_calls_with_an_expired_token_one_refreshes(issuer: Issuer) -> None:
    side = Side(issuer)
    await side.log_in()
    async with side.upstream() as srv:
        await call(srv)
        issuer.expire_all()
        issuer.forms.clear()
        results = await asyncio.gather(*(call(srv) for _ in range(8)))
    assert len(results) == 8
    assert [form["grant_type"] for form in issuer.forms] == ["refresh_token"]


async def test_a_token_that_is_about_to_end_is_refreshed_before_it_is_refused(issuer: Issuer) -> None:
    side = Side(issuer)
    issuer.lifetime_s = 1
    await side.log_in()
    issuer.seen.clear()
    issuer.lifetime_s = 3600
    async with side.upstream() as srv:
        await call(srv)
    assert all(given.removeprefix("Bearer ") in issuer.access for _, _, given in issuer.seen)


async def test_a_cancelled_call_does_not_lose_the_new_refresh_token(issuer: Issuer) -> None:
    side = Side(issuer)
    await side.log_in()
    issuer.expire_all()
    issuer.token_gate.clear()
    issuer.token_asked.clear()
    first, second = side.credentials(), Challenge()
    used = await first.header()
    waiting = asyncio.create_task(first.renew(second, used=used, attempt=0))
    await issuer.token_asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    issuer.token_gate.set()
    await first.close()
    assert await first.header() == f"Bearer {next(iter(issuer.access))}"
    assert (await side.credentials().header()) == await first.header()


async def test_a_refused_refresh_asks_for_a_login(issuer: Issuer) -> None:
    side = Side(issuer)
    await side.log_in()
    issuer.expire_all()
    issuer.refresh.clear()
    async with side.upstream() as srv:
        with pytest.raises(UpstreamLoginNeededError, match="moonpool login srv"):
            await call(srv)


async def test_a_login_meanwhile_is_used_by_the_running_process(issuer: Issuer) -> None:
    side = Side(issuer)
    async with side.upstream() as srv:
        with pytest.raises(UpstreamLoginNeededError):
            await call(srv)
        await side.log_in()
        assert await call(srv)


@pytest.mark.req("H-062", "L-030")
async def test_more_scope_is_asked_of_a_person_once(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    person = Person()
    side = Side(issuer, person=person)
    async with side.upstream() as srv:
        await call(srv)
        await asyncio.gather(*(call(srv, "admin") for _ in range(4)))
    scopes = [set(parse_qs(urlsplit(address).query)["scope"][0].split()) for address in person.visits]
    assert scopes == [{"tools", "offline_access"}, {"tools", "offline_access", "admin"}]
    assert caplog.messages.count("server 'srv' asks for a login with more scopes: admin") == 1


async def test_without_a_person_more_scope_is_named(issuer: Issuer) -> None:
    side = Side(issuer)
    await side.log_in()
    async with side.upstream() as srv:
        with pytest.raises(UpstreamLoginNeededError, match="moonpool login srv --scope 'admin'"):
            await call(srv, "admin")


async def test_a_scope_that_would_end_the_quotes_is_not_told_as_a_command() -> None:
    credentials = Credentials("srv", "https://h.example/mcp", OAuthSettings(), Logins(MemoryLoginStore()))
    refused = bearer_challenge(['Bearer error="insufficient_scope", scope="admin x\';id;\'"'])
    assert refused.scopes == ("admin", "x';id;'")
    with pytest.raises(LoginNeededError, match=r"moonpool login srv --scope 'admin'`"):
        await credentials.renew(refused, used=None, attempt=0)


@pytest.mark.req("E-037")
async def test_a_token_is_for_its_own_url_only(issuer: Issuer) -> None:
    side = Side(issuer)
    await side.log_in()
    other = Credentials("b", f"{issuer.base}/mcp/other", side.config.servers[0].oauth, Logins(side.shelf))
    assert await other.header() is None


async def test_an_authorization_header_of_the_configuration_wins(issuer: Issuer) -> None:
    issuer.access["own-token"] = "tools"
    side = Side(issuer, headers={"authorization": "Bearer own-token"})
    async with side.upstream() as srv:
        await call(srv)
    assert {given for _, _, given in issuer.seen} == {"Bearer own-token"}


async def test_an_issuer_that_is_down_is_not_a_login_problem_of_the_person(issuer: Issuer) -> None:
    side = Side(issuer)
    await side.log_in()
    issuer.expire_all()
    issuer.resource = "https://other.example/mcp"
    async with side.upstream() as srv:
        with pytest.raises(UpstreamLoginFailedError, match="another resource") as caught:
            await call(srv)
    assert "another resource" not in caught.value.for_guest


@pytest.mark.req("E-020")
async def test_no_token_is_in_results_errors_or_logs(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    side, texts = Side(issuer, person=Person()), list[str]()
    issuer.echoes_token = True
    async with side.upstream() as srv:
        result = await call(srv)
        issuer.expire_all()
        result2 = await call(srv)
        redactor = Redactor.of({}, patterns=False, growing=side.tokens)
        for echoed in (result, result2):
            raw = echoed["content"][0]["text"]
            forms = [raw, quote(raw, safe=""), base64.b64encode(raw.encode()).decode()]
            texts += [redactor.text(form, Tally()) for form in forms]
        issuer.refuses_with = ("we", "repeat", "you")
        with pytest.raises(OAuthError) as refused:
            await side.credentials().log_in(Challenge(scopes=("tools",)))
        texts.append(str(refused.value))
    texts += [repr(side.credentials().__dict__), caplog.text, repr(side.config)]
    assert not any(value in str(refused.value) for value in issuer.issued)
    secret = [value for value in issuer.issued if not value.startswith("code-")]  # the test's browser logs those
    assert len(secret) >= 5
    for value in secret:
        for form in (value, quote(value, safe=""), base64.b64encode(value.encode()).decode().rstrip("=")):
            assert [text for text in texts if form in text] == []
