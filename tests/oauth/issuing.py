"""An MCP server behind OAuth and its authorization server, on one loopback port, with switches for what goes wrong."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote_plus, urlencode

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send


class Issuer:
    """Both servers, and what they have seen."""

    def __init__(self) -> None:
        self.base = ""
        self.lifetime_s = 3600
        self.clients: dict[str, dict[str, Any]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.access: dict[str, str] = {}  # token: scope
        self.refresh: dict[str, str] = {}
        self.seen: list[tuple[str, str, str]] = []  # method, path, authorization
        self.forms: list[dict[str, str]] = []
        self.answer_extra: dict[str, str] = {}
        self.token_gate = asyncio.Event()
        self.token_gate.set()
        self.token_asked = asyncio.Event()
        self.issued: list[str] = []
        self.asks_consent = False
        self.pkce: list[str] | None = ["S256"]
        self.echoes_token = False
        self.refuses_with: tuple[str, ...] = ()
        self.resource: str | None = None
        self.revoked: list[tuple[str, str]] = []
        self.revokes_with = 200
        self.more_issuers: list[str] = []
        self.paths: list[str] = []  # of everything that was asked for, in order
        self.revisions: list[tuple[str, str]] = []  # path and revision of the same
        self.said: list[bytes] = []  # address and body of every request to the server
        self.publishes = True
        self.issuer = ""  # another authorization server, which the server's metadata names
        self.audience = ""  # another server, for which this authorization server gives out tokens

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    def expire_all(self) -> None:
        self.access.clear()

    def app(self) -> ASGIApp:
        get, post = ["GET"], ["POST"]
        routed = Starlette(
            routes=[
                Route("/mcp", self._mcp, methods=["GET", "POST", "DELETE"]),
                Route("/.well-known/oauth-protected-resource/mcp", self._resource, methods=get),
                Route("/.well-known/oauth-authorization-server/as", self._metadata, methods=get),
                Route("/as/authorize", self._authorize, methods=["GET", "POST"]),
                Route("/as/token", self._token, methods=post),
                Route("/as/revoke", self._revoke, methods=post),
                Route("/as/register", self._register, methods=post),
                Route("/authorize", self._authorize, methods=["GET", "POST"]),
                Route("/token", self._token, methods=post),
                Route("/register", self._register, methods=post),
            ]
        )

        async def noted(scope: Scope, receive: Receive, send: Send) -> None:
            self.paths.append(scope["path"])
            self.revisions.append((scope["path"], dict(scope["headers"]).get(b"mcp-protocol-version", b"").decode()))
            await routed(scope, receive, send)

        return noted

    @property
    def _wanted(self) -> str:
        return self.audience or self.url

    async def _resource(self, _request: Request) -> Response:
        if not self.publishes:
            return Response(status_code=404)
        return JSONResponse(
            {
                "resource": self.resource or self.url,
                "authorization_servers": [*self.more_issuers, self.issuer or f"{self.base}/as"],
                "scopes_supported": ["tools"],
            }
        )

    async def _metadata(self, _request: Request) -> Response:
        base = f"{self.base}/as"
        if not self.publishes:
            return Response(status_code=404)
        return JSONResponse(
            {
                "issuer": base,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
                "registration_endpoint": f"{base}/register",
                "revocation_endpoint": f"{base}/revoke",
                **({"code_challenge_methods_supported": self.pkce} if self.pkce is not None else {}),
                "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
                "authorization_response_iss_parameter_supported": True,
                "scopes_supported": ["tools", "admin", "offline_access"],
            }
        )

    async def _register(self, request: Request) -> Response:
        given = await request.json()
        client_id = f"client-{len(self.clients)}"
        secret = "" if given["token_endpoint_auth_method"] == "none" else self._issue("secret")
        self.clients[client_id] = {**given, "client_id": client_id, "client_secret": secret}
        return JSONResponse(self.clients[client_id], status_code=201)

    async def _revoke(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        self.revoked.append((form["token_type_hint"], form["token"]))
        self.access.pop(form["token"], None)
        self.refresh.pop(form["token"], None)
        return Response(status_code=self.revokes_with)

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        if self.asks_consent and request.method == "GET":
            page = '<form method="post"><button name="consent" value="yes">Allow</button></form>'
            return Response(page, media_type="text/html")
        if request.method == "POST" and await request.body() != b"consent=yes":
            return Response("no consent", status_code=400)
        client = self.clients.get(asked["client_id"])
        if client is None or asked["redirect_uri"] not in client["redirect_uris"]:
            return Response("unknown client or redirect", status_code=400)
        if asked.get("code_challenge_method") != "S256" or asked.get("resource") != self._wanted:
            return Response("no PKCE or no resource", status_code=400)
        code = self._issue("code")
        self.codes[code] = asked
        answer = {
            "code": code,
            "state": asked["state"],
            "iss": f"{self.base}/as" if self.publishes else self.base,
            **self.answer_extra,
        }
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", status_code=302)

    async def _token(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        self.forms.append(form)
        self.token_asked.set()
        await self.token_gate.wait()
        client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
        if "client_assertion" in form:  # the test verifies it
            client_id = "robot"
        if (given := request.headers.get("authorization", "")).startswith("Basic "):
            client_id, secret = (unquote_plus(part) for part in base64.b64decode(given[6:]).decode().split(":"))
        if self.clients.get(client_id, {}).get("client_secret") != secret or form.get("resource") != self._wanted:
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        if self.refuses_with:
            said = " ".join((*form.values(), request.headers.get("authorization", ""), *self.refuses_with))
            return JSONResponse({"error": "invalid_request", "error_description": said}, status_code=400)
        if form["grant_type"] == "refresh_token":
            scope = self.refresh.pop(form["refresh_token"], None)
        elif form["grant_type"] == "client_credentials":
            answer = {"access_token": self._issue("access"), "token_type": "Bearer", "expires_in": self.lifetime_s}
            self.access[answer["access_token"]] = form.get("scope", "")
            return JSONResponse(answer)
        else:
            asked = self.codes.pop(form["code"], {})
            digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            good = asked.get("code_challenge") == base64.urlsafe_b64encode(digest).decode().rstrip("=")
            scope = asked.get("scope", "") if good and asked.get("redirect_uri") == form["redirect_uri"] else None
        if scope is None:
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        access, refresh = self._issue("access"), self._issue("refresh")
        self.access[access], self.refresh[refresh] = scope, scope
        return JSONResponse(
            {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": self.lifetime_s}
        )

    async def _mcp(self, request: Request) -> Response:
        given = request.headers.get("authorization", "")
        self.seen.append((request.method, request.url.path, given))
        self.said.append(str(request.url).encode() + await request.body())
        scope = self.access.get(given.removeprefix("Bearer "))
        if scope is None:
            challenge = 'Basic realm="x", Bearer error="invalid_token", scope="tools"'
            return Response(status_code=401, headers={"www-authenticate": challenge})
        if request.method != "POST":
            return Response(status_code=405 if request.method == "GET" else 200)
        message = await request.json()
        if message["method"] == "tools/call" and message["params"]["name"] == "admin" and "admin" not in scope.split():
            challenge = 'Bearer error="insufficient_scope", scope="admin"'
            return Response(status_code=403, headers={"www-authenticate": challenge})
        return self._reply(message, given)

    def _reply(self, message: dict[str, Any], given: str) -> Response:
        if "id" not in message:
            return Response(status_code=202)
        about = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "i", "version": "1"},
        }
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("plain", "admin")]
        text = given if self.echoes_token else "done"
        results: dict[str, Any] = {
            "initialize": about,
            "tools/list": {"tools": tools},
            "tools/call": {"content": [{"type": "text", "text": text}]},
            "ping": {},
        }
        if message["method"] not in results:
            error = {"code": -32601, "message": "unknown"}
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error})
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
        return JSONResponse(reply, headers={"mcp-session-id": "s1"})

    def _issue(self, kind: str) -> str:
        value = f"{kind}-{secrets.token_urlsafe(18)}"
        self.issued.append(value)
        return value


@asynccontextmanager
async def open_issuer() -> AsyncGenerator[Issuer]:
    issuer = Issuer()
    listener = socket.create_server(("127.0.0.1", 0))
    issuer.base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(issuer.app(), log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield issuer
    finally:
        server.should_exit = True
        issuer.token_gate.set()
        await serving


async def browse(address: str) -> str:
    """What a browser does whose person agrees at once: where it is sent back to."""
    async with httpx2.AsyncClient() as client:
        response = await client.get(address)
        if response.status_code == 200 and "<form" in response.text:
            response = await client.post(address, data={"consent": "yes"})
    assert response.status_code == 302, response.text
    return response.headers["location"]


class Person:
    """A person at this machine's browser."""

    redirect_uri = "http://127.0.0.1:8765/callback"

    def __init__(self) -> None:
        self.visits: list[str] = []

    @asynccontextmanager
    async def open(self, redirect_uri: str) -> AsyncGenerator[Person]:
        assert redirect_uri == ""
        yield self

    async def fetch(self, address: str) -> str:
        self.visits.append(address)
        return await browse(address)
