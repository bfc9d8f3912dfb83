"""Guests that speak the protocol themselves: what they forge stays theirs and reaches nobody uncut."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest

from apps import fixture_server, open_app, run
from moonpool.engine.code_request import CodeRequest
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

SPEAK = """
import json, os, struct, sys
frame = sys._getframe()
while "head" not in frame.f_locals or "run" not in frame.f_locals["head"]:
    frame = frame.f_back
run = frame.f_locals["head"]["run"]
def say(head, body=b""):
    text = json.dumps(head).encode()
    payload = struct.pack(">H", len(text)) + text + body
    os.write(3, struct.pack(">I", 1 << 24 | len(payload)) + payload)
"""


async def test_a_forged_type_of_error_is_redacted_in_envelope_and_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUEST_TOKEN", "secret-value-4711")
    server: dict[str, Any] = {**fixture_server("echo.py"), "env": {"TOKEN": "${GUEST_TOKEN}"}}
    forged = "say({'t': 'done', 'run': run, 'status': 'error', 'error': {'type': 'secret-value-4711', 'message': 'm'}})"
    async with open_app({"echo": server}) as app:
        envelope = await run(app, SPEAK + forged)
        rows = await asyncio.to_thread(list, read_rows(journal_path(app.data), run_id=envelope.run_id))
    assert envelope.error is not None
    assert envelope.error.type == "[REDACTED:SECRET_1]"
    assert not [row for row in rows if b"secret-value-4711" in row.body]


async def test_a_done_of_another_run_ends_nothing() -> None:
    forged = "say({'t': 'done', 'run': 'run_0', 'status': 'error', 'error': {'type': 'x', 'message': 'm'}}); result = 7"
    async with open_app() as app:
        envelope = await run(app, SPEAK + forged)
    assert envelope.data == 7


async def test_a_body_of_very_many_values_is_refused_before_it_is_decoded() -> None:
    code = (
        "from moonpool_guest.toolcalls import invoke_sync\nresult = invoke_sync('echo', 'echo', {'a': [1] * 600_000})"
    )
    async with open_app({"echo": fixture_server("echo.py")}) as app:
        envelope = await run(app, code)
    assert isinstance(envelope.data, dict)
    assert envelope.data["error"] == {
        "type": "ValidationError",
        "message": "the arguments are not usable JSON: it has more than 500000 values",
        "retryable": False,
    }


@pytest.mark.req("F-015", "X-27", "P-017")
async def test_a_server_that_code_describes_is_not_started_reached_or_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUEST_TOKEN", "secret-value-4711")
    started = tmp_path / "started"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/${{GUEST_TOKEN}}"
        command = {"command": "touch", "args": [str(started)]}
        code = f"""
import json
from client.mcp_client import call_tool
from moonpool_guest.toolcalls import invoke_sync
names = [json.dumps({command!r}), {address!r}, "sh", "${{GUEST_TOKEN}}"]
errors = [(await call_tool(server_id=name, name="echo", arguments={{}})).error for name in names]
given = invoke_sync("echo", "echo", {{"server_params": {command!r}, "url": {address!r}}})["raw"]["structuredContent"]
for params in ({command!r}, {{"url": {address!r}}}):
    call = {{"t": "tool_call", "id": 90 + len(params), "server": "echo", "tool": "echo"}}
    say({{**call, "server_params": params}}, b"{{}}")
result = [[[one["type"], one["message"]] for one in errors], given]
"""
        async with open_app({"echo": fixture_server("echo.py")}) as app:
            envelope = await run(app, SPEAK + code)
            rows = await asyncio.to_thread(list, read_rows(journal_path(app.data), run_id=envelope.run_id))
        with pytest.raises(BlockingIOError):
            listener.accept()
    errors, given = envelope.data
    assert {kind for kind, _ in errors} == {"UnknownTool"}
    assert given == {"server_params": command, "url": address}  # arguments are arguments
    refused = [row.to_json()["server_id"] for row in rows if row.to_json().get("error_type") == "UnknownTool"]
    assert len(refused) == 4
    assert not started.exists()
    assert "secret-value-4711" not in str(envelope.to_json()) + str([row.body for row in rows])


async def test_an_interrupt_in_the_moment_the_sandbox_is_ready_is_not_lost() -> None:
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant)
        acquire = app.runtime.pool.acquire

        async def acquire_and_interrupt(*what: Any, **more: Any) -> Any:
            sandbox = await acquire(*what, **more)
            asyncio.get_running_loop().call_soon(session.interrupt)
            return sandbox

        app.runtime.pool.acquire = acquire_and_interrupt
        async with asyncio.timeout(30):
            envelope = await session.execute(CodeRequest(code=b"import time; time.sleep(60)"))
        await session.close()
    assert envelope.error is not None
    assert envelope.error.type == "Cancelled"


async def test_an_interrupt_while_a_sandbox_is_at_hand_is_not_lost() -> None:
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant)
        await session.execute(CodeRequest(code=b"x = 1"))

        async def recheck_and_interrupt() -> None:
            session.interrupt()

        app.tool_registry.recheck_library = recheck_and_interrupt
        async with asyncio.timeout(30):
            envelope = await session.execute(CodeRequest(code=b"import time; time.sleep(60)"))
        await session.close()
    assert envelope.error is not None
    assert envelope.error.type == "Cancelled"
