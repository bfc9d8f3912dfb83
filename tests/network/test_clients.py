"""Programs that know nothing of Moonpool reach what a session allows, unchanged, and say why where they do not."""

from __future__ import annotations

import ensurepip
import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from moonpool.engine.code_request import CodeRequest
from moonpool.sdk.transfers import put
from network.network_sessions import connections_of, open_session, ran, trusting
from network.sites import Site
from network.stand_ins import Internet
from waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

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


async def test_curl_requests_and_pip_work_unchanged(tmp_path: Path) -> None:
    wheel = _wheel()
    link = f'<a href="/{WHEEL}#sha256={hashlib.sha256(wheel).hexdigest()}">{WHEEL}</a>'
    site = Site({"/hello": b"hello", "/simple/demo/": f"<html><body>{link}</body></html>".encode(), f"/{WHEEL}": wheel})
    settings, context = trusting(tmp_path)
    async with open_session(Internet(site.serve, tls=context), "www.example.com", settings=settings) as (session, app):
        await put(session.files, "pip.whl", _pip(), replace=True)
        curl = "curl -sS --fail https://www.example.com/hello"
        envelope = await session.execute(CodeRequest(code=curl.encode(), language="bash"))
        assert (envelope.extras["stdout"], envelope.extras["stderr"]) == ("hello", "")
        refused = await session.execute(CodeRequest(code=b"curl -sS https://evil.example/", language="bash"))
        assert "403" in str(refused.extras["stderr"])
        assert await ran(session, REQUESTS) == "hello"
        assert await ran(session, INSTALL) == 42
        await until(lambda: {one["outcome"] for one in connections_of(app, session)} == {"open", "done", "not_allowed"})


FETCHES = """
import util from 'node:util';
const hello = await (await fetch('https://www.example.com/hello')).text();
const plain = await fetch('https://evil.example/').then(() => 'reached', (error) => util.inspect(error));
globalThis.result = [hello, plain];
"""


async def test_fetch_of_node_works_unchanged(tmp_path: Path) -> None:
    settings, context = trusting(tmp_path)
    site = Site({"/hello": b"hello"})
    async with open_session(Internet(site.serve, tls=context), "www.example.com", settings=settings) as (session, _):
        hello, refused = await ran(session, FETCHES, language="node")
        assert hello == "hello"
        assert "403" in refused
