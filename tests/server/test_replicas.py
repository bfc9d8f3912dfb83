"""Two replicas of the service on one PostgreSQL: one journal, executions of either reached at both, a replica that dies."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.to_thread import run_sync

from apps import fixture_server
from moonpool.configuration.servers import parse_config
from server.services import caller, execute, serving
from server.test_http_long_runs import gated, told, wait
from store.journals import reader_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from server.services import OpenService

pytestmark = pytest.mark.anyio
SERVERS = {"mcpServers": {"echo": fixture_server("echo.py")}}
CONFIG = parse_config(json.dumps(SERVERS).encode(), source="test", environ=os.environ)
CALLERS = {"a": caller("a"), "b": caller("b")}


@asynccontextmanager
async def replicas(database: str, folder: Path, count: int = 2, **settings: Any) -> AsyncGenerator[list[OpenService]]:
    """Each with a folder of its own, as on machines of their own."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                serving(CALLERS, config=CONFIG, state=folder / str(one), database_url=database, **settings)
            )
            for one in range(count)
        ]


async def run(service: OpenService, code: str, **more: Any) -> Any:
    return told((await service.post(execute(code, **more), authorization="Bearer a")).json())


@pytest.mark.req("H-058")
async def test_executions_of_both_are_on_one_chain_and_reached_at_either(database: str, tmp_path: Path) -> None:
    with anyio.fail_after(200):
        async with replicas(database, tmp_path) as (one, other):
            answers = await asyncio.gather(*(run(each, f"result = {n}") for n in range(4) for each in (one, other)))
            begun = [(await run(one, gated(tmp_path / name), patience_s=0))["execution"] for name in ("go", "never")]
            waiting = asyncio.ensure_future(wait(other, begun[0]))
            foreign = await wait(other, begun[0], who="b", cancel=True)
            still = await wait(other, begun[0], patience_s=0)
            cancelled = await wait(other, begun[1], cancel=True)
            (tmp_path / "go").touch()
            outcome = await waiting
            after = [await wait(each, begun[1]) for each in (one, other)]
        reader = reader_of(database)
        assert (await run_sync(reader.verify)).ok
        kinds = Counter(row.kind for row in await run_sync(lambda: list(reader.rows())))

    assert sorted(answer["data"] for answer in answers) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert outcome == {"ok": True, "data": 42, "stdout": "begun\n"}
    assert still["state"] == "running"
    assert "execution_unknown" in json.dumps(foreign)
    assert cancelled["state"] == "cancelled"
    assert [("execution_cancelled" in json.dumps(one), "execution_unknown" in json.dumps(one)) for one in after] == [
        (True, False),
        (False, True),
    ]
    assert kinds["execution_start"] == kinds["execution_end"] == 10
    assert list(tmp_path.glob("**/audit.sqlite3")) == []
