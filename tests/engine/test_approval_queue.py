"""The queue of approvals is out of a sandbox's reach, whatever isolates it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from apps import DATA, fixture_server, open_app, run
from moonpool.features.approvals.model import Answerer
from moonpool.features.approvals.queue_approver import QueueApprover
from moonpool.features.approvals.service import Approvals
from moonpool.features.approvals.table import ApprovalStore
from moonpool.store.paths import approvals_path
from moonpool.store.process_marks import is_gone, own_mark

if TYPE_CHECKING:
    from pathlib import Path

CODE = """
import asyncio, os, subprocess
import servers.gate as gate, servers.srv as srv
def attempt(path):
    try:
        open(path, "r+b").read()
    except OSError as error:
        return type(error).__name__
    return "opened"
def command():
    try:
        return subprocess.run(["moonpool", "approvals", "list"], capture_output=True).returncode
    except OSError as error:
        return 127
call = asyncio.ensure_future(srv.echo(text="x"))
await gate.wait(path={asked!r})  # the question is open now
names = {{name for _, folders, files in os.walk("/") for name in (*folders, *files)}}
seen = [attempt(path) for path in {paths!r}] + sorted(name for name in names if name.startswith("approvals.sqlite3"))
tried = command()
print("looked around", flush=True)
waited = not call.done()
answer = await call
result = [seen, tried != 0, waited, answer.ok]
"""


@pytest.mark.anyio
@pytest.mark.req("F-016", "P-018")
@pytest.mark.parametrize("backend", ["zygote", pytest.param("bubblewrap", marks=pytest.mark.slow)])
async def test_code_that_waits_for_an_approval_cannot_find_or_answer_it(backend: str, tmp_path: Path) -> None:
    path = approvals_path(DATA)
    paths = [str(path), f"{path}-wal", f"/proc/1/root{path}"]
    store = ApprovalStore(path, is_gone=is_gone)
    asked, looked = tmp_path / "asked", asyncio.Event()

    async def answer() -> None:
        with anyio.fail_after(60):
            while not (waiting := await anyio.to_thread.run_sync(partial(store.requests, waiting_only=True))):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        await anyio.to_thread.run_sync(asked.touch)
        await looked.wait()
        say_yes = partial(
            Approvals(store, list[object]().append).approve, waiting[0].request_id, Answerer(name="test", person=True)
        )
        await anyio.to_thread.run_sync(say_yes)

    mark = await anyio.to_thread.run_sync(own_mark)
    async with QueueApprover(store, owner=mark, report=lambda _: None) as approver:
        answering = asyncio.ensure_future(answer())
        servers = {"srv": fixture_server("echo.py", ask=["*"]), "gate": fixture_server("gate.py")}
        async with open_app(servers, backend=backend, approver=approver) as app:
            envelope = await run(app, CODE.format(paths=paths, asked=str(asked)), observer=lambda *_: looked.set())
        await answering
    await anyio.to_thread.run_sync(store.close)
    assert envelope.data == [["FileNotFoundError"] * 3, True, True, True], envelope.error
