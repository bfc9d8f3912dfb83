"""Tokens that must not count, and what the service does while an issuer changes, answers nonsense or is away."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.utils import der_to_raw_signature

from moonpool.core.errors import ConfigError
from moonpool.server.http.authentication.access_tokens import TOKEN_CHARS_MAX
from moonpool.server.http.authentication.issuer_file import (
    ClaimEntry,
    IssuerEntry,
    PersonEntry,
    ScopesEntry,
    read_issuers,
)
from moonpool.server.http.authentication.issuer_keys import (
    FRESH_S,
    KEPT_S,
    REFETCH_S,
    IssuerUnavailableError,
)
from moonpool.server.http.authentication.resource import Resource, checked_public_url
from moonpool.server.http.authentication.signing_keys import read_keys
from moonpool.server.http.authentication.tokens import TokenAuthenticator
from moonpool.server.http.callers import AuthenticationError, HttpCaller
from server.authentication.issuers import RESOURCE, SERVICE, FakeIssuer, is_open, open_fake_issuer
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

pytestmark = pytest.mark.anyio
HOUR = 3600
NOW = 1_900_000_000
ORIGIN = Resource((SERVICE, "https://moonpool.example.com"))


class Door:
    """An authenticator of the fake issuer's tokens, and the clock of its keys."""

    def __init__(self, issuer: FakeIssuer, **members: Any) -> None:
        self.now = 0.0
        given: dict[str, Any] = {"url": issuer.url, "organisation": ClaimEntry(claim="org"), **members}
        entry = IssuerEntry(**given)
        self.tokens = TokenAuthenticator(
            [entry], ORIGIN, is_open=is_open, clock=lambda: NOW, keys_clock=lambda: self.now
        )

    async def caller(self, token: str) -> HttpCaller:
        caller = await self.tokens.authenticate(token)
        assert caller is not None
        return caller

    async def refuses(self, token: str) -> bool:
        """Whether the token does not count: it is no token of this issuer, or a bad one."""
        try:
            return await self.tokens.authenticate(token) is None
        except AuthenticationError:
            return True


@pytest.fixture
async def issuer() -> AsyncGenerator[FakeIssuer]:
    async with open_fake_issuer() as opened:
        opened.clock = lambda: NOW
        yield opened


@asynccontextmanager
async def door_of(issuer: FakeIssuer, **members: Any) -> AsyncGenerator[Door]:
    door = Door(issuer, **members)
    try:
        yield door
    finally:
        await door.tokens.close()


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def signed_with_the_public_key(issuer: FakeIssuer) -> str:
    """HS256, with what everybody can read as the shared secret."""
    public = issuer.private[issuer.kid].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = f"{part({'alg': 'HS256', 'kid': issuer.kid, 'typ': 'at+jwt'})}.{part(issuer.claims())}"
    signature = hmac.digest(public, signed.encode(), hashlib.sha256)
    return f"{signed}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def altered(issuer: FakeIssuer) -> str:
    head, _, signature = issuer.token().split(".")
    return f"{head}.{part(issuer.claims(scope='execute admin'))}.{signature}"


def by_another_key(issuer: FakeIssuer) -> str:
    kid = issuer.kid
    issuer.private["theirs"], issuer.kid = ec.generate_private_key(ec.SECP256R1()), "theirs"
    try:
        return issuer.token({"kid": kid})
    finally:
        issuer.kid = kid


def with_key_in_header(issuer: FakeIssuer) -> str:
    """The attacker's own key, brought along."""
    theirs = ec.generate_private_key(ec.SECP256R1())
    published, kid = dict(issuer.published), issuer.kid
    issuer.add_key("theirs", theirs)
    jwk = issuer.published["theirs"]
    token = issuer.token({"jwk": jwk, "jku": f"{issuer.url}/jwks", "kid": kid})
    issuer.published, issuer.kid = published, kid
    return token


