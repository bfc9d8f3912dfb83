"""Domains with a credential, in real sandboxes: programs use them unchanged, and none has the credential."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from apps import open_app
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.network import NetworkServices
from moonpool.network.destinations import Destinations
from moonpool.network.rules import NetworkRules, parse_domain
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from network.stand_ins import PUBLIC
from network.tls_hosts import CREDENTIAL, HOST, SECRET, Talk, echo, running, signer
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.bootstrap import Tenant
    from moonpool.engine.sessions import Session
    from network.tls_hosts import Server

pytestmark = pytest.mark.anyio
OTHER = "other.example.org"


async def _answer(talk: Talk) -> None:
    if talk.path == "/moved":
        await talk.body()
        await talk.answer(status=302, Location=f"https://{OTHER}/")
    else:
        await echo(talk)


@asynccontextmanager
async def _session(folder: Path, **settings: Any) -> AsyncGenerator[tuple[Session, Tenant, Server, Server]]:
    """A session, its application, the server with a credential and one without."""
    roots = folder / "roots.pem"
    roots.write_bytes(signer().roots)
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(running(_answer, signer().context(folder)))
        other = await stack.enter_async_context(running(_answer, signer().context(folder, OTHER)))
        app = await stack.enter_async_context(open_app(network_ca_file=roots, **settings))
        by_name = {HOST: ours.port, OTHER: other.port}
        addresses = {HOST: PUBLIC, OTHER: PUBLIC[:-1] + "5"}

        async def resolve(host: str, port: int) -> list[str]:
            return [addresses[host]]

        async def dial(address: str, port: int) -> Any:
            host = next(name for name, known in addresses.items() if known == address)
            return await asyncio.open_connection("127.0.0.1", by_name[host])

        app.runtime.network_services = NetworkServices(destinations=Destinations(resolve=resolve, dial=dial))
        rules = NetworkRules((parse_domain(HOST, CREDENTIAL), parse_domain(OTHER)))
        session = app.runtime.session(app.caller_grant, network=rules)
        stack.push_async_callback(session.close)
        yield session, app, ours, other


HALF, REST = SECRET[:8], hashlib.sha256(SECRET[8:].encode()).hexdigest()
SEARCH = f"""
import hashlib, os
def has_secret(data):  # without having it
    at = data.find(b"{HALF}")
    while at >= 0:
        if hashlib.sha256(data[at + {len(HALF)} : at + {len(SECRET)}]).hexdigest() == "{REST}":
            return True
        at = data.find(b"{HALF}", at + 1)
    return False
found, searched = [], 0
for pid in filter(str.isdigit, os.listdir("/proc")):
    with open(f"/proc/{{pid}}/environ", "rb") as file:
        found += [pid] * has_secret(file.read())
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if " rw-p " in line:
            memory.seek(first)
            data = memory.read(last - first)
            searched += len(data)
            found += [line] * has_secret(data)
result = [found, searched]
"""
PYTHON = f"""
import json, os, ssl, urllib.error, urllib.request
def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.reason
bundle = os.environ["SSL_CERT_FILE"]
try:
    open(bundle, "a")
    written = True
except OSError:
    written = False
result = {{
    "echo": fetch("https://{HOST}/"),
    "moved": fetch("https://{HOST}/moved"),
    "plain": fetch("http://{HOST}/"),
    "written": written,
    "keys": "PRIVATE KEY" in open(bundle).read(),
    "environment": " ".join(os.environ.values()),
}}
"""


@pytest.mark.claim("C-SEC-4")
@pytest.mark.parametrize("backend", ["zygote", pytest.param("bubblewrap", marks=pytest.mark.slow)])
async def test_code_uses_a_credential_that_it_never_has(backend: str, tmp_path: Path) -> None:
    async with _session(tmp_path, backend=backend) as (session, app, ours, other):
        envelope = await session.execute(CodeRequest(code=PYTHON.encode()))
        assert envelope.error is None, envelope.error
        told: Any = envelope.data
        assert SECRET not in str(told)
        assert "[REDACTED:CREDENTIAL]" in told["echo"]
        assert ("Authorization", f"Bearer {SECRET}") in ours.headers(0)
        assert f"'{OTHER}'" in str(other.headers(0))
        assert SECRET.encode() not in other.received
        assert "https only" in told["plain"]
        assert (told["written"], told["keys"]) == (False, False)
        curl = await session.execute(CodeRequest(code=f"curl -sS https://{HOST}/".encode(), language="bash"))
        assert "[REDACTED:CREDENTIAL]" in str(curl.extras), curl.extras
        await until(lambda: len(_ended(app, session)) == 5)
        assert sorted((row["host"], row["outcome"], row["credential"]) for row in _ended(app, session)) == [
            *[(HOST, "done", True)] * 3,
            (HOST, "not_allowed", False),
            (OTHER, "done", False),
        ]
        searched = await session.execute(CodeRequest(code=SEARCH.encode()))
        found: Any = searched.data
        assert searched.error is None, searched.error
        assert found[0] == []
        assert found[1] > 1024**2
        await session.close()
        code = b"import os; result = [name for name in os.listdir('/wrappers') if name.endswith('.pem')]"
        assert (await app.runtime.run(CodeRequest(code=code), app.caller_grant)).data == []
        # by a process of its own: closing a file of SQLite drops all locks that this process has on it
        search = await anyio.run_process(["grep", "-rlF", SECRET, str(app.data)], check=False)
        assert (search.returncode, search.stdout, search.stderr) == (1, b"", b"")


async def test_a_domain_that_gets_a_credential_later_is_trusted_by_the_next_execution(tmp_path: Path) -> None:
    async with _session(tmp_path) as (session, _, __, other):
        fetch = PYTHON.partition("bundle =")[0] + f'result = fetch("https://{OTHER}/")'
        assert "authorization" not in (await session.execute(CodeRequest(code=fetch.encode()))).data
        session.network.allow((parse_domain(OTHER, CREDENTIAL),))
        assert "[REDACTED:CREDENTIAL]" in (await session.execute(CodeRequest(code=fetch.encode()))).data
        assert ("Authorization", f"Bearer {SECRET}") in other.headers()


def _ended(app: Tenant, session: Session) -> list[dict[str, Any]]:
    rows = [row.to_json() for row in read_rows(journal_path(app.data), tail=100)]
    return [row for row in rows if row.get("session_id") == session.session_id and row.get("outcome", "open") != "open"]
