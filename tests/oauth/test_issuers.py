"""Credentials go to the issuer that they were given for, whatever a server's metadata say next."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.oauth.addresses import check_address
from moonpool.oauth.errors import OAuthError
from moonpool.oauth.login_command import enter, leave
from moonpool.oauth.stored_logins import Logins
from moonpool.oauth.wire import open_login_http
from moonpool.upstreams.base import UpstreamLoginFailedError
from oauth.issuing import Issuer, Person, open_issuer
from oauth.test_logging_in import Side, call
from oauth.test_machines import KEYS, MACHINE, pem
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = pytest.mark.anyio
SECRET = {"client_secret": "s-1234567"}
BY_HAND = {"client_id": "robot", **SECRET}


@pytest.fixture
async def issuer() -> AsyncGenerator[Issuer]:
    async with open_issuer() as opened:
        opened.clients["robot"] = {**SECRET, "redirect_uris": [Person.redirect_uri]}
        yield opened


@pytest.fixture
async def thief(issuer: Issuer) -> AsyncGenerator[Issuer]:
    """Another authorization server, which takes any client of `issuer` for its own."""
    async with open_issuer() as opened:
        opened.clients, opened.access, opened.audience = issuer.clients, issuer.access, issuer.url
        yield opened


def move(issuer: Issuer, to: Issuer) -> None:
    issuer.issuer = f"{to.base}/as"
    issuer.expire_all()


async def log_in(side: Side) -> Any:
    return await enter(side.config.servers[0], Logins(side.shelf), Person())


@pytest.mark.req("E-037")
@pytest.mark.parametrize("proof", ["secret", "key"])
async def test_a_machine_gives_its_credential_to_the_first_issuer_only(
    proof: str, issuer: Issuer, thief: Issuer
) -> None:
    key = {"client_id": "robot", "private_key": pem(KEYS["ES256"]), "grant": "client_credentials"}
    if proof == "key":
        issuer.clients["robot"]["client_secret"] = ""
    side = Side(issuer, oauth=MACHINE if proof == "secret" else key)
    async with side.upstream() as srv:
        await call(srv)
        move(issuer, thief)
        with pytest.raises(UpstreamLoginFailedError) as caught:
            await call(srv)
    assert thief.forms == []
    for told in (f"names {thief.base}/as", f"not {issuer.base}/as", '"authorization_server"', "'srv'"):
        assert told in str(caught.value)


async def test_also_when_the_first_issuer_refuses(issuer: Issuer, thief: Issuer) -> None:
    side = Side(issuer, oauth={**MACHINE, "client_secret": "another-9876543"})
    for _ in range(2):
        async with side.upstream() as srv:
            with pytest.raises(UpstreamLoginFailedError):
                await call(srv)
        move(issuer, thief)
    assert issuer.forms
    assert thief.forms == []


@pytest.mark.parametrize("publishes", [True, False], ids=["another issuer", "no issuer but the server itself"])
async def test_a_person_gives_the_clients_secret_to_the_first_issuer_only(
    publishes: bool, issuer: Issuer, thief: Issuer
) -> None:
    side = Side(issuer, oauth=BY_HAND)
    await log_in(side)
    issuer.publishes = publishes
    asked = len(issuer.forms)
    move(issuer, thief)
    with pytest.raises(OAuthError, match='name the new one as "authorization_server"'):
        await log_in(side)
    assert (len(issuer.forms), thief.forms) == (asked, [])


async def test_an_issuer_that_moved_is_named_in_the_configuration_or_forgotten(issuer: Issuer, thief: Issuer) -> None:
    side = Side(issuer, oauth=BY_HAND)
    await log_in(side)
    move(issuer, thief)
    named = Side(issuer, oauth={**BY_HAND, "authorization_server": f"{thief.base}/as"})
    named.shelf = side.shelf
    assert (await log_in(named)).issuer == f"{thief.base}/as"
    assert (await log_in(side)).issuer == f"{thief.base}/as"  # where it went last
    assert (await leave(side.config.servers[0], Logins(side.shelf)))[0]
    assert side.shelf.texts == {}
    move(issuer, issuer)
    assert (await log_in(side)).issuer == f"{issuer.base}/as"


async def test_a_client_that_an_issuer_registered_itself_may_be_registered_by_the_next(
    issuer: Issuer, thief: Issuer
) -> None:
    side = Side(issuer)
    await log_in(side)
    used = set(issuer.issued)
    move(issuer, thief)
    assert (await log_in(side)).issuer == f"{thief.base}/as"
    assert not used & {value for form in thief.forms for value in form.values()}


LOOPBACK = (
    "127.0.0.1", "127.1", "0x7f000001", "2130706433", "0", "localhost", "LOCALHOST.", "a.localhost", "[::1]",
    "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
)  # fmt: skip
LINK_LOCAL = ("169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1]", "[64:ff9b::a9fe:a9fe]", "2852039166")


@pytest.mark.req("E-039", "L-028")
@every_row("host", [*LOOPBACK, *LINK_LOCAL])
def test_a_server_elsewhere_names_neither_this_machine_nor_a_link(host: str) -> None:
    kind = "loopback" if host in LOOPBACK else "link-local"
    with pytest.raises(OAuthError, match=f"is a {kind} address"):
        check_address(f"https://{host}:8443/token", "token_endpoint", server_url="https://h.example/mcp")


@every_row("host", ["h.example", "10.0.0.1", "[2001:db8::1]", "[::ffff:10.0.0.1]", "127.0.0.1.example", "1.example"])
def test_other_addresses_may_be_named(host: str) -> None:
    assert check_address(f"https://{host}/", "issuer", server_url="https://h.example/mcp")


@every_row(
    ("server", "host"),
    [("127.0.0.1", "localhost"), ("localhost", "[::1]"), ("169.254.1.1", "169.254.1.2")],
)
def test_a_server_of_this_machine_may_name_it(server: str, host: str) -> None:
    assert check_address(f"https://{host}/", "issuer", server_url=f"https://{server}/mcp")


@pytest.mark.req("L-028")
async def test_a_name_that_leads_to_this_machine_gets_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever name: what counts is where the connection leads."""
    really = socket.getaddrinfo

    def lying(host: Any, *about: Any, **more: Any) -> Any:
        return really("127.0.0.1" if host in {"as.example", b"as.example"} else host, *about, **more)

    monkeypatch.setattr(socket, "getaddrinfo", lying)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"https://as.example:{listener.getsockname()[1]}/token"
        async with open_login_http("https://h.example/mcp") as http:
            with pytest.raises(OAuthError, match=r"leads to the loopback address 127\.0\.0\.1"):
                await http.post_form(address, {"client_secret": "s-1234567"}, {})
        listener.settimeout(10)
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(10)
            assert connection.recv(1) == b""