FORGED: list[tuple[str, Callable[[FakeIssuer], str]]] = [
    ("nothing", lambda _: ""),
    ("a key", lambda _: "sk-eu-abcdefghijklmnop"),
    ("two parts", lambda issuer: issuer.token().rpartition(".")[0]),
    ("no signature", lambda issuer: f"{part({'alg': 'none', 'typ': 'at+jwt'})}.{part(issuer.claims())}."),
    ("alg none with a signature", lambda issuer: f"{part({'alg': 'none'})}.{part(issuer.claims())}.AAAA"),
    ("alg None", lambda issuer: f"{part({'alg': 'None'})}.{part(issuer.claims())}.AAAA"),
    ("the public key as a secret", signed_with_the_public_key),
    ("altered claims", altered),
    ("signed by another key", by_another_key),
    ("its own key in the header", with_key_in_header),
    ("an extension", lambda issuer: issuer.token({"crit": ["exp"], "exp": 1})),
    ("another issuer", lambda issuer: issuer.token(iss="https://evil.example.com")),
    ("an issuer in a folder", lambda issuer: issuer.token(iss=f"{issuer.url}/evil")),
    ("no issuer", lambda issuer: issuer.token(iss=None)),
    ("an issuer that is a list", lambda issuer: f"{part({'alg': 'ES256'})}.{part({'iss': [issuer.url]})}.AAAA"),
    ("expired", lambda issuer: issuer.token(exp=NOW - HOUR)),
    ("ends never", lambda issuer: issuer.token(exp=10**400)),
    ("was issued before time", lambda issuer: issuer.token(iat=-(10**400))),
    ("without an end", lambda issuer: issuer.token(exp=None)),
    ("an end that is a text", lambda issuer: issuer.token(exp="tomorrow")),
    ("an end that is true", lambda issuer: issuer.token(exp=True)),
    ("an end that is infinite", lambda issuer: issuer.token(exp=float("inf"))),
    ("not valid yet", lambda issuer: issuer.token(nbf=NOW + HOUR)),
    ("issued in the future", lambda issuer: issuer.token(iat=NOW + HOUR)),
    ("another audience", lambda issuer: issuer.token(aud="https://api.example.com")),
    ("no audience", lambda issuer: issuer.token(aud=None)),
    ("an audience that is a number", lambda issuer: issuer.token(aud=[RESOURCE, 7])),
    ("the origin alone", lambda issuer: issuer.token(aud=SERVICE)),
    ("another port", lambda issuer: issuer.token(aud="http://127.0.0.1:8932/mcp")),
    ("another scheme", lambda issuer: issuer.token(aud=RESOURCE.replace("http:", "https:"))),
    ("a longer path", lambda issuer: issuer.token(aud=f"{RESOURCE}x")),
    ("an audience with a query", lambda issuer: issuer.token(aud=f"{RESOURCE}?a=b")),
    ("an audience with a name in it", lambda issuer: issuer.token(aud="http://a@127.0.0.1:8931/mcp")),
    ("two profiles", lambda issuer: issuer.token(aud=[f"{RESOURCE}/code", f"{RESOURCE}/direct"])),
    ("an ID token", lambda issuer: issuer.token({"typ": "JWT"}, nonce="n")),
    ("an ID token of this audience", lambda issuer: issuer.token({"typ": "JWT"}, scope=None)),
    ("a logout token", lambda issuer: issuer.token({"typ": "logout+jwt"})),
    ("a refresh token", lambda issuer: issuer.token({"typ": "JWT"}, typ="Refresh")),
    ("bound to a key", lambda issuer: issuer.token(cnf={"jkt": "x"})),
    ("no subject and no client", lambda issuer: issuer.token(sub=None, client_id=None)),
    ("a subject with a line break", lambda issuer: issuer.token(sub="alice\nadmin")),
    ("a subject in other letters", lambda issuer: issuer.token(sub="\u0430lice")),
    ("an empty subject", lambda issuer: issuer.token(sub="")),
    ("a subject that is too long", lambda issuer: issuer.token(sub="a" * 250)),
    ("two clients", lambda issuer: issuer.token(azp="other")),
    ("no organisation", lambda issuer: issuer.token(org=None)),
    ("two organisations", lambda issuer: issuer.token(org=["acme", "globex"])),
    ("an organisation that does not exist", lambda issuer: issuer.token(org="globex")),
    ("an organisation that is a path", lambda issuer: issuer.token(org="../acme")),
    ("a key id that is a number", lambda issuer: f"{part({'alg': 'ES256', 'kid': 7})}.{part(issuer.claims())}.AAAA"),
    ("deep claims", lambda _: f"{part({'alg': 'ES256'})}.{'W1' * 4000}.AAAA"),
    ("too long", lambda issuer: issuer.token(padding="x" * TOKEN_CHARS_MAX)),
]


@pytest.mark.claim("C-WEB-4")
@pytest.mark.req("E-011", "E-013", "E-014", "E-015", "F-002", "L-003")
async def test_no_forged_or_unfit_token_counts(issuer: FakeIssuer) -> None:
    async with door_of(issuer) as door:
        assert (await door.caller(issuer.token())).principal == f"user:{issuer.url}#alice"
        accepted = [name for name, forge in FORGED if not await door.refuses(forge(issuer))]
    assert accepted == []


