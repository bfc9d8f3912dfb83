"""Servers that change their tools: harmless changes arrive by themselves, dangerous ones wait for a person."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from apps import DATA, fixture_server, open_app, run
from cli.console import moonpool, write_config
from moonpool.core.errors import InputError
from moonpool.features.drift.model.acceptance import shown_digest
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.bootstrap import Tenant

pytestmark = pytest.mark.anyio


def tool(name: str, *required: str, **members: Any) -> dict[str, Any]:
    properties = {one: {"type": "string"} for one in required}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "inputSchema": schema, **members}


def serve(folder: Path, *tools: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A server that lists `tools`, from its next listing on."""
    (folder / "new.json").write_text(json.dumps({"tools": tools}), encoding="utf-8")
    (folder / "new.json").replace(folder / "tools.json")  # the server may be reading it
    return {"box": fixture_server("recorder.py", str(folder / "tools.json"), str(folder / "calls.jsonl"))}


async def call(app: Tenant, name: str, **arguments: Any) -> Any:
    code = (
        "from client import mcp_client\n"
        f"call = await mcp_client.call_tool(server_id='box', name={name!r}, arguments={arguments!r})\n"
        "result = [None, ''] if call.ok else [call.error['type'], call.error['message']]"
    )
    envelope = await run(app, code)
    assert envelope.error is None, envelope.error
    return envelope.data


async def records() -> list[dict[str, Any]]:
    """What is on record about changed tools; the journal is there once an application is open."""
    rows = await anyio.to_thread.run_sync(lambda: [row.to_json() for row in read_rows(journal_path(DATA))])
    return [row for row in rows if row["kind"] == "drift"]


@pytest.mark.req("H-078")
async def test_a_dangerous_change_pauses_the_tool_and_no_other_until_accepted(tmp_path: Path) -> None:
    async with open_app(serve(tmp_path, tool("put"), tool("get"))) as app:
        before = len(await records())
        await app.tool_registry.snapshot()
        first = await call(app, "put")
        serve(tmp_path, tool("put", "owner"), tool("get", description="gets"))
        snapshot = await app.tool_registry.refresh()
        paused, other = await call(app, "put", owner="me"), await call(app, "get")
        (shown,) = snapshot.changes
        with pytest.raises(InputError, match="not the digest"):
            await app.tool_registry.accept("box.put", "0" * 32)
        with pytest.raises(InputError, match=r"there are some of box\.put"):
            await app.tool_registry.accept("box.get", "0" * 32)
        await app.tool_registry.accept("box", shown_digest([shown]))
        accepted = await call(app, "put", owner="me")
    assert first == other == accepted == [None, ""]
    assert paused[0] == "ToolPaused"
    assert "'owner' is a new required parameter" in paused[1]
    assert "moonpool tools accept box.put" in paused[1]
    told = (await records())[before:]
    assert [(row["tool_name"], row["action"]) for row in told] == [
        ("get", "passed"),
        ("put", "held"),
        ("put", "accepted"),
    ]
    assert told[1]["changes"] == ["parameter_added"]


async def test_a_change_in_the_middle_of_an_execution_counts_from_the_next_call(tmp_path: Path) -> None:
    async with open_app(serve(tmp_path, tool("put"))) as app:
        await app.tool_registry.snapshot()
        code = (
            "import pathlib, asyncio\n"
            "from client import mcp_client\n"
            "async def put(): return await mcp_client.call_tool(server_id='box', name='put', arguments={})\n"
            "kinds = [(await put()).ok]\n"
            "for _ in range(2000):\n"
            "    call = await put()\n"
            "    if not call.ok: break\n"
            "    await asyncio.sleep(0.01)\n"
            "result = [*kinds, call.error['type']]"
        )
        calls = tmp_path / "calls.jsonl"

        async def change() -> None:
            await until(lambda: calls.exists() and calls.read_text(encoding="utf-8").count("\n") >= 2)
            serve(tmp_path, tool("put", annotations={"destructiveHint": False}))
            app.tool_registry.refresh_soon("box")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(change)
            envelope = await run(app, code)
    assert envelope.data == [True, "ToolPaused"]


