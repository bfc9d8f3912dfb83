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
    from moonpool.core.envelope import Envelope
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
async def _session(
    folder: Path, *, checkpoints: bool = False, **settings: Any
) -> AsyncGenerator[tuple[Session, Tenant, Server, Server]]:
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
        session = app.runtime.session(app.caller_grant, network=rules, checkpoints=checkpoints)
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


HOLD = f"""
import os, socket
held = socket.create_connection(("127.0.0.1", 3128))
held.sendall(b"CONNECT {OTHER}:443 HTTP/1.1\\r\\nHost: {OTHER}\\r\\n\\r\\n")
assert b" 200 " in held.recv(4096)
"""
FETCH = PYTHON.partition("bundle =")[0]


async def test_a_network_outlives_crashes_undos_and_forks_and_connections_do_not(tmp_path: Path) -> None:
    async with _session(tmp_path, checkpoints=True) as (session, app, _, __):

        async def run(code: str, at: Session = session) -> Envelope:
            return await at.execute(CodeRequest(code=code.encode()))

        async def ended(envelope: Envelope, outcomes: set[str]) -> None:
            """The connections of this execution are on record, and so ended."""
            await until(lambda: _of(app, envelope) and _of(app, envelope)[-1]["outcome"] != "open")
            assert {row["outcome"] for row in _of(app, envelope)} == {"open", *outcomes}
            assert {row["session_id"] for row in _of(app, envelope)} == {session.session_id}

        first = await run(FETCH + f'fetch("https://{HOST}/")')
        assert "[REDACTED:CREDENTIAL]" in str(first.data)
        await ended(first, {"done"})
        died = await run(HOLD + "os._exit(3)")  # its process, not its sandbox
        assert died.error is not None
        assert died.error.message.endswith("back as they were before this execution")
        await ended(died, {"failed"})
        assert "[REDACTED:CREDENTIAL]" in str((await run(f'fetch("https://{HOST}/")')).data)  # what is back can go on

        held = await run(HOLD)
        session.network.allow((parse_domain(OTHER, CREDENTIAL),))  # which ends what was open to it without
        await ended(held, {"closed"})
        held = await run(HOLD.replace(OTHER, HOST))
        await session.checkpoints.undo(2)
        await ended(held, {"failed"})
        undone = await run(f'fetch("https://{OTHER}/")')  # what was allowed since is not undone, and is trusted
        assert "[REDACTED:CREDENTIAL]" in str(undone.data)

        fork = await session.checkpoints.fork()
        try:
            forked = await run(f'fetch("https://{HOST}/")', fork)
            assert "[REDACTED:CREDENTIAL]" in str(forked.data)
            await until(lambda: len(_of(app, forked)) == 2)
            assert {row["session_id"] for row in _of(app, forked)} == {fork.session_id}
            fork.network.deny((HOST,))
            refused = await run(f'fetch("https://{HOST}/")')
            assert refused.error is not None
            assert refused.error.message.count("not among the domains") == 1
        finally:
            await fork.close()
        assert "[REDACTED:CREDENTIAL]" in str((await run(f'fetch("https://{OTHER}/")')).data)


async def test_an_interrupt_leaves_the_network_and_what_code_leaves_behind_is_of_no_execution(tmp_path: Path) -> None:
    async with _session(tmp_path) as (session, app, _, __):
        code = (
            FETCH
            + f"""
import threading
go, ended = threading.Event(), threading.Event()
def later():
    go.wait()
    fetch("https://{OTHER}/")
    ended.set()
threading.Thread(target=later, daemon=True).start()
print("here", flush=True)
{HOLD}
held.recv(1)
"""
        )
        begun = asyncio.Event()
        running = asyncio.ensure_future(
            session.execute(CodeRequest(code=code.encode(), observer=lambda *_: begun.set()))
        )
        await begun.wait()
        await until(lambda: any(row["outcome"] == "open" for row in _connections(app, session)))
        session.interrupt()
        envelope = await running
        assert envelope.error is not None
        assert envelope.error.type == "Cancelled"
        assert [row["outcome"] for row in _of(app, envelope)] == ["open"]  # the code has it still
        await session.execute(CodeRequest(code=b"import threading; threading.Timer(0.3, go.set).start()"))
        await until(lambda: any(row["execution"] == "" for row in _connections(app, session)))
        waited = await session.execute(CodeRequest(code=b"held.close(); ended.wait(30)"))
        assert waited.data is True
        await until(lambda: len(_of(app, envelope)) == 2)


def _connections(app: Tenant, session: Session) -> list[dict[str, Any]]:
    rows = [row.to_json() for row in read_rows(journal_path(app.data), tail=100)]
    return [row for row in rows if row["kind"] == "connection" and row["session_id"] == session.session_id]


def _of(app: Tenant, envelope: Envelope) -> list[dict[str, Any]]:
    """The connections on record with one execution."""
    rows = [row.to_json() for row in read_rows(journal_path(app.data), tail=100)]
    return [row for row in rows if row["kind"] == "connection" and row["execution"] == envelope.run_id]


def _ended(app: Tenant, session: Session) -> list[dict[str, Any]]:
    rows = [row.to_json() for row in read_rows(journal_path(app.data), tail=100)]
    return [row for row in rows if row.get("session_id") == session.session_id and row.get("outcome", "open") != "open"]