ODD: list[Any] = [[], {}, [[]], [{}], {"a": []}, True, False, 0, -1, 1e308, float("nan"), "", " ", "\x00", "x" * 5000]
NAMES = (
    "sub", "aud", "iat", "exp", "nbf", "client_id", "azp", "scope", "scp", "org", "auth_time", "gty",
    "grant_type", "idtyp", "preferred_username", "act", "cnf", "typ", "token_use", "roles", "kind",
)  # fmt: skip


async def test_odd_values_are_refused_or_mean_nothing(issuer: FakeIssuer) -> None:
    """Of an issuer that signs anything: no failure of ours, and nobody becomes more than the token says."""
    more: dict[str, Any] = {
        "roles": ClaimEntry(claim="/roles/0"), "person": PersonEntry(claim="kind", values=("user",)),
    }  # fmt: skip
    async with door_of(issuer, **more) as door:
        for header, names in ((True, ("typ", "kid", "alg", "jwk", "x5u", "cty")), (False, NAMES)):
            for name in names:
                for value in ODD:
                    token = altered_head(issuer, name, value) if header else issuer.token(**{name: value})
                    if not await door.refuses(token):
                        caller = await door.caller(token)
                        assert (caller.organisation, caller.is_person) == ("acme", False), (name, value)
                        assert caller.scopes <= {"execute"}, (name, value)


def altered_head(issuer: FakeIssuer, name: str, value: Any) -> str:
    """A well signed token whose header has this member."""
    head = {"alg": "ES256", "kid": issuer.kid, "typ": "at+jwt", name: value}
    signed = f"{part(head)}.{part(issuer.claims())}"
    raw = der_to_raw_signature(issuer.private[issuer.kid].sign(signed.encode(), ec.ECDSA(SHA256())), ec.SECP256R1())
    return f"{signed}.{base64.urlsafe_b64encode(raw).decode().rstrip('=')}"


ACCEPTED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("a list of audiences", {}, {"aud": ["https://api.example.com", RESOURCE]}),
    ("a slash at the end", {}, {"aud": f"{RESOURCE}/"}),
    ("the host in capitals, its own port", {}, {"aud": "HTTPS://Moonpool.Example.COM:443/mcp"}),
    ("the other door", {}, {"aud": f"{SERVICE}/sse"}),
    ("no type", {"typ": None}, {}),
    ("a plain type, scopes as a list", {"typ": "JWT"}, {"scope": None, "scp": ["execute"]}),
    ("the long name of the type", {"typ": "application/at+jwt"}, {}),
    ("clocks that differ a little", {}, {"exp": NOW - 10}),
    ("no key id", {"kid": None}, {}),
]


@pytest.mark.req("L-003")
async def test_what_issuers_may_write_in_different_ways_counts(issuer: FakeIssuer) -> None:
    async with door_of(issuer) as door:
        for name, header, claims in ACCEPTED:
            assert not await door.refuses(issuer.token(header, **claims)), name


async def test_every_kind_of_key_verifies_its_own_algorithm(issuer: FakeIssuer) -> None:
    issuer.add_key("rsa", rsa.generate_private_key(65537, 2048))
    async with door_of(issuer) as door:
        assert (await door.caller(issuer.token())).organisation == "acme"
        del issuer.published["rsa"]
        issuer.published["rsa"] = {**issuer.published["first"], "kid": "rsa"}  # the same id, another kind of key
        door.now += FRESH_S
        assert await door.caller(issuer.token()) is not None  # by the known key, while new ones are fetched
        with anyio.fail_after(5):
            while not await door.refuses(issuer.token()):
                await anyio.lowlevel.checkpoint()


def test_only_keys_that_can_be_used_are_read() -> None:
    good = {"kty": "EC", "crv": "P-256", "kid": "a"}
    number = base64.urlsafe_b64encode(b"\xff" * 128).decode().rstrip("=")  # 1024 bits
    raw: list[Any] = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
        {"kty": "RSA", "n": number, "e": "AQAB"},
        {"kty": "RSA", "n": "A" * 5000, "e": "AQAB"},
        {"kty": "RSA", "n": 7, "e": "AQAB"},
        {"kty": "OKP", "crv": "Ed448", "x": "AA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {**good, "x": "AA", "y": "AA"},
        {**good, "use": "enc"},
        {"kty": ["EC"]},
        {"kty": {}},
        "key",
        7,
        None,
    ]
    assert read_keys({"keys": raw}) == ()
    assert read_keys({"keys": "none"}) == read_keys({}) == ()


