"""Executions by one call at two replicas on one PostgreSQL database."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.bootstrap import sandbox_runs
from server.sandbox_services import as_caller, begin, cancel, ended, execute, get, lines_of, sandbox_serving
from waiting import until_true

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
FOREVER = "import time\nprint('begun', flush=True)\ntime.sleep(600)"


@pytest.mark.req("J-003", "J-046")
async def test_an_execution_is_read_followed_and_cancelled_at_either(database: str, tmp_path: Path) -> None:
    with anyio.fail_after(200):
        async with AsyncExitStack() as stack:
            one, other = [
                await stack.enter_async_context(sandbox_serving(tmp_path / name, database_url=database))
                for name in ("one", "other")
            ]
            quick = (await execute(one, "print(1)")).headers["x-trace-id"]
            seen = (await get(other, f"/{quick}")).json()
            runs = await begin(one, FOREVER)
            still = (await get(other, f"/{runs}")).json()
            foreign = await cancel(other, runs, who="b")
            path = f"/v1/executions/{runs}/output"
            async with other.http.stream("GET", path, headers=as_caller("a")) as response:
                lines = lines_of(response)
                first = await anext(lines)
                asked = await cancel(other, runs)
                rest = [line async for line in lines]
            record = await ended(one, runs)
            over = await cancel(other, runs)

    assert (seen["status"], seen["stdout"]) == ("success", "1\n")
    assert still["status"] == "running"
    assert foreign.status_code == 404
    assert first == {"type": "status", "trace_id": runs, "status": "running", "seq": 1}
    assert asked.json() == {"trace_id": runs, "status": "cancelling"}
    assert [line.get("stream") for line in rest if line["type"] != "keepalive"] == ["stdout", "stderr", None]
    assert (rest[-1]["status"], record["status"], record["stdout"]) == ("cancelled", "cancelled", "begun\n")
    assert over.status_code == 409


async def test_what_a_dead_replica_ran_is_lost(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_runs, "LOOK_S", 0.1)
    with anyio.fail_after(200):
        async with sandbox_serving(tmp_path / "one", database_url=database) as service:
            records = service.service.sandbox_runs.records
            own = records.process
            monkeypatch.setattr(records, "process", "replica/dead")
            trace_id = await begin(service, FOREVER)
            monkeypatch.setattr(records, "process", own)

            async def is_lost() -> bool:
                return (await get(service, f"/{trace_id}")).json()["error"] == "lost"

            await until_true(is_lost)
            alive = await begin(service, "print(1)")
            assert (await ended(service, alive))["status"] == "success"
