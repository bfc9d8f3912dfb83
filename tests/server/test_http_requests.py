"""What every request passes: names, credentials, sizes, encodings, times, and what probes may know."""

from __future__ import annotations

import errno
import gzip
import itertools
import json
import socket
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.bootstrap.service import _check_environment
from moonpool.core.errors import ConfigError
from moonpool.server.http import paced_bodies, request_limits, serving
from moonpool.server.http.health import Readiness, readyz
from moonpool.server.http.request_limits import Names, RequestError
from server.services import JSON_TYPE, STREAMS, caller, execute, handshake, request
from server.services import serving as served

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from server.services import OpenService

pytestmark = pytest.mark.anyio
LIST = json.dumps(request("tools/list")).encode()
UNREADABLE: list[tuple[bytes, dict[str, str], int, str]] = [
    (b"x" * 100_001, {}, 413, "larger than 100,000 bytes"),
    (gzip.compress(b"0" * 10**7), {"content-encoding": "gzip"}, 415, "compressed"),
    (LIST, {"content-type": "text/plain"}, 415, "application/json"),
    (b'{"a":"\xff"}', {}, 400, "not UTF-8"),
    ('{"jsonrpc":"é"}'.encode("utf-16"), {}, 400, "not UTF-8"),
    (b"[" * 200 + b"]" * 200, {}, 400, "levels of nesting"),
    (b"[" * 50_000, {}, 400, "levels of nesting"),
    (b'{"jsonrpc":', {}, 400, "Parse error"),
    (b"", {}, 400, "Parse error"),
    (b'{"a":NaN}', {}, 400, "NaN"),
]
ANY = "0.0.0.0"  # noqa: S104  nothing listens there
PATHS = ["/mcp", "/mcp/code", "/sse", "/message?sessionId=x", "/metrics", "/nothing"]
ALL_PATHS = [*PATHS, "/v1/sessions", "/v1/approvals", "/v1/servers", "/v1/nothing"]
REFUSED_CHALLENGES = (
    'Bearer realm="moonpool"',
    'Bearer realm="moonpool", error="invalid_token", '
    'error_description="unknown, expired or revoked; send a valid key or token"',
)
UNAUTHORIZED = b'{"error": "unauthorized", "message": "Invalid or revoked API key."}'


@pytest.fixture(scope="module")
async def service() -> AsyncGenerator[OpenService]:
    async with served(public_url="https://moonpool.example.com", request_bytes_max=100_000) as one:
        yield one


@pytest.mark.claim("C-WEB-2")
@pytest.mark.req("B-021", "B-076", "B-077", "L-016")
async def test_foreign_names_are_refused(service: OpenService) -> None:
    for path, method in itertools.product(PATHS, ("POST", "GET", "DELETE")):
        await _refuses_foreign_names(service, path, method)


async def _refuses_foreign_names(service: OpenService, path: str, method: str) -> None:
    async def status(**headers: str) -> int:
        sent = service.http.stream(method, path, content=LIST, headers={**JSON_TYPE, **headers})
        async with sent as answer:  # of which a stream has no end
            return answer.status_code

    assert await status(host="evil.example") == 421
    assert await status(origin="https://evil.example") == 403
    assert await status(origin="null") == 403
    assert await status(host="moonpool.example.com", origin="https://moonpool.example.com") not in {403, 421}
    assert await status(origin=service.base) not in {403, 421}


@pytest.mark.claim("C-WEB-3")
@pytest.mark.req("B-079", "A-021")
async def test_bodies_that_cannot_be_read_get_one_error(service: OpenService) -> None:
    for row, path in itertools.product(UNREADABLE, ("/mcp", "/message?sessionId=x")):
        await _refuses_body(service, path, *row)


async def _refuses_body(
    service: OpenService, path: str, body: bytes, headers: dict[str, str], status: int, said: str
) -> None:
    refused = await service.http.post(path, content=body, headers={**JSON_TYPE, **headers})

    assert refused.status_code == status
    assert said in refused.json()["error"]["message"]
    assert refused.json()["error"]["code"] == (-32700 if status == 400 else -32600)
    assert (await service.post(request("ping"))).status_code == 200


