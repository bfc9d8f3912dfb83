"""Issuers of tokens for tests: a fake one of ours that also forges, and npm's oidc-provider. Both on loopback."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import secrets
import shutil
import time
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import anyio
import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from installs import NODE, ROOT, node_environment, node_packages
from moonpool.net.loopback_addresses import LoopbackAddress
from moonpool.server.http.loopback import Listener, serving

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from pathlib import Path

    from starlette.requests import Request

SERVICE = "http://127.0.0.1:8931"
"""The origin that tests call the service; nothing listens there."""
RESOURCE = f"{SERVICE}/mcp"
REDIRECT = "http://127.0.0.1:8932/callback"
OIDC = ROOT / "tests/oidc_issuer"
_PROMPT = re.compile(r'name="prompt" value="(\w+)"')


async def is_open(organisation: str) -> bool:
    """The one organisation of these tests."""
    return organisation == "acme"


@dataclass(frozen=True, kw_only=True)
class Login:
    """What a user's login gave to the client `app`."""

    access: str
    identity: str  # the ID token


class TokenIssuer(Protocol):
    """An issuer with the clients `machine` and `app` whose tokens say `"org": "acme"`."""

    url: str

    async def machine_token(self, *, scope: str = "execute", resource: str = RESOURCE) -> str: ...

    async def log_in(self, user: str, *, scope: str = "execute", resource: str = RESOURCE) -> Login: ...

    async def replace_key(self) -> None: ...


class FakeIssuer:
    """An issuer whose tokens are what a test wants."""

    def __init__(self) -> None:
        self.url = ""
        self.clock: Callable[[], float] = time.time
        self.private: dict[str, Any] = {}
        self.published: dict[str, Any] = {}
        self.fetched = 0
        self.down = False
        self.padding = 0
        self.redirected_to = ""
        self.add_key("first", ec.generate_private_key(ec.SECP256R1()))

    def add_key(self, kid: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
        """From now on this key signs; it is published beside the others."""
        of_rsa = isinstance(key, rsa.RSAPrivateKey)
        algorithm = jwt.get_algorithm_by_name("RS256" if of_rsa else "ES256")
        public: dict[str, Any] = json.loads(algorithm.to_jwk(key.public_key()))
        self.private[kid], self.kid, self.algorithm = key, kid, "RS256" if of_rsa else "ES256"
        self.published[kid] = {**public, "kid": kid, "use": "sig"}

    async def replace_key(self) -> None:
        self.private.clear()
        self.published.clear()
        self.add_key(secrets.token_hex(4), ec.generate_private_key(ec.SECP256R1()))

    def claims(self, **changed: Any) -> dict[str, Any]:
        """The claims of a user's token, `changed`; None leaves one out."""
        now = int(self.clock())
        user = {
            "iss": self.url, "sub": "alice", "aud": RESOURCE, "iat": now, "exp": now + 600, "client_id": "app",
            "scope": "execute", "org": "acme", "auth_time": now - 5,
        }  # fmt: skip
        return {name: value for name, value in (user | changed).items() if value is not None}

    def token(self, header: Mapping[str, Any] | None = None, /, **changed: Any) -> str:
        header = {"kid": self.kid, "typ": "at+jwt", **(header or {})}
        return self.sign(self.claims(**changed), header)

    def sign(self, claims: Mapping[str, Any], header: Mapping[str, Any]) -> str:
        given = {name: value for name, value in header.items() if value is not None}
        return jwt.encode(
            dict(claims), self.private[self.kid], self.algorithm, headers=given | {"typ": given.get("typ")}
        )

    async def machine_token(self, *, scope: str = "execute", resource: str = RESOURCE) -> str:
        return self.token(sub="machine", client_id="machine", scope=scope, aud=resource, auth_time=None)

    async def log_in(self, user: str, *, scope: str = "execute", resource: str = RESOURCE) -> Login:
        identity = self.claims(sub=user, aud="app", nonce="n", scope=None, client_id=None)
        access = self.token(sub=user, scope=scope, aud=resource)
        return Login(access=access, identity=self.sign(identity, {"kid": self.kid, "typ": "JWT"}))

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/oauth-authorization-server", self._metadata),
                Route("/jwks", self._keys),
            ]
        )

    async def _metadata(self, request: Request) -> Response:
        del request
        if self.down:
            return Response(status_code=503)
        named = {"issuer": self.url, "token_endpoint": f"{self.url}/token", "jwks_uri": f"{self.url}/jwks"}
        return JSONResponse(named)

    async def _keys(self, request: Request) -> Response:
        del request
        self.fetched += 1
        if self.redirected_to:
            return RedirectResponse(self.redirected_to)
        return JSONResponse({"keys": [*self.published.values()], "padding": "x" * self.padding})