async def test_invented_key_ids_do_not_make_us_ask_the_issuer_again_and_again(issuer: FakeIssuer) -> None:
    async with door_of(issuer) as door:
        await door.caller(issuer.token())
        door.now += REFETCH_S
        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(door.refuses, issuer.token({"kid": f"invented-{number}"}))
        assert issuer.fetched == 2
        await issuer.replace_key()
        assert await door.refuses(issuer.token())  # the flood may delay a new key by this much
        door.now += REFETCH_S
        assert (await door.caller(issuer.token())).organisation == "acme"
    assert issuer.fetched == 3


@pytest.mark.req("E-011")
async def test_without_the_issuer_known_keys_go_on_and_nobody_else_is_let_in(issuer: FakeIssuer) -> None:
    async with door_of(issuer) as door:
        issuer.down = True
        with pytest.raises(IssuerUnavailableError, match="cannot be reached now; try again later"):
            await door.tokens.authenticate(issuer.token())
        issuer.down = False
        with pytest.raises(IssuerUnavailableError):  # it is not asked again at once
            await door.tokens.authenticate(issuer.token())
        door.now += REFETCH_S
        await door.caller(issuer.token())
        issuer.down = True
        door.now += KEPT_S - 1
        await door.caller(issuer.token())
        with pytest.raises(IssuerUnavailableError):
            await door.tokens.authenticate(issuer.token({"kid": "perhaps new"}))
        door.now += 1
        with pytest.raises(IssuerUnavailableError):
            await door.tokens.authenticate(issuer.token())


@pytest.mark.parametrize("problem", ["padding", "elsewhere", "metadata"])
async def test_nonsense_of_an_issuer_lets_nobody_in(issuer: FakeIssuer, problem: str) -> None:
    url = issuer.url
    match problem:
        case "padding":
            issuer.padding = 2 * 1024**2
        case "elsewhere":
            issuer.redirected_to = "https://evil.example.com/jwks"
        case _:
            issuer.url = "http://127.0.0.1:1"  # what its metadata says
    async with door_of(issuer, url=url) as door:
        with pytest.raises(IssuerUnavailableError):
            await door.tokens.authenticate(issuer.token(iss=url))


async def test_a_request_that_is_given_up_does_not_end_the_fetch_that_others_wait_for(issuer: FakeIssuer) -> None:
    async with door_of(issuer) as door:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(door.caller, issuer.token())
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert (await door.caller(issuer.token())).organisation == "acme"
    assert issuer.fetched == 1


MACHINES: list[tuple[str, dict[str, Any]]] = [
    ("its own token", {"sub": "app"}),
    ("no subject", {"sub": None}),
    ("as Auth0 says it", {"sub": "app@clients"}),
    ("by its grant", {"gty": "client-credentials"}),
    ("as Entra says it", {"idtyp": "app"}),
    ("as Keycloak says it", {"preferred_username": "service-account-app"}),
]


async def test_a_machine_is_never_a_person_and_a_person_must_be_proven(issuer: FakeIssuer) -> None:
    async with door_of(issuer) as door:
        assert (await door.caller(issuer.token())).is_person
        for name, claims in MACHINES:
            caller = await door.caller(issuer.token(**claims))
            assert (caller.principal, caller.is_person) == (f"client:{issuer.url}#app", False), name
        for claims in ({"auth_time": None}, {"auth_time": True}, {"auth_time": "now"}, {"act": {"sub": "agent"}}):
            caller = await door.caller(issuer.token(**claims))
            assert (caller.principal, caller.is_person) == (f"user:{issuer.url}#alice", False), claims
        assert not (await door.caller(issuer.token(client_id=None))).is_person
    async with door_of(issuer, person=PersonEntry(claim="/login/kind", values=("user",))) as door:
        assert not (await door.caller(issuer.token())).is_person
        assert not (await door.caller(issuer.token(login={"kind": "robot"}))).is_person
        assert (await door.caller(issuer.token(login={"kind": "user"}))).is_person