@pytest.mark.claim("C-WEB-3")
@pytest.mark.req("B-079", "B-080")
async def test_slow_clients_are_dropped(service: OpenService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "BODY_S", 0.05)
    monkeypatch.setattr(serving, "HEAD_S", 0.05)
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: {service.base[7:]}\r\ncontent-type: application/json\r\ncontent-length: 900\r\n"
    )

    assert await _spoken(service, b"") == b""
    assert await _spoken(service, b"POST /mc") == b""
    assert b"408" in (await _spoken(service, f"{head}\r\n{{".encode())).split(b"\r\n")[0]
    assert b"400 Bad Request" in await _spoken(service, b"no HTTP\r\n\r\n")
    assert b"400 Bad Request" in await _spoken(service, b"GET / HTTP/1.1\r\nx: " + b"x" * 100_000)
    assert (await service.post(request("ping"))).status_code == 200


@pytest.mark.claim("C-WEB-3")
@pytest.mark.req("B-079")
async def test_a_file_that_comes_too_slowly_is_given_up(service: OpenService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paced_bodies, "BODY_S", 0.05)
    monkeypatch.setattr(serving, "HEAD_S", 0.5)  # for the rest of the body
    session = (await service.http.post("/v1/sessions", json={})).json()["id"]
    path = f"/v1/sessions/{session}/files/content?path=x"
    head = f"PUT {path} HTTP/1.1\r\nhost: {service.base[7:]}\r\ncontent-length: 900\r\n\r\n"

    refused = await _spoken(service, f"{head}abc".encode())
    assert b'"transfer_timeout"' in refused
    assert (await service.http.get(path)).json()["error"]["code"] == "file_missing"
    assert (await service.http.put(path, content=b"all of it")).json()["size"] == 9
    await service.http.delete(f"/v1/sessions/{session}")


@pytest.mark.req("B-079")
async def test_a_cut_body_starts_nothing(service: OpenService) -> None:
    text = json.dumps(execute("open('/workspace/x', 'w')")).encode()
    head = f"POST /mcp HTTP/1.1\r\nhost: {service.base[7:]}\r\ncontent-type: application/json\r\ncontent-length: "
    before = _taken(service)
    async with await anyio.connect_tcp("127.0.0.1", int(service.base.rpartition(":")[2])) as stream:
        await stream.send(f"{head}{len(text) + 1}\r\n\r\n".encode() + text)
        await stream.send_eof()
    assert (await service.post(request("ping"))).status_code == 200
    assert _taken(service) == before


def _taken(service: OpenService) -> int:
    """How many sandboxes were asked for."""
    return sum(kind.hits + kind.misses for kind in service.service.engine.pool.statistics().kinds)


async def _spoken(service: OpenService, data: bytes) -> bytes:
    """What the service says to `data` until it closes the connection."""
    said = b""
    async with await anyio.connect_tcp("127.0.0.1", int(service.base.rpartition(":")[2])) as stream:
        try:
            if data:
                await stream.send(data)
            while True:
                said += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return said


@pytest.mark.claim("C-WEB-1")
@pytest.mark.req("E-010", "E-018", "E-019", "B-023", "J-038", "X-18")
async def test_every_path_needs_a_credential_and_refuses_without_one_in_the_same_bytes() -> None:
    async with served({"good": caller("good", scopes=frozenset({"files"}))}) as service:
        for path, method in itertools.product(ALL_PATHS, ("POST", "GET", "DELETE")):

            async def send(url: str = path, method: str = method, **headers: str) -> Any:
                return await service.http.request(method, url, content=b"{broken", headers={**JSON_TYPE, **headers})

            for wrong in (None, "bad", "sk-local-bad", "a.b.c", "~"):
                refused = await send(**({} if wrong is None else {"authorization": f"Bearer {wrong}"}))
                assert (refused.status_code, refused.content) == (401, UNAUTHORIZED), (path, method, wrong)
                assert refused.headers["content-type"] == "application/json"
                assert refused.headers["www-authenticate"] == REFUSED_CHALLENGES[wrong is not None]
            query = await send(f"{path}{'&' if '?' in path else '?'}access_token=good")
            assert query.status_code == 401
            for malformed in ("Basic good", "Bearer", "Bearer a b", "Bearer " + "x" * 20_000):
                assert (await send(authorization=malformed)).status_code == 400


