"""Remote servers: which transport is tried, what each refusal becomes, and that credentials stay at their origin."""

from __future__ import annotations

import asyncio
import re
import socket

import anyio
import pytest

from moonpool.core.calls import CallErrorType
from moonpool.upstreams import Upstream, UpstreamError
from upstreams.peers import SECRET, HttpServer, upstream

pytestmark = pytest.mark.anyio


async def failure(srv: Upstream, name: str = "echo", timeout_s: float = 20) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await srv.call_tool(name, {}, timeout_s=timeout_s)
    return caught.value


@pytest.mark.req("X-12", "I-019", "B-027", "B-082")
@pytest.mark.parametrize("path", ["/mcp", "/stateful", "/sse", "/only-sse"])
async def test_a_url_without_a_type_finds_its_transport(path: str, echo_http: HttpServer) -> None:
    with anyio.fail_after(30):
        async with upstream({"url": echo_http.url(path)}) as srv:
            result = await srv.call_tool("echo", {"a": 1}, timeout_s=20)
    assert result["structuredContent"] == {"a": 1}


@pytest.mark.req("X-12", "I-019")
@pytest.mark.parametrize(("path", "kind"), [("/sse", "http"), ("/stateful", "sse")])
async def test_an_explicit_type_is_not_second_guessed(path: str, kind: str, echo_http: HttpServer) -> None:
    with anyio.fail_after(30):
        async with upstream({"url": echo_http.url(path), "type": kind}) as srv:
            error = await failure(srv)
    assert error.code == "upstream_protocol_error"
    assert "check the URL" in str(error)


@pytest.mark.req("X-12", "B-083")
@pytest.mark.parametrize("code", [401, 503])
async def test_other_refusals_do_not_lead_to_the_other_transport(code: int, echo_http: HttpServer) -> None:
    with anyio.fail_after(30):
        async with upstream({"url": echo_http.url(f"/status/{code}")}) as srv:
            assert f"HTTP {code}" in str(await failure(srv))


@pytest.mark.req("D-061")
@pytest.mark.parametrize("kind", ["http", "sse"])
@pytest.mark.parametrize(
    ("status", "code", "type_", "sentence"),
    [
        (401, "upstream_auth_refused", CallErrorType.UPSTREAM_ERROR, 'check the "headers"'),
        (403, "upstream_auth_refused", CallErrorType.UPSTREAM_ERROR, "refused our credential (HTTP 403)"),
        (429, "upstream_rate_limited", CallErrorType.RATE_LIMIT, "try again after 7 s"),
        (500, "upstream_server_fault", CallErrorType.TRANSIENT_NETWORK, "failed with HTTP 500"),
        (404, "upstream_protocol_error", CallErrorType.UPSTREAM_ERROR, "HTTP 404"),
        (302, "upstream_protocol_error", CallErrorType.UPSTREAM_ERROR, ""),
    ],
)
async def test_each_status_has_its_error(
    status: int, code: str, type_: CallErrorType, sentence: str, kind: str, echo_http: HttpServer
) -> None:
    with anyio.fail_after(30):
        async with upstream({"url": echo_http.url(f"/status/{status}"), "type": kind}) as srv:
            error = await failure(srv)
    assert (error.code, error.call_error_type) == (code, type_)
    assert sentence in str(error)


@pytest.mark.parametrize("kind", ["http", "sse", None])
async def test_a_port_where_nobody_listens_is_unreachable(kind: str | None) -> None:
    with socket.socket() as taken, anyio.fail_after(30):  # it does not listen, and nobody else can meanwhile
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/mcp?token={SECRET}"
        async with upstream({"url": url} | ({"type": kind} if kind else {})) as srv:
            error = await failure(srv)
    assert (error.code, error.retryable) == ("upstream_unreachable", True)
    assert "is it running?" in str(error)
    assert SECRET not in str(error)


@pytest.mark.req("B-027")
async def test_an_endpoint_of_another_origin_is_refused(echo_http: HttpServer) -> None:
    with anyio.fail_after(30):
        async with upstream({"url": echo_http.url("/hostile/sse")}) as srv:
            assert "another origin, which is refused" in str(await failure(srv))


@pytest.mark.parametrize(
    ("endpoint", "told"),
    [
        pytest.param("http://[::1", "another origin|no address", id="half a host"),
        pytest.param("/a\x01b", "no address", id="a control character"),
        pytest.param("http://127.0.0.1:99999/", "another origin|no address", id="a port that is none"),
        pytest.param("http://user:word@HOST/post", "another origin", id="a credential of its own"),
    ],
)
async def test_an_endpoint_that_cannot_be_used_is_refused_in_one_sentence(endpoint: str, told: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        named = endpoint.replace("HOST", f"127.0.0.1:{port}").encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        writer.write(b"event: endpoint\ndata: %b\n\n" % named)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with anyio.fail_after(30):
            async with upstream({"url": f"http://127.0.0.1:{port}/sse", "type": "sse"}) as srv:
                error = await failure(srv)
    assert re.search(f"names a message endpoint (of|that is) ({told})", str(error))


@pytest.mark.req("K-017")
@pytest.mark.parametrize("path", ["/stateful", "/sse"])
@pytest.mark.slow
async def test_a_restarted_server_is_found_again(path: str, own_echo_http: HttpServer) -> None:
    with anyio.fail_after(60):
        async with upstream({"url": own_echo_http.url(path)}, known_versions={"srv": "2025-11-25"}) as srv:
            await srv.call_tool("echo", {}, timeout_s=20)
            own_echo_http.die()
            error = await failure(srv)
            own_echo_http.start()
            result = await srv.call_tool("echo", {"a": 1}, timeout_s=20)
    assert error.retryable
    assert result["structuredContent"] == {"a": 1}


@pytest.mark.slow
async def test_a_session_lost_while_idle_is_renewed_without_an_error(own_echo_http: HttpServer) -> None:
    with anyio.fail_after(60):
        async with upstream({"url": own_echo_http.url("/stateful")}, known_versions={"srv": "2025-11-25"}) as srv:
            await srv.call_tool("echo", {}, timeout_s=20)
            own_echo_http.die()
            own_echo_http.start()
            result = await srv.call_tool("echo", {"a": 1}, timeout_s=20)
    assert result["structuredContent"] == {"a": 1}


async def test_arguments_marked_for_headers_are_mirrored_also_without_a_listing(echo_http: HttpServer) -> None:
    with anyio.fail_after(30):
        async with upstream({"url": echo_http.url("/mcp")}) as srv:
            result = await srv.call_tool("regional", {"region": "zürich"}, timeout_s=20)
    assert result["structuredContent"] == {"region": "zürich"}


async def test_a_tool_with_an_invalid_header_mark_is_left_out_with_a_warning(echo_http: HttpServer) -> None:
    with anyio.fail_after(30):
        async with upstream({"url": echo_http.url("/mcp")}) as srv:
            listing = await srv.list_tools()
    assert "bad_header" not in {tool.name for tool in listing.tools}
    assert listing.warnings[0].startswith("tool 'bad_header' was left out: invalid x-mcp-header")


async def test_a_known_modern_era_needs_no_probe(echo_http: HttpServer) -> None:
    with anyio.fail_after(30):
        async with upstream({"url": echo_http.url("/mcp")}, known_versions={"srv": "2026-07-28"}) as srv:
            listing = await srv.list_tools()
    assert (listing.name, listing.instructions, listing.protocol_version) == ("echo", "Echoes.", "2026-07-28")
