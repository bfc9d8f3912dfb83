"""Servers that fail in the middle of it, seen by code in a real sandbox: one typed error each; what is next works."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

import pytest

from apps import SERVERS, fixture_server, open_app, run
from moonpool.store.journal_reading import verify_file
from published import servers
from waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]
MODES = ("good", "dies-mid-call", "slow", "bad-json-mid", "hangs-on-call", "never-answers")
CODE = """
from client.mcp_client import call_tool

async def call(server, **arguments):
    called = await call_tool(server_id=server, name="echo", arguments=arguments)
    return "ok" if called.ok else called.error["type"]

result = {
    "killed": await call("dies-mid-call"),
    "slow": await call("slow"),
    "no JSON": await call("bad-json-mid", kind="nan"),
    "cut": await call("bad-json-mid", kind="cut"),
    "hung": await call("hangs-on-call"),
    "mute": await call("never-answers"),
    "after all": await call("good"),
}
"""


PATIENCE = {"hangs-on-call": {"timeout_s": 1}, "never-answers": {"connect_timeout_s": 1}}


def faulty(mode: str) -> dict[str, Any]:
    entry = {"command": sys.executable, "args": [str(SERVERS / "raw.py"), mode]}
    return {**entry, "moonpool": {"allow": ["*"], **PATIENCE.get(mode, {})}}


async def test_each_fault_is_one_typed_error_and_the_next_call_works(caplog: pytest.LogCaptureFixture) -> None:
    async with open_app({mode: faulty(mode) for mode in MODES}) as app:
        envelope = await run(app, CODE)
    gc.collect()  # a transport that was not closed is found here
    assert "unexpected" not in caplog.text
    assert envelope.data == {
        "killed": "TransientNetwork",
        "slow": "ok",
        "no JSON": "UpstreamError",
        "cut": "UpstreamError",
        "hung": "Timeout",
        "mute": "Timeout",
        "after all": "ok",
    }


async def test_a_result_of_5_mb_arrives_whole() -> None:
    code = """
from client.mcp_client import call_tool
called = await call_tool(server_id="big", name="echo", arguments={"n": 5_000_000})
result = [len(called.data), set(called.data) == {"x"}]
"""
    async with open_app({"big": fixture_server("raw.py", "huge-line")}) as app:
        assert (await run(app, code)).data == [5_000_000, True]


@pytest.mark.req("D-054")
@pytest.mark.parametrize("timeout_s", [1, 60], ids=["timed out", "cancelled"])
async def test_the_call_of_an_execution_that_ends_is_cancelled_at_the_server(tmp_path: Path, timeout_s: int) -> None:
    called = tmp_path / "called"
    code = "from servers.srv import wait\nresult = (await wait()).ok"
    async with open_app({"srv": fixture_server("waiting.py", str(called), allow=["*"], timeout_s=60)}) as app:
        running = asyncio.ensure_future(run(app, code, timeout_s=timeout_s))
        await until(called.exists)
        if timeout_s > 1:
            running.cancel()
        (ended,) = await asyncio.gather(running, return_exceptions=True)
        await until(tmp_path.joinpath("called.cancelled").exists)
    assert isinstance(ended, asyncio.CancelledError) == (timeout_s > 1)
    if not isinstance(ended, BaseException):
        assert ended.error is not None
        assert ended.error.type == "Timeout"


@pytest.mark.req("D-012", "P-015")
async def test_every_kind_of_content_reaches_code() -> None:
    blocks = [
        {"type": "text", "text": "t"},
        {"type": "image", "data": "AP8=", "mimeType": "image/png"},
        {"type": "audio", "data": "AP8=", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "w://a", "text": "r"}},
        {"type": "resource_link", "uri": "w://b", "name": "b"},
    ]
    code = f"""
from client.mcp_client import call_tool

async def call(content):
    called = await call_tool(server_id="srv", name="echo", arguments={{"result": {{"content": content}}}})
    return [called.data == content, called.raw["content"] == content]

blocks = {blocks!r}
result = [await call(blocks), await call(blocks[1:2])]
"""
    async with open_app({"srv": fixture_server("raw.py", "odd-results")}) as app:
        envelope = await run(app, code)
    assert envelope.data == [[True, True], [True, True]]


@pytest.mark.slow
async def test_a_database_that_is_locked_is_said_and_written_to_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "data.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (a INTEGER)")
    write = "from servers.db import write_query\nresult = (await write_query(query='INSERT INTO t VALUES (1)')).data"
    async with open_app({"db": servers.sqlite(path, allow=["*"])}) as app:
        locked = sqlite3.connect(path, isolation_level=None)
        locked.execute("BEGIN EXCLUSIVE")
        during = await run(app, write)
        locked.execute("ROLLBACK")
        locked.close()
        after = await run(app, write)
        journal = app.data / "private" / "audit.sqlite3"
    assert "database is locked" in str(during.data or during.error)
    assert after.data == [{"affected_rows": 1}]
    assert (await asyncio.to_thread(verify_file, journal)).ok


async def test_a_tool_of_a_server_that_could_not_be_listed_is_not_unknown_but_not_available_now() -> None:
    code = """
from client.mcp_client import call_tool
called = await call_tool(server_id="never-answers", name="echo", arguments={})
result = called.error
"""
    async with open_app({"never-answers": faulty("never-answers")}) as app:
        envelope = await run(app, code)
    assert envelope.data == {
        "type": "Timeout",
        "message": "never-answers.echo is not available now, because its server's tools could not be listed: "
        "server 'never-answers' did not answer the handshake in time; the operator sees why",
        "retryable": True,
    }