@pytest.mark.req("E-019")
async def test_a_credential_without_the_scope_is_told_which() -> None:
    callers = {
        "files": caller("files", scopes=frozenset({"files"})),
        "run": caller("run", scopes=frozenset({"execute"})),
        "tenants": caller("tenants", "acme"),
        "operators": caller("operators"),
    }
    async with served(callers) as service:
        files, run = {"authorization": "Bearer files"}, {"authorization": "Bearer run"}
        for message, headers, scope in (
            (execute("1"), files, "execute"),
            ([request("ping")], files, "execute"),
            (handshake(), files, "execute"),
            (request("resources/list"), run, "files"),
        ):
            refused = await service.post(message, **headers)
            assert refused.status_code == 403
            assert f'error="insufficient_scope", scope="{scope}"' in refused.headers["www-authenticate"]
        assert (await service.post(request("ping"), **run)).status_code == 200
        assert (await service.http.get("/sse", headers={**files, **STREAMS})).status_code == 403
        for method in ("GET", "DELETE"):
            assert (await service.http.request(method, "/mcp", headers={**files, **STREAMS})).status_code == 403
        assert (await service.http.get("/metrics", headers=run)).status_code == 403
        for name, status in (("tenants", 403), ("operators", 200)):  # figures are of all organisations together
            told = await service.http.get("/metrics", headers={"authorization": f"Bearer {name}"})
            assert told.status_code == status


async def test_an_organisation_that_could_not_be_opened_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", "/var/lib/secret")

    async with served({"me": caller("me")}) as service:
        with monkeypatch.context() as disk:
            disk.setattr("moonpool.bootstrap.organisations.open_queue", full)
            refused = await service.post(request("ping"), authorization="Bearer me")
        assert (refused.status_code, refused.json()["error"]) == (503, "service_busy")
        assert "secret" not in refused.text
        assert (await service.post(request("ping"), authorization="Bearer me")).status_code == 200


@pytest.mark.claim("C-TEN-1")
async def test_where_tenants_cannot_be_kept_apart_a_second_organisation_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a process that is not root's."""
    monkeypatch.setattr("moonpool.bootstrap.service.serves_several_tenants", lambda: False)
    async with served({"first": caller("first"), "second": caller("second", "acme")}) as service:
        second = {"authorization": "Bearer second"}
        assert (await service.post(request("ping"), authorization="Bearer first")).status_code == 200
        for refused in (
            await service.post(request("ping"), **second),
            await service.http.post("/v1/sessions", json={}, headers=second),
        ):
            assert (refused.status_code, "this service serves another organisation" in refused.text) == (503, True)
        assert (await service.post(request("ping"), authorization="Bearer first")).status_code == 200


async def test_a_profile_that_is_not_offered_is_unknown() -> None:
    callers = {"any": caller("any"), "one": caller("one", profile="code")}
    async with served(callers) as service:
        unknown = await service.post(request("tools/list"), path="/mcp/cod", authorization="Bearer any")
        assert (unknown.status_code, unknown.json()["error"]) == (404, "profile_unknown")
        assert unknown.json()["message"] == "there is no profile 'cod'; did you mean code?"
        for path in ("/mcp", "/mcp/code"):
            assert (await service.post(request("ping"), path=path, authorization="Bearer one")).status_code == 200
        other = await service.post(request("ping"), path="/mcp/ipybox", authorization="Bearer one")
        assert other.status_code == 404