async def test_a_restart_accepts_nothing_and_records_nothing_twice(tmp_path: Path) -> None:
    async with open_app(serve(tmp_path, tool("put"))) as app:
        before = len(await records())
        await app.tool_registry.snapshot()
    servers = serve(tmp_path, tool("put", "owner"))
    seen: list[Any] = []
    for _ in range(2):
        async with open_app(servers) as app:
            seen.append((await call(app, "put", owner="me"))[0])
    assert seen == ["ToolPaused", "ToolPaused"]
    assert [row["action"] for row in (await records())[before:]] == ["held"]


async def test_an_operator_accepts_from_another_process(tmp_path: Path) -> None:
    async with open_app(serve(tmp_path, tool("put"))) as app:
        await app.tool_registry.snapshot()
        config = write_config(tmp_path, serve(tmp_path, tool("put", "owner")))
        await app.tool_registry.refresh()
        paused = await call(app, "put", owner="me")

        def command(*arguments: str) -> Any:
            return moonpool(tmp_path, "tools", *arguments, "--config", config)

        shown = await anyio.to_thread.run_sync(command, "drift")
        (line,) = [
            json.loads(one) for one in (await anyio.to_thread.run_sync(command, "drift", "--json")).stdout.splitlines()
        ]
        unseen = await anyio.to_thread.run_sync(command, "accept", "box.put")
        wrong = await anyio.to_thread.run_sync(command, "accept", "box.put", "--digest", "1" * 32)
        told = shown.stdout.decode().splitlines()[-1].split("moonpool ")[1].split()
        done = await anyio.to_thread.run_sync(command, *told[1:])
        accepted = await call(app, "put", owner="me")
        nothing = await anyio.to_thread.run_sync(command, "drift")
    assert (paused[0], accepted[0]) == ("ToolPaused", None)
    assert "! parameter_added: 'owner' is a new required parameter" in shown.stdout.decode()
    assert (line["server"], line["tool"], line["paused"]) == ("box", "put", True)
    assert "--digest is missing" in unseen.sentence
    assert "not the digest of what is open" in wrong.sentence
    assert (done.exit_code, done.stdout) == (0, b"accepted box.put\n")
    assert (nothing.exit_code, nothing.stdout) == (0, b"")


async def test_report_lets_it_go_on_and_tells(tmp_path: Path) -> None:
    async with open_app(serve(tmp_path, tool("put")), drift="report") as app:
        await app.tool_registry.snapshot()
        serve(tmp_path, tool("put", "owner"))
        snapshot = await app.tool_registry.refresh()
        answer = await call(app, "put", owner="me")
    assert answer == [None, ""]
    assert [diff.tool_name for diff in snapshot.changes] == ["put"]


@pytest.mark.req("H-091")
async def test_a_change_that_nobody_tells_is_found_by_the_periodic_refresh(tmp_path: Path) -> None:
    servers = serve(tmp_path, tool("put"))
    async with open_app(servers, serving=True, refresh_s=0.05, pool_high=0, pool_low=0) as app:
        await app.tool_registry.snapshot()
        new = tool("put")
        new["inputSchema"]["properties"]["note"] = {"type": "string"}
        serve(tmp_path, new)
        await until(lambda: "note" in str(_tools(app)))
        envelope = await run(app, "import servers.box as b\nresult = (await b.put(note='x')).ok")
    assert envelope.data is True


@pytest.mark.req("H-091", "D-003")
async def test_a_change_that_the_server_tells_reaches_the_wrappers_at_once(tmp_path: Path) -> None:
    del tmp_path
    async with open_app({"echo": fixture_server("echo.py")}) as app:
        await app.tool_registry.snapshot()
        await run(app, "import servers.echo as e\nawait e.list_change(name='fresh_one')")
        await until(lambda: "fresh_one" in str(_tools(app)))
        envelope = await run(app, "import servers.echo as e\nresult = (await e.fresh_one()).ok")
    assert envelope.data is True


def _tools(app: Tenant) -> list[Any]:
    return [one.raw for one in app.tool_registry.current.manifest.tools()] if app.tool_registry.current else []
