"""Logins without a person (client credentials), and logins that are revoked when they are over."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from moonpool.configuration.servers import parse_config
from moonpool.core.errors import ConfigError
from moonpool.oauth.assertion import client_assertion
from moonpool.oauth.errors import OAuthError
from moonpool.oauth.login_command import enter, leave
from moonpool.oauth.stored_logins import Logins
from moonpool.upstreams.base import UpstreamLoginFailedError
from oauth.issuing import Issuer, Person, open_issuer
from oauth.test_logging_in import Side, call

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = pytest.mark.anyio
MACHINE = {"client_id": "robot", "client_secret": "s-1234567", "grant": "client_credentials"}


@pytest.fixture
async def issuer() -> AsyncGenerator[Issuer]:
    async with open_issuer() as opened:
        opened.clients["robot"] = {"client_secret": "s-1234567"}
        yield opened


@pytest.mark.req("E-041", "E-042", "L-002")
async def test_a_machine_logs_in_by_itself_and_again_when_its_token_ends(issuer: Issuer) -> None:
    async with Side(issuer, oauth=MACHINE).upstream() as srv:
        await call(srv)
        issuer.expire_all()
        assert (await call(srv))["content"][0]["text"] == "done"
    assert [form["grant_type"] for form in issuer.forms] == ["client_credentials"] * 2
    assert all(form["resource"] == issuer.url and form["scope"] == "tools" for form in issuer.forms)


@pytest.mark.req("E-041")
async def test_a_token_that_is_about_to_end_is_replaced_before_it_is_refused(issuer: Issuer) -> None:
    issuer.lifetime_s = 1
    async with Side(issuer, oauth=MACHINE).upstream() as srv:
        await call(srv)
        issuer.seen.clear()
        await call(srv)
    assert len({given for _, _, given in issuer.seen}) >= 1
    assert len(issuer.forms) > 1


@pytest.mark.req("E-041")
async def test_a_machine_that_is_refused_is_told_why_without_its_secret(issuer: Issuer) -> None:
    wrong = {**MACHINE, "client_secret": "another-9876543"}
    async with Side(issuer, oauth=wrong).upstream() as srv:
        with pytest.raises(UpstreamLoginFailedError, match="invalid_client") as caught:
            await call(srv)
    assert "another-9876543" not in str(caught.value)


async def test_a_machine_may_be_logged_in_by_command(issuer: Issuer) -> None:
    side, nobody = Side(issuer, oauth=MACHINE), Person()
    login = await enter(side.config.servers[0], Logins(side.shelf), nobody)
    assert (login.client.client_id, nobody.visits) == ("robot", [])


@pytest.mark.parametrize(
    ("oauth", "sentence"),
    [
        ({"grant": "password"}, '"grant" must be'),
        ({"grant": "client_credentials", "client_id": "a"}, 'needs "client_id" and "client_secret" or "private_key"'),
        ({"private_key": "k"}, '"private_key" needs "client_id"'),
        ({"private_key": "k", "client_id": "a", "client_secret": "b"}, 'excludes "client_secret"'),
    ],
)
def test_settings_that_cannot_work_are_refused(oauth: dict[str, str], sentence: str) -> None:
    document = {"mcpServers": {"srv": {"url": "https://example.org/mcp", "oauth": oauth}}}
    with pytest.raises(ConfigError) as caught:
        parse_config(json.dumps(document).encode(), source="test", environ={})
    assert sentence in str(caught.value)


KEYS = {
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


def pem(key: Any) -> str:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def verify(algorithm: str, assertion: str) -> dict[str, Any]:
    """The claims, if the signature is good."""
    head, body, signature = assertion.split(".")
    assert json.loads(_decoded(head))["alg"] == algorithm
    public: Any = KEYS[algorithm].public_key()
    text, raw = f"{head}.{body}".encode(), _decoded(signature)
    if algorithm == "ES256":
        r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
        public.verify(encode_dss_signature(r, s), text, ec.ECDSA(hashes.SHA256()))
    elif algorithm == "RS256":
        public.verify(raw, text, padding.PKCS1v15(), hashes.SHA256())
    else:
        public.verify(raw, text)
    return json.loads(_decoded(body))


@pytest.mark.req("E-041")
@pytest.mark.parametrize("algorithm", sorted(KEYS))
def test_an_assertion_is_signed_for_one_issuer_and_one_minute(algorithm: str) -> None:
    key = pem(KEYS[algorithm])
    claims = verify(algorithm, client_assertion(key, client_id="robot", issuer="https://as.example"))
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("robot", "robot", "https://as.example")
    assert claims["exp"] - claims["iat"] == 60
    assert claims["jti"] != verify(algorithm, client_assertion(key, client_id="r", issuer="x"))["jti"]


@pytest.mark.parametrize("key", ["nonsense", pem(ec.generate_private_key(ec.SECP384R1()))], ids=["no key", "P-384"])
def test_a_key_that_cannot_sign_is_named_and_not_shown(key: str) -> None:
    with pytest.raises(OAuthError, match='"private_key"') as caught:
        client_assertion(key, client_id="robot", issuer="https://as.example")
    assert key not in str(caught.value)


@pytest.mark.req("E-041")
async def test_a_key_takes_the_place_of_a_secret_and_is_never_stored(issuer: Issuer) -> None:
    issuer.clients["robot"] = {"client_secret": ""}
    oauth = {"client_id": "robot", "private_key": pem(KEYS["ES256"]), "grant": "client_credentials"}
    side = Side(issuer, oauth=oauth)
    async with side.upstream() as srv:
        await call(srv)
    (form,) = issuer.forms
    assert verify("ES256", form["client_assertion"])["aud"] == f"{issuer.base}/as"
    assert form["client_assertion_type"].endswith("jwt-bearer")
    assert "PRIVATE KEY" not in str(side.shelf.texts)


async def test_forgetting_a_login_revokes_it(issuer: Issuer) -> None:
    side = Side(issuer)
    await side.log_in()
    access, refresh = next(iter(issuer.access)), next(iter(issuer.refresh))
    assert await leave(side.config.servers[0], Logins(side.shelf)) == (1, "")
    assert issuer.revoked == [("refresh_token", refresh), ("access_token", access)]
    assert side.shelf.texts == {}
    assert await leave(side.config.servers[0], Logins(side.shelf)) == (0, "")


async def test_a_login_that_cannot_be_revoked_is_forgotten_all_the_same(issuer: Issuer) -> None:
    side = Side(issuer)
    await side.log_in()
    issuer.revokes_with = 503
    count, problem = await leave(side.config.servers[0], Logins(side.shelf))
    assert (count, side.shelf.texts) == (1, {})
    assert "did not revoke the login: HTTP 503" in problem


async def test_a_new_login_revokes_the_one_before_and_not_itself(issuer: Issuer) -> None:
    side = Side(issuer)
    await side.log_in()
    first = next(iter(issuer.refresh))
    await side.log_in()
    assert ("refresh_token", first) in issuer.revoked
    async with side.upstream() as srv:
        assert (await call(srv))["content"][0]["text"] == "done"


@pytest.mark.req("E-024")
async def test_the_configured_one_of_several_authorization_servers_is_used(issuer: Issuer) -> None:
    issuer.more_issuers = ["https://other.example"]
    side = Side(issuer, oauth={"authorization_server": f"{issuer.base}/as"})
    await side.log_in()
    assert json.loads(next(iter(side.shelf.texts.values())))["issuer"] == f"{issuer.base}/as"
    with pytest.raises(OAuthError, match="which is configured"):
        await Side(issuer, oauth={"authorization_server": "https://third.example"}).log_in()


@pytest.mark.req("E-030")
async def test_a_client_that_was_registered_by_hand_is_used(issuer: Issuer) -> None:
    person = Person()
    issuer.clients["by-hand"] = {"client_secret": "s-1234567", "redirect_uris": [person.redirect_uri]}
    side = Side(issuer, oauth={"client_id": "by-hand", "client_secret": "s-1234567"})
    await enter(side.config.servers[0], Logins(side.shelf), person)
    assert "client_id=by-hand" in urlsplit(person.visits[0]).query
    assert set(issuer.clients) == {"robot", "by-hand"}