@pytest.mark.req("G-023")
async def test_probes_need_no_credential_and_say_little() -> None:
    async with served({}) as service:
        for path, said in (("/healthz", "ok\n"), ("/readyz", "ready\n")):
            answer = await service.http.get(path, headers={"host": "10.0.0.7:8080"})
            assert (answer.status_code, answer.text) == (200, said)
            assert (await service.http.post(path)).status_code == 405
        service.readiness.phase = "draining"
        assert (await service.http.get("/readyz")).status_code == 503
        assert (await service.http.get("/healthz")).status_code == 200
        refused = await service.post(request("ping"))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


@pytest.mark.req("G-023")
async def test_readyz_waits_for_the_default_environment_and_says_when_it_is_gone(
    service: OpenService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spec = service.service.engine.sandbox_spec
    away: Any = SimpleNamespace(sandbox_spec=replace(spec, image=replace(spec.image, guest=tmp_path / "gone")))
    checks = [partial(_check_environment, engine) for engine in (service.service.engine, away)]
    asked = [Readiness(), *(Readiness(phase="ready", checks={"environment": check}) for check in checks)]

    answers = [await readyz(one) for one in asked]

    assert [(one.status_code, one.body) for one in answers] == [
        (503, b"starting\n"), (200, b"ready\n"), (503, b"environment\n"),
    ]  # fmt: skip
    assert "gone" in caplog.text


@pytest.mark.req("E-001", "G-023")
async def test_figures_are_for_everybody_only_without_authentication(service: OpenService) -> None:
    figures = await service.http.get("/metrics")

    assert figures.status_code == 200
    assert "moonpool_" in figures.text


@pytest.mark.parametrize(
    ("host", "port", "public", "named", "accepted"),
    [
        ("127.0.0.1", 8080, "", "127.0.0.1:8080", True),
        ("127.0.0.1", 8080, "", "LOCALHOST:8080", True),
        ("127.0.0.1", 8080, "", "localhost", False),
        ("127.0.0.1", 80, "", "localhost", True),
        ("::1", 8080, "", "[::1]:8080", True),
        ("10.0.0.7", 8080, "", "10.0.0.7:8080", True),
        ("10.0.0.7", 8080, "", "localhost:8080", False),
        (ANY, 8080, "", "10.0.0.7:8080", True),
        (ANY, 8080, "", "[fd00::1]:8080", True),
        (ANY, 8080, "", "10.0.0.7:9000", False),
        (ANY, 8080, "", "evil.example:8080", False),
        (ANY, 8080, "https://m.example", "m.example", True),
        (ANY, 8080, "https://m.example", "m.example:443", True),
        (ANY, 8080, "https://m.example:8443", "m.example:8443", True),
        (ANY, 8080, "https://m.example:8443", "m.example", False),
        ("127.0.0.1", 8080, "", "127.0.0.1:8080@evil.example", False),
        ("127.0.0.1", 8080, "", "", False),
    ],
)
def test_names_of_a_service(host: str, port: int, public: str, named: str, accepted: bool) -> None:
    names = Names.of(host, port, public_url=public)

    with nullcontext() if accepted else pytest.raises(RequestError, match="not called so"):
        names.check([(b"host", named.encode())])


@pytest.mark.parametrize(
    "url", ["moonpool.example.com", "ftp://m.example", "https://m.example/path", "https://u@m", "x"]
)
def test_a_public_url_is_an_origin(url: str) -> None:
    with pytest.raises(ConfigError, match="public_url must be like https://"):
        Names.of("127.0.0.1", 8080, public_url=url)


def test_answers_do_not_wait_for_acknowledgements() -> None:
    listener = serving.ServiceListener("127.0.0.1", 0)
    with closing(listener):
        assert listener.socket.proto == socket.IPPROTO_TCP  # asyncio looks at this before it sets TCP_NODELAY


def test_a_port_in_use_stops_the_start() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(serving.ListenError, match=f"127.0.0.1:{port} cannot be listened at: .*--port 0"):
            serving.ServiceListener("127.0.0.1", port)
