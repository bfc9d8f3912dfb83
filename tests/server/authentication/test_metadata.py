"""How clients learn where to get a token, and that this service gives out none itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from moonpool.oauth.challenge import bearer_challenge as read_challenge
from moonpool.server.http.authentication.issuer_file import IssuerEntry, ScopesEntry
from moonpool.server.http.authentication.metadata import ResourceMetadata, key_challenge
from moonpool.server.http.authentication.resource import Resource

if TYPE_CHECKING:
    from starlette.requests import Request

pytestmark = pytest.mark.anyio
PUBLIC = "https://moonpool.example.com"
ISSUER = IssuerEntry(
    url="https://login.example.com/realms/a", organisation="acme", scopes=ScopesEntry(execute="mp:run", admin="")
)
METADATA = ResourceMetadata([ISSUER], Resource((PUBLIC, "http://127.0.0.1:8900")))


async def refuse(request: Request) -> Response:
    challenge = METADATA.challenge(request.scope, "approve")
    return JSONResponse({}, status_code=403, headers={"www-authenticate": challenge})


async def challenge(request: Request) -> Response:
    return JSONResponse({}, status_code=401, headers={"www-authenticate": METADATA.challenge(request.scope)})


APP = Starlette(
    routes=[*METADATA.routes(), Route("/v1/approvals", refuse), Route("/{path:path}", challenge, methods=["POST"])]
)


def client(origin: str = PUBLIC) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=APP), base_url=origin)


@pytest.mark.req("E-007", "E-008", "L-024")
@pytest.mark.parametrize(
    ("path", "resource"),
    [("", "/mcp"), ("/mcp", "/mcp"), ("/mcp/direct", "/mcp/direct"), ("/sse", "/sse")],
)
async def test_metadata_names_the_resource_and_its_issuers(path: str, resource: str) -> None:
    async with client() as browser:
        answer = await browser.get(f"/.well-known/oauth-protected-resource{path}")
    assert answer.status_code == 200
    assert answer.json() == {
        "resource": f"{PUBLIC}{resource}",
        "authorization_servers": ["https://login.example.com/realms/a"],
        "scopes_supported": ["mp:run", "files", "approve"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Moonpool",
    }


@pytest.mark.req("E-009", "L-025")
@pytest.mark.parametrize(
    ("path", "place"),
    [("/mcp", "/mcp"), ("/mcp/direct", "/mcp/direct"), ("/sse", "/sse"), ("/message", "/sse"), ("/v1/sessions", "")],
)
async def test_a_challenge_leads_to_the_metadata(path: str, place: str) -> None:
    async with client() as browser:
        told = read_challenge([(await browser.post(path)).headers["www-authenticate"]])
        answer = await browser.get(told.resource_metadata)
    assert told.resource_metadata == f"{PUBLIC}/.well-known/oauth-protected-resource{place}"
    assert (told.error, told.scopes) == ("", ("mp:run", "files"))
    assert answer.status_code == 200


@pytest.mark.req("E-019", "L-025")
async def test_a_missing_scope_is_named() -> None:
    async with client() as browser:
        told = read_challenge([(await browser.get("/v1/approvals")).headers["www-authenticate"]])
    assert (told.error, told.scopes) == ("insufficient_scope", ("approve",))


async def test_addresses_are_of_the_origin_that_was_asked_if_it_is_ours() -> None:
    async with client("http://127.0.0.1:8900") as browser:
        document = (await browser.get("/.well-known/oauth-protected-resource/mcp")).json()
        assert document["resource"] == "http://127.0.0.1:8900/mcp"
        for host in ("evil.example.com", "127.0.0.1:8901", "127.0.0.1:99999", "[", "", 'a"b'):
            challenged = await browser.post("/mcp", headers={"host": host})
            assert f'"{PUBLIC}/.well-known/' in challenged.headers["www-authenticate"], host


@pytest.mark.req("E-021")
async def test_older_clients_are_redirected_to_the_issuer() -> None:
    async with client() as browser:
        oauth = await browser.get("/.well-known/oauth-authorization-server?x=https://evil.example.com")
        oidc = await browser.get("/.well-known/openid-configuration")
    assert (oauth.status_code, oidc.status_code) == (307, 307)
    root = "https://login.example.com"
    assert oauth.headers["location"] == f"{root}/.well-known/oauth-authorization-server/realms/a"
    assert oidc.headers["location"] == f"{root}/realms/a/.well-known/openid-configuration"


@pytest.mark.parametrize("path", ["/other", "/mcp/../admin", "/mcp/A", "/mcp/a/b", "/mcpx", "/", "//evil.example.com"])
async def test_no_metadata_of_what_is_no_resource(path: str) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    whole = f"/.well-known/oauth-protected-resource{path}"  # as it is: clients would tidy it up
    await APP(
        {"type": "http", "method": "GET", "path": whole, "scheme": "https", "headers": [], "query_string": b""},
        receive,
        send,
    )
    assert sent[0]["status"] == 404


def test_without_issuers_a_challenge_names_no_metadata() -> None:
    bare: dict[str, Any] = {"headers": []}
    assert key_challenge(bare) == 'Bearer realm="moonpool"'
    wrong = key_challenge({"headers": [(b"authorization", b"x")]})
    assert wrong.startswith('Bearer realm="moonpool", error="invalid_token", error_description="')
    assert key_challenge(bare, "admin") == 'Bearer realm="moonpool", error="insufficient_scope", scope="admin"'


@pytest.mark.req("E-044", "E-045", "E-046", "E-047", "E-048", "E-049", "E-050", "E-051", "E-052", "E-053", "E-054")
@pytest.mark.req("E-055", "E-056")
def test_there_is_no_authorization_server_here() -> None:
    """Its routes are these four and no other: none gives out codes, tokens or client ids, none is a third party's."""
    assert sorted(route.path for route in METADATA.routes()) == [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/{path:path}",
        "/.well-known/openid-configuration",
    ]
