"""Sessions with a network, in real sandboxes: what programs reach, what they do not, and what is on record."""

from __future__ import annotations

import ensurepip
import hashlib
import io
import os
import ssl
import zipfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from apps import DATA, open_app
from cli.console import run_code
from moonpool.bootstrap.replays import replay_run
from moonpool.core.errors import InputError
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.network import NetworkServices
from moonpool.features.recordings.model import RecordingError
from moonpool.network.destinations import Destinations
from moonpool.network.rules import NetworkRuleError, NetworkRules, parse_domain
from moonpool.replay.service import ReplayRequest
from moonpool.sdk.transfers import put
from moonpool.settings import Settings
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from network.sites import Site, authority
from network.stand_ins import PUBLIC, Internet
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.bootstrap import Tenant
    from moonpool.engine.sessions import Session

pytestmark = pytest.mark.anyio

FETCH = """
import urllib.error, urllib.request
def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read().decode()
    except urllib.error.URLError as error:
        return str(getattr(error, "reason", error))
"""


@asynccontextmanager
async def _session(
    internet: Internet, *domains: str, settings: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[tuple[Session, Tenant]]:
    async with internet.running(), open_app(**(settings or {})) as app:
        app.runtime.network_services = NetworkServices(
            destinations=Destinations(resolve=internet.resolve, dial=internet.dial)
        )
        rules = NetworkRules(tuple(map(parse_domain, domains)))
        session = app.runtime.session(app.caller_grant, network=rules, **options)
        try:
            yield session, app
        finally:
            await session.close()


async def _run(session: Session, code: str, **options: Any) -> Any:
    envelope = await session.execute(CodeRequest(code=code.encode(), **options))
    assert envelope.error is None, envelope.error
    return envelope.data


def _connections(app: Tenant, session: Session) -> list[dict[str, Any]]:
    rows = [row.to_json() for row in read_rows(journal_path(app.data), tail=100)]
    return [row for row in rows if row["kind"] == "connection" and row["session_id"] == session.session_id]


@pytest.fixture(params=["zygote", "bubblewrap"])
def backend(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {} if request.param == "zygote" else {"backend": "bubblewrap"}


async def test_code_reaches_what_is_allowed_and_nothing_else_and_it_is_on_record(backend: dict[str, Any]) -> None:
    site = Site({"/hello": b"hello"})
    async with _session(Internet(site.serve), "www.example.com", settings=backend) as (session, app):
        code = FETCH + (
            'result = [fetch("http://www.example.com/hello"), fetch("http://evil.example/"), fetch("http://10.0.0.1/")]'
        )
        hello, evil, inside = await _run(session, code)
        assert hello == "hello"
        assert "evil.example:80 is not among the domains" in evil
        assert "10.0.0.1:80 is not among" in inside
        await until(lambda: len(_connections(app, session)) == 4)
        began, *others = _connections(app, session)
        (ended,) = (one for one in others if one["host"] == began["host"])  # perhaps after the next one began
        refused = [one for one in others if one is not ended]
        assert (began["outcome"], ended["outcome"]) == ("open", "done")
        assert (ended["host"], ended["port"], ended["address"]) == ("www.example.com", 80, PUBLIC)
        assert ended["bytes_up"] > 50 < ended["bytes_down"]
        assert [(one["host"], one["outcome"], one["bytes_up"]) for one in refused] == [
            ("evil.example", "not_allowed", 0),
            ("10.0.0.1", "not_allowed", 0),
        ]


PROBE = """
import errno, socket
def code_of(attempt):
    try:
        attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "nothing stopped it"
result = [
    code_of(lambda: socket.socket(*kind)) for kind in
    ((2, 2), (2, 3), (10, 2), (10, 3), (16, 3), (17, 3), (40, 1), (2, 1, 132), (2, 1, 262), (2, 1, 256), (2, 5), (2, 4))
] + [
    code_of(lambda: socket.create_connection(where, 5))
    for where in (("93.184.215.14", 443), ("169.254.169.254", 80), ("10.0.0.1", 80), ("127.0.0.1", PORT))
] + [
    code_of(lambda: socket.socket(2, 1).setsockopt(level, option, 1 << 20))
    for level, option in ((1, 7), (1, 8), (0, 35), (6, 13), (6, 31), (41, 20))
] + [code_of(lambda: socket.create_server(("127.0.0.1", 3128)))]
"""


async def test_a_sandbox_with_a_network_has_tcp_to_its_proxy_and_nothing_more(backend: dict[str, Any]) -> None:
    internet = Internet(Site({}).serve)
    async with _session(internet, settings=backend) as (session, _):
        code = PROBE.replace("PORT", str(internet.port))
        found = await _run(session, code)
        assert found == (
            ["EAFNOSUPPORT"] * 12
            + ["ENETUNREACH"] * 3
            + ["ECONNREFUSED"]
            + ["EPERM"] * 2
            + ["ENOPROTOOPT"] * 4
            + ["EADDRINUSE"]
        )


async def test_the_list_changes_while_the_session_lives_and_outlives_its_sandbox() -> None:
    site = Site({"/": b"home"})
    async with _session(Internet(site.serve)) as (session, _):
        ask = FETCH + 'result = fetch("http://example.com/")'
        assert "not among the domains" in await _run(session, ask)
        session.network.allow((parse_domain("example.com"),))
        assert await _run(session, ask) == "home"
        await session.execute(CodeRequest(code=b"import os; os._exit(1)"))
        assert await _run(session, ask) == "home"  # in another sandbox
        session.network.deny(("example.com",))
        assert "not among the domains" in await _run(session, ask)


SEALED = """
import os, socket
try:
    socket.socket()
except OSError as error:
    result = [error.errno, os.environ.get("HTTPS_PROXY")]
"""


async def test_sealed_sandboxes_stay_sealed_beside_those_with_a_network() -> None:
    async with _session(Internet(Site({}).serve), "example.com") as (session, app):
        await _run(session, "result = 1")
        sealed = app.runtime.session(app.caller_grant)
        try:
            assert await _run(sealed, SEALED) == [97, None]
            with pytest.raises(InputError, match="no network"):
                _ = sealed.network
        finally:
            await sealed.close()


async def test_the_operator_bounds_what_may_be_allowed() -> None:
    settings = {"network": "*.example.com"}
    async with _session(Internet(Site({}).serve), "a.example.com", settings=settings) as (session, app):
        with pytest.raises(NetworkRuleError, match="MOONPOOL_NETWORK"):
            session.network.allow((parse_domain("example.org"),))
        assert list(map(str, session.network.rules.domains)) == ["a.example.com"]
        with pytest.raises(NetworkRuleError, match="MOONPOOL_NETWORK"):
            app.runtime.session(app.caller_grant, network=NetworkRules((parse_domain("example.org"),)))


async def test_many_refused_connections_are_counted() -> None:
    async with _session(Internet(Site({}).serve)) as (session, app):
        await _run(session, FETCH + 'result = [fetch(f"http://evil.example/") for _ in range(60)][0]')
        await session.close()
        assert len(_connections(app, session)) == 50
        rows = [row.to_json() for row in read_rows(journal_path(app.data), tail=20)]
        counted = [row for row in rows if row["kind"] == "connections_refused"]
        assert counted[-1]["refused"] == {"not_allowed evil.example": 10}


async def test_no_plan_runs_with_a_network_and_no_such_execution_can_be_replayed() -> None:
    async with _session(Internet(Site({}).serve)) as (session, _):
        with pytest.raises(InputError, match="does not bound a network"):
            await session.execute(CodeRequest(code=b"1", dry_run=True))
        envelope = await session.execute(CodeRequest(code=b"1"))
    with pytest.raises(RecordingError, match="its code had a network"):
        await replay_run(Settings.load({}, data_dir=DATA), ReplayRequest(run_id=envelope.run_id), environ=os.environ)


WHEEL = "demo-1.0-py3-none-any.whl"


def _wheel() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("demo.py", "VALUE = 42\n")
        archive.writestr("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        archive.writestr("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("demo-1.0.dist-info/RECORD", "")
    return written.getvalue()


REQUESTS = """
import sys
sys.path.insert(0, "/workspace/pip.whl")
from pip._vendor import requests
result = requests.get("https://www.example.com/hello", timeout=30).text
"""
INSTALL = """
import subprocess, sys
command = [sys.executable, "/workspace/pip.whl/pip", "install", "--no-cache-dir", "--target", "/workspace/packages",
           "--index-url", "https://www.example.com/simple", "demo"]
done = subprocess.run(command, capture_output=True, text=True)
sys.path.insert(0, "/workspace/packages")
try:
    import demo
    result = demo.VALUE
except ImportError:
    result = done.stdout[-2000:] + done.stderr[-2000:]
"""


def _pip() -> Path:
    """The wheel of pip that came with this Python, or the system's."""
    places = [Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels")]
    found = [wheel for place in places for wheel in place.glob("pip-*.whl")]
    if not found:
        pytest.skip("no wheel of pip on this machine")
    return found[0]


def _trusting(folder: Path) -> tuple[dict[str, Any], ssl.SSLContext]:
    """Settings by which sessions trust a new authority, and a server's context under it."""
    ca, context = authority(folder, "www.example.com")
    (folder / "ca.pem").write_bytes(ca)
    return {"network_ca_file": folder / "ca.pem"}, context


@pytest.mark.slow
async def test_curl_requests_and_pip_work_unchanged(tmp_path: Path) -> None:
    wheel = _wheel()
    link = f'<a href="/{WHEEL}#sha256={hashlib.sha256(wheel).hexdigest()}">{WHEEL}</a>'
    site = Site({"/hello": b"hello", "/simple/demo/": f"<html><body>{link}</body></html>".encode(), f"/{WHEEL}": wheel})
    settings, context = _trusting(tmp_path)
    async with _session(Internet(site.serve, tls=context), "www.example.com", settings=settings) as (session, app):
        await put(session.files, "pip.whl", _pip(), replace=True)
        curl = "curl -sS --fail https://www.example.com/hello"
        envelope = await session.execute(CodeRequest(code=curl.encode(), language="bash"))
        assert (envelope.extras["stdout"], envelope.extras["stderr"]) == ("hello", "")
        refused = await session.execute(CodeRequest(code=b"curl -sS https://evil.example/", language="bash"))
        assert "403" in str(refused.extras["stderr"])
        assert await _run(session, REQUESTS) == "hello"
        assert await _run(session, INSTALL) == 42
        await until(lambda: {one["outcome"] for one in _connections(app, session)} == {"open", "done", "not_allowed"})


FETCHES = """
import util from 'node:util';
const hello = await (await fetch('https://www.example.com/hello')).text();
const plain = await fetch('https://evil.example/').then(() => 'reached', (error) => util.inspect(error));
globalThis.result = [hello, plain];
"""


@pytest.mark.slow
async def test_fetch_of_node_works_unchanged(tmp_path: Path) -> None:
    settings, context = _trusting(tmp_path)
    site = Site({"/hello": b"hello"})
    async with _session(Internet(site.serve, tls=context), "www.example.com", settings=settings) as (session, _):
        hello, refused = await _run(session, FETCHES, language="node")
        assert hello == "hello"
        assert "403" in refused


@pytest.mark.slow
def test_what_the_operator_allows_on_the_command_line_is_for_every_session(tmp_path: Path) -> None:
    code = FETCH + 'result = [fetch("http://evil.example/"), __import__("os").environ["HTTPS_PROXY"]]'
    refused, proxy = run_code(tmp_path, code, "--allow-network", "a.example").result["data"]
    assert "not among the domains" in refused
    assert proxy == "http://127.0.0.1:3128"
