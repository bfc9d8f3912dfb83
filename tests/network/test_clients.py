"""Programs that know nothing of Moonpool reach what a session allows, unchanged, and say why where they do not."""

from __future__ import annotations

import base64
import ensurepip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from uv import find_uv_bin

from kernel_node.probe import wheel_program
from moonpool.engine.code_request import CodeRequest
from moonpool.environments import runtimes
from moonpool.network.rules import HeaderCredential, parse_domain
from moonpool.sdk.transfers import put
from network.network_sessions import connections_of, open_session, ran, trusting
from network.sites import Site
from network.stand_ins import Internet
from packages.fake_index import Index
from waiting import until

if TYPE_CHECKING:
    import ssl

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

HOST = "www.example.com"


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


def _index(folder: Path, context: ssl.SSLContext) -> Internet:
    """A package index, and a page."""
    Index(folder).add("demo", files={"demo.py": "VALUE = 42\n"})
    files = [one for one in (folder / "simple/demo").iterdir() if one.suffix == ".whl"]
    pages = {f"/simple/demo/{one.name}": one.read_bytes() for one in files}
    pages |= {"/hello": b"hello", "/simple/demo/": (folder / "simple/demo/index.html").read_bytes()}
    return Internet(Site(pages).serve, tls=context)


def _pip() -> Path:
    """The wheel of pip that came with this Python, or the system's."""
    places = [Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels")]
    found = [wheel for place in places for wheel in place.glob("pip-*.whl")]
    if not found:
        pytest.skip("no wheel of pip on this machine")
    return found[0]


async def test_curl_requests_and_pip_work_unchanged(tmp_path: Path) -> None:
    settings, context = trusting(tmp_path)
    async with open_session(_index(tmp_path, context), "www.example.com", settings=settings) as (session, app):
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
const text = async (url) => { const answer = await fetch(url); return `${answer.status} ${await answer.text()}`; };
const pages = [await text('https://www.example.com/hello'), await text('http://www.example.com/hello')];
pages.push(...await Promise.all(Array.from({length: 5}, () => text('https://www.example.com/hello'))));
const refused = await text('https://evil.example/').catch((error) => util.inspect(error));
globalThis.result = [process.version, new Set(pages).size, pages[0], refused];
"""


@pytest.mark.parametrize("which", ["system", "wheel"])
async def test_fetch_of_node_works_unchanged(which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the system's Node.js, before 22.21 as a rule, and of a newer one, which reads the variables itself."""
    if which == "wheel":
        program = wheel_program()
        monkeypatch.setattr(runtimes, "_node_candidates", lambda *_: iter([program]))
    settings, context = trusting(tmp_path)
    internet = Internet(Site({"/hello": b"hello"}).serve, tls=context)
    environment = {"environment": "base"}  # so that the application looks for Node.js itself
    async with open_session(internet, HOST, settings={**settings, **environment}) as (session, _):
        version, kinds, page, refused = await ran(session, FETCHES, language="node")
        assert (kinds, page) == (1, "200 hello"), version
        assert "evil.example" not in refused  # it does not say why; then the execution does
        envelope = await session.execute(CodeRequest(code=b"await fetch('https://evil.example/')", language="node"))
        assert envelope.error is not None
        assert "evil.example:443 is not among the domains" in envelope.error.message, version


def _zipped(*names: str) -> bytes:
    """Distributions of this environment, as one file that can stand on `sys.path`."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for path in (path for name in names for path in metadata.files(name) or ()):
            if path.suffix == ".py" or path.name == "METADATA":
                archive.write(path.locate(), path)
    return written.getvalue()


HTTPX = """
import sys
sys.path.insert(0, "/workspace/httpx.zip")
import httpx2 as httpx
with httpx.Client() as client:
    result = [client.get(url).text for url in ("https://www.example.com/hello", "http://www.example.com/hello")]
async with httpx.AsyncClient() as client:
    result += [(await client.get("https://www.example.com/hello")).text]
try:
    httpx.get("https://evil.example/")
except httpx.ProxyError as error:
    result.append(str(error))
"""


async def test_httpx_works_unchanged(tmp_path: Path) -> None:
    settings, context = trusting(tmp_path)
    internet = Internet(Site({"/hello": b"hello"}).serve, tls=context)
    async with open_session(internet, HOST, settings=settings) as (session, _):
        archive = _zipped("httpx2", "httpcore2", "h11", "anyio", "idna", "typing_extensions", "truststore")
        await put(session.files, "httpx.zip", archive, replace=True)
        *pages, refused = await ran(session, HTTPX)
        assert pages == ["hello"] * 3
        assert "403" in refused
        assert "evil.example:443 is not among the domains" in refused


def _repository(folder: Path) -> dict[str, bytes]:
    """A repository as files that git fetches over plain HTTP."""

    def git(*words: str) -> None:
        person = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *person, *words], cwd=folder, check=True, capture_output=True)

    git("init", "--quiet")
    (folder / "file").write_text("content\n", encoding="utf-8")
    git("add", "file")
    git("commit", "--quiet", "-m", "first")
    git("repack", "-q", "-a", "-d")
    git("update-server-info")
    inside = folder / ".git"
    return {f"/repo.git/{path.relative_to(inside)}": path.read_bytes() for path in inside.rglob("*") if path.is_file()}


CLONE = "cd /workspace && git clone --quiet https://www.example.com/repo.git && cat repo/file"
CLONE_REFUSED = "cd /workspace && git clone --quiet https://evil.example/repo.git other"


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
async def test_git_works_unchanged(tmp_path: Path) -> None:
    settings, context = trusting(tmp_path)
    (tmp_path / "repo").mkdir()
    internet = Internet(Site(_repository(tmp_path / "repo")).serve, tls=context)
    async with open_session(internet, HOST, settings=settings) as (session, _):
        cloned = await session.execute(CodeRequest(code=CLONE.encode(), language="bash"))
        assert cloned.extras["stdout"] == "content\n", cloned.extras
        refused = await session.execute(CodeRequest(code=CLONE_REFUSED.encode(), language="bash"))
        assert refused.error is not None
        assert "evil.example:443 is not among the domains" in refused.error.message, refused.extras


PACKED = {"name": "demo", "version": "1.0.0", "main": "index.js"}


def _npm_registry() -> dict[str, bytes]:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        files = {"package.json": json.dumps(PACKED).encode(), "index.js": b"module.exports = 42;\n"}
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    packed = written.getvalue()
    digest = base64.b64encode(hashlib.sha512(packed).digest()).decode()
    dist = {"tarball": f"https://{HOST}/demo/-/demo-1.0.0.tgz", "integrity": f"sha512-{digest}"}
    listing = {"name": "demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**PACKED, "dist": dist}}}
    return {"/demo": json.dumps(listing).encode(), "/demo/-/demo-1.0.0.tgz": packed}


NPM = """
cd /workspace
npm install --registry https://www.example.com/ --no-audit --no-fund --no-update-notifier demo >/dev/null
node -p 'require("demo")'
"""


@pytest.mark.skipif(not shutil.which("npm", path="/usr/bin"), reason="npm of the system is not installed")
async def test_npm_works_unchanged(tmp_path: Path) -> None:
    settings, context = trusting(tmp_path)
    internet = Internet(Site(_npm_registry()).serve, tls=context)
    async with open_session(internet, HOST, settings=settings) as (session, _):
        envelope = await session.execute(CodeRequest(code=NPM.encode(), language="bash"))
        assert envelope.extras["stdout"] == "42\n", envelope.extras


UV = """
import subprocess, sys
command = ["/workspace/uv", "pip", "install", "--no-cache", "--target", "/workspace/packages",
           "--python", sys.executable, "--index-url", "https://www.example.com/simple", "demo"]
done = subprocess.run(command, capture_output=True, text=True)
sys.path.insert(0, "/workspace/packages")
try:
    import demo
    result = demo.VALUE
except ImportError:
    result = done.stdout[-2000:] + done.stderr[-2000:]
"""


async def test_uv_works_unchanged(tmp_path: Path) -> None:
    settings, context = trusting(tmp_path)
    async with open_session(_index(tmp_path, context), HOST, settings=settings) as (session, _):
        await put(session.files, "uv", Path(find_uv_bin()), replace=True)
        await ran(session, "import os; os.chmod('/workspace/uv', 0o755)")
        assert await ran(session, UV) == 42


WRONG_NAME = """
import socket, ssl
raw = socket.create_connection(("127.0.0.1", 3128), 30)
raw.sendall(b"CONNECT www.example.com:443 HTTP/1.1\\r\\nHost: www.example.com:443\\r\\n\\r\\n")
assert b" 200 " in raw.recv(4096)
ssl.create_default_context().wrap_socket(raw, server_hostname="evil.example")
"""
WRONG_NAME_IN_NODE = """
import net from 'node:net';
import tls from 'node:tls';
const socket = net.connect(3128, '127.0.0.1');
socket.write('CONNECT www.example.com:443 HTTP/1.1\\r\\nHost: www.example.com:443\\r\\n\\r\\n');
await new Promise((resolve) => socket.once('data', resolve));
await new Promise((resolve, reject) => tls.connect({socket, servername: 'evil.example'}, resolve).on('error', reject));
"""
REQUESTS_REFUSED = REQUESTS.replace("www.example.com", "evil.example")
REQUESTS_FAILED = REQUESTS.replace("www.", "bad.").replace(".text", ".raise_for_status()")
FETCH_FAILED = """
const answer = await fetch('https://bad.example.com/');
throw new Error(`HTTP Error ${answer.status} ${await answer.text()}`);
"""
CURL = "curl -sS --fail-with-body"
OTHER_TLS = "TLS for evil.example; the tunnel is for www.example.com"
ENDS = [
    # language, code, what the client says, what the session says
    ("python", REQUESTS_REFUSED, "403 Moonpool: evil.example:443 is not among", "evil.example:443 is not among"),
    ("bash", f"{CURL} https://evil.example/", "response 403", "evil.example:443 is not among"),
    ("bash", f"{CURL} http://evil.example/", "Moonpool: evil.example:80 is not among", "evil.example:80 is not among"),
    ("node", "await fetch('https://evil.example/')", "fetch failed", "evil.example:443 is not among"),
    ("python", WRONG_NAME, "unrecognized name", OTHER_TLS),
    ("bash", f"{CURL} --connect-to evil.example:443:{HOST}:443 https://evil.example/", "unrecognized name", OTHER_TLS),
    ("node", WRONG_NAME_IN_NODE, "unrecognized name", OTHER_TLS),
    ("python", REQUESTS_FAILED, "502", "the certificate of bad.example.com cannot be verified"),
    ("bash", f"{CURL} https://bad.example.com/", "cannot be verified", "the certificate of bad.example.com cannot be"),
    ("node", FETCH_FAILED, "502 Moonpool: the certificate of bad.example.com", "Hostname mismatch"),
]


async def test_a_refusal_is_understood_by_clients_and_told_in_the_session(tmp_path: Path) -> None:
    settings, context = trusting(tmp_path)
    async with open_session(Internet(Site({}).serve, tls=context), HOST, settings=settings) as (session, app):
        await put(session.files, "pip.whl", _pip(), replace=True)
        key = HeaderCredential("Authorization", "Bearer s3cret-value")
        session.network.allow((parse_domain("bad.example.com", key),))  # its certificate is another host's
        for language, code, said, told in ENDS:
            envelope = await session.execute(CodeRequest(code=code.encode(), language=language))
            assert envelope.error is not None, code
            heard = f"{envelope.error.message} {envelope.extras['stderr']} {envelope.extras['stdout']}"
            assert said in heard or said in heard.lower().replace("_", " "), (code, heard)
            assert told in envelope.error.message, (code, heard)
            assert told in session.network.refusals(envelope.run_id)[-1], code
            await until(
                lambda told=told, run_id=envelope.run_id: any(
                    told in row["reason"] for row in connections_of(app, session) if row["execution"] == run_id
                )
            )