async def test_claims_are_mapped_as_configured(issuer: FakeIssuer) -> None:
    members: dict[str, Any] = {
        "organisation": ClaimEntry(claim="tenant", values={"t-1": "acme"}),
        "roles": ClaimEntry(claim="/realm_access/roles", values={"mp-ops": "operator", "mp-dev": "developer"}),
        "profile": ClaimEntry(claim="https://example.com/profile"),
        "scopes": ScopesEntry(execute="mp:run", approve="mp:answer", admin=""),
        "audiences": ("moonpool-api",),
    }
    given = {
        "tenant": "t-1", "realm_access": {"roles": ["mp-dev", "other", "mp-ops"]}, "aud": "moonpool-api",
        "https://example.com/profile": "code", "scope": "openid mp:run execute admin",
    }  # fmt: skip
    async with door_of(issuer, **members) as door:
        caller = await door.caller(issuer.token(**given))
        assert (caller.organisation, caller.profile, caller.scopes) == ("acme", "code", {"execute"})
        assert caller.roles == ("developer", "operator")
        for without in ({"tenant": "t-2"}, {"https://example.com/profile": None}, {"aud": f"{RESOURCE}/direct"}):
            assert await door.refuses(issuer.token(**(given | without))), without


@pytest.mark.claim("C-WEB-4")
@pytest.mark.req("E-020")
async def test_tokens_are_not_logged(issuer: FakeIssuer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    good, expired, foreign = issuer.token(), issuer.token(exp=1000), issuer.token(aud="https://api.example.com")
    async with door_of(issuer) as door:
        await door.caller(good)
        assert await door.refuses(expired)
        assert await door.refuses(foreign)
    for token in (good, expired, foreign):
        assert token not in caplog.text
        assert token.rpartition(".")[2] not in caplog.text
    assert "it has expired" in caplog.text
    assert f"it is for https://api.example.com, not for {RESOURCE}" in caplog.text


def written(folder: Path, text: str) -> Path:
    path = folder / "issuers.toml"
    path.write_text(text, encoding="utf-8")
    return path


FIRST = '[[issuer]]\nurl = "https://a.example.com"\n'
WRONG: list[tuple[str, str]] = [
    ("", "[[issuer]]"),
    ("issuer = []", "must be from 1 to 64"),
    ("[[issuer]]\norganisation = 'a'", 'has no "url"'),
    (FIRST, 'has no "organisation"'),
    (f"{FIRST}organisation = ''", "must not be empty"),
    (f"{FIRST}organisation = {{ claims = 'org' }}", "claim"),
    (f"{FIRST}organisation = 'a'\nrole = 'b'", 'unknown key "role"; did you mean "roles"?'),
    (f"{FIRST}organisation = 'a'\nscopes = {{ run = 'x' }}", 'unknown key "run"; known are execute, files'),
    (f"{FIRST}organisation = 'a'\nscopes = {{ execute = 'a b' }}", "cannot be the name of a scope"),
    (
        f"{FIRST}organisation = 'a'\nscopes = {{ execute = '', files = '', approve = '', admin = '' }}",
        "good for anything",
    ),
    (f"{FIRST}organisation = 'a'\nperson = {{ claim = 'kind' }}", '"values" must list'),
    ("[[issuer]]\nurl = 'http://a.example.com'\norganisation = 'a'", "not an https address"),
    ("[[issuer]]\nurl = 'https://a.example.com?x=y'\norganisation = 'a'", "no query"),
    (f"{FIRST}organisation = 'a'\n{FIRST}organisation = 'b'", "is there twice"),
    (
        f"{FIRST}organisation = {{ claim = 'org' }}\n[[issuer]]\nurl = 'https://b.example.com'\norganisation = 'b'",
        "could name the organisations of the others",
    ),
]


@every_row(("text", "told"), WRONG)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_issuers(written(tmp_path, text))
    assert told in str(refused.value)


def test_a_file_is_read(tmp_path: Path) -> None:
    text = f"{FIRST}organisation = {{ claim = 'org', values = {{ o1 = 'acme' }} }}\nroles = {{ claim = 'groups' }}\n"
    (entry,) = read_issuers(written(tmp_path, text))
    assert entry.organisation == ClaimEntry(claim="org", values={"o1": "acme"})
    assert entry.scopes.named()[0] == ("execute", "execute")


@every_row(
    ("url", "told"),
    [
        ("https://moonpool.example.com/path", "scheme, host and port only"),
        ("http://moonpool.example.com", "not an https address"),
        ("moonpool.example.com", "cannot be used"),
        ("https://user:word@moonpool.example.com", "cannot be used"),
    ],
)
def test_a_public_address_is_an_origin(url: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        checked_public_url(url)
    assert told in str(refused.value)


def test_a_public_address_has_one_spelling() -> None:
    assert checked_public_url("https://Moonpool.Example.com:443/") == "https://moonpool.example.com"