@asynccontextmanager
async def open_fake_issuer() -> AsyncGenerator[FakeIssuer]:
    issuer, listener = FakeIssuer(), Listener(LoopbackAddress("127.0.0.1", 0))
    issuer.url = f"http://{listener.address.netloc}"
    async with serving(listener, issuer.app()):
        yield issuer


class OidcProvider:
    """npm's oidc-provider, asked as clients ask it."""

    def __init__(self, url: str, process: asyncio.subprocess.Process) -> None:
        self.url, self._process = url, process

    async def machine_token(self, *, scope: str = "execute", resource: str = RESOURCE) -> str:
        form = {"grant_type": "client_credentials", "scope": scope, "resource": resource}
        async with httpx2.AsyncClient(auth=("machine", "machine-secret")) as client:
            answer = await client.post(f"{self.url}/token", data=form)
        assert answer.status_code == 200, answer.text
        return answer.json()["access_token"]

    async def log_in(self, user: str, *, scope: str = "execute", resource: str = RESOURCE) -> Login:
        verifier = secrets.token_urlsafe(48)
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "client_id": "app", "response_type": "code", "redirect_uri": REDIRECT, "resource": resource,
            "scope": f"openid {scope}", "code_challenge": digest, "code_challenge_method": "S256", "nonce": "n",
        }  # fmt: skip
        back = await browse(f"{self.url}/auth?{urlencode(asked)}", user)
        code = parse_qs(urlsplit(back).query)["code"][0]
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT, "client_id": "app",
            "code_verifier": verifier, "resource": resource,
        }  # fmt: skip
        async with httpx2.AsyncClient() as client:
            answer = await client.post(f"{self.url}/token", data=form)
        assert answer.status_code == 200, answer.text
        return Login(access=answer.json()["access_token"], identity=answer.json()["id_token"])

    async def replace_key(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        with anyio.fail_after(30):
            assert json.loads(await self._process.stdout.readline()) == {"replaced": True}


async def browse(address: str, user: str) -> str:
    """What a browser does whose person logs in as `user` and consents: where the client gets its answer."""
    async with httpx2.AsyncClient() as browser:
        response = await browser.get(address)
        for _ in range(12):
            if response.is_redirect:
                address = urljoin(address, response.headers["location"])
                if "/callback" in urlsplit(address).path:
                    return address
                response = await browser.get(address)
            else:
                prompt = _PROMPT.search(response.text)
                assert prompt is not None, response.text[:500]
                form = {"prompt": prompt[1], "login": user, "password": "any"}
                response = await browser.post(address, data=form)
    raise AssertionError("the issuer asks and asks")


@asynccontextmanager
async def open_oidc_provider(
    scratch: Path, *, resources: tuple[str, ...] = (RESOURCE,), redirect: str = REDIRECT
) -> AsyncGenerator[OidcProvider]:
    packages = await anyio.to_thread.run_sync(node_packages, OIDC)
    script = scratch / "issuer.mjs"
    shutil.copy(OIDC / "issuer.mjs", script)  # Node looks for packages beside the script
    (scratch / "node_modules").symlink_to(packages)
    process = await asyncio.create_subprocess_exec(
        NODE / "node", script, redirect, *resources, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=node_environment()
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with anyio.fail_after(60):
            url = json.loads(await process.stdout.readline())["issuer"]
        yield OidcProvider(url, process)
    finally:
        process.stdin.close()
        with anyio.CancelScope(shield=True):
            await process.wait()
