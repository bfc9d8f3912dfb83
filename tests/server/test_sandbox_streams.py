"""Executions as streams and by id: lines, readers that come again, cancelling, records, and what others see of them."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.bootstrap import sandbox_runs
from moonpool.engine.sandbox_runs import running, runs
from moonpool.features.execution_records.model import new_trace_id
from server.sandbox_services import (
    NDJSON,
    as_caller,
    begin,
    cancel,
    ended,
    execute,
    get,
    lines_of,
    sandbox_serving,
    streaming,
)
from waiting import until_true

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from server.services import OpenService
    from service_stores import Stores

pytestmark = pytest.mark.anyio
FOREVER = "import time\nprint('begun', flush=True)\ntime.sleep(600)"


@pytest.fixture(scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory, stores: Stores) -> AsyncGenerator[OpenService]:
    async with sandbox_serving(tmp_path_factory.mktemp("service"), stores=stores) as one:
        yield one


async def output(service: OpenService, trace_id: str, after: int = 0, *, who: str = "a") -> list[dict[str, Any]]:
    path = f"/v1/executions/{trace_id}/output?after_seq={after}"
    async with service.http.stream("GET", path, headers=as_caller(who)) as response:
        assert response.status_code == 200
        return [line async for line in lines_of(response)]


@pytest.mark.req("J-043")
async def test_a_stream_has_status_output_and_result(service: OpenService) -> None:
    code = "import sys\nprint('é\\u2028x', flush=True)\nsys.stderr.write('no')\nsys.exit(2)"
    async with streaming(service, code) as (response, lines):
        heard = [line async for line in lines]

    trace_id = response.headers["x-trace-id"]
    texts = {name: "".join(one["data"] for one in heard if one.get("stream") == name) for name in ("stdout", "stderr")}
    assert response.headers["content-type"] == NDJSON
    assert heard[0] == {"type": "status", "trace_id": trace_id, "status": "running", "seq": 1}
    assert [line["seq"] for line in heard] == list(range(1, len(heard) + 1))
    assert texts == {"stdout": "é\u2028x\n", "stderr": "no"}
    assert heard[-1] == {
        "type": "result",
        "trace_id": trace_id,
        "status": "failed",
        "result": {"success": False, "stdout": "é\u2028x\n", "stderr": "no", "exit_code": 2, "error": None},
        "output_truncated": False,
        "seq": len(heard),
    }


async def test_a_reader_that_was_cut_off_goes_on_behind_what_it_has(service: OpenService) -> None:
    with anyio.fail_after(60):
        async with streaming(service, FOREVER) as (response, lines):
            trace_id = response.headers["x-trace-id"]
            while (await anext(lines))["type"] != "output":
                pass
        assert (await get(service, f"/{trace_id}")).json()["status"] == "running"
        assert (await get(service, f"/{trace_id}")).json()["stdout"] is None
        assert (await cancel(service, trace_id)).json() == {"trace_id": trace_id, "status": "cancelling"}
        rest, again, whole = [await output(service, trace_id, after) for after in (2, 2, 0)]
        over = await cancel(service, trace_id)
    record = (await get(service, f"/{trace_id}")).json()

    assert rest == again
    assert (rest[-1]["type"], rest[-1]["status"]) == ("result", "cancelled")
    assert rest[-1]["result"]["error"] == "cancelled"
    assert whole[2:] == rest
    assert (record["status"], record["stdout"], record["delivery_mode"]) == ("cancelled", "begun\n", "streaming")
    assert (over.status_code, over.json()["error"]) == (409, "conflict")


async def test_lines_are_made_from_the_record_when_they_are_remembered_no_more(
    service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "REMEMBERED_MAX", 0)
    inline = (await execute(service, "print('a')")).headers["x-trace-id"]
    later = await begin(service, "for n in range(3): print(n, flush=True)")
    await ended(service, later)

    of_inline, whole, status_read, rest = [
        await output(service, inline), *[await output(service, later, after) for after in (0, 1, 2)]
    ]  # fmt: skip
    nothing = await output(service, later, whole[-1]["seq"])

    assert [line["type"] for line in of_inline] == ["status", "output", "result"]
    assert [line["type"] for line in whole] == ["status", "output", "result"]
    assert whole[1]["data"] == whole[2]["result"]["stdout"] == "0\n1\n2\n"
    assert whole[1:] == status_read
    assert rest == whole[-1:]
    assert nothing == []
    seqs = [line["seq"] for line in whole]
    assert all(one < other for one, other in itertools.pairwise(seqs))


async def test_silence_is_told(service: OpenService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "KEEPALIVE_S", 0.05)
    with anyio.fail_after(60):
        async with streaming(service, FOREVER) as (response, lines):
            heard = [await anext(lines) for _ in range(5)]
        await cancel(service, response.headers["x-trace-id"])
        await ended(service, response.headers["x-trace-id"])

    assert "keepalive" in {line["type"] for line in heard}
    assert [line["seq"] for line in heard] == [1, 2, 3, 4, 5]


@pytest.mark.req("J-046")
async def test_an_asynchronous_execution_answers_at_once_and_goes_on(service: OpenService) -> None:
    headers = as_caller("a", prefer="wait=1, respond-async")
    answer = await service.http.post("/v1/sandbox/execute", json={"code": "print(1)"}, headers=headers)
    record = await ended(service, answer.json()["trace_id"])

    assert answer.status_code == 202
    assert answer.headers["preference-applied"] == "respond-async"
    assert answer.json() == {"trace_id": answer.headers["x-trace-id"], "status": "running"}
    assert (record["status"], record["stdout"], record["delivery_mode"]) == ("success", "1\n", "webhook")
    assert record["created_at"] <= record["completed_at"]
    assert "webhook_url" not in record


@pytest.mark.req("J-023")
async def test_another_callers_execution_is_as_unknown_as_none(service: OpenService) -> None:
    with anyio.fail_after(60):
        runs_still = await begin(service, FOREVER)
        over = (await execute(service, "print(1)")).headers["x-trace-id"]
        told = {
            name: [
                (answer.status_code, answer.text.replace(trace_id, "ID"))
                for answer in (
                    await get(service, f"/{trace_id}", who="b"),
                    await get(service, f"/{trace_id}/output", who="b"),
                    await cancel(service, trace_id, who="b"),
                )
            ]
            for name, trace_id in {"runs": runs_still, "over": over, "none": new_trace_id()}.items()
        }
        broken = [await get(service, f"/{word}") for word in ("trc_", "x", "trc_%20", "trc_" + "a" * 21)]
        seen = await get(service, f"/{runs_still}", who="admin")
        of_others = [(await get(service, "", who=who)).json()["executions"] for who in ("b", "admin")]
        assert (await cancel(service, runs_still, who="admin")).status_code == 200
        await ended(service, runs_still)

    assert told["runs"] == told["over"] == told["none"]
    assert {status for status, _ in told["none"]} == {404}
    assert all(json.loads(text)["error"] == "not_found" for _, text in told["none"])
    assert [(one.status_code, one.json()["error"]) for one in broken] == [(404, "not_found")] * 4
    assert seen.json()["status"] == "running"
    assert over not in {one["trace_id"] for one in of_others[0]}
    assert {over, runs_still} <= {one["trace_id"] for one in of_others[1]}


async def test_the_list_is_in_pages_and_filtered(tmp_path: Path) -> None:
    async with sandbox_serving(tmp_path) as service:
        made = [
            (await execute(service, f"import sys\nsys.exit({n % 2})", metadata={"n": str(n), "odd": bool(n % 2)}))
            .headers["x-trace-id"] for n in range(5)
        ]  # fmt: skip
        pages: list[list[str]] = []
        query = "?limit=2"
        while query:
            page = (await get(service, query)).json()
            pages.append([one["trace_id"] for one in page["executions"]])
            query = page["next_cursor"] and f"?limit=2&cursor={page['next_cursor']}"
        cursor = (await get(service, "?limit=2")).json()["next_cursor"]
        found = {
            query: [one["trace_id"] for one in (await get(service, query)).json()["executions"]]
            for query in ("?status=failed", "?metadata.n=3", "?metadata.odd=true&status=failed", "?metadata.n=9",
                          "?since=2000-01-01T00:00:00Z", "?since=4102444800", "?thread_id=x")
        }  # fmt: skip
        wrong = [
            await get(service, query)
            for query in (f"?cursor={cursor}&status=failed", "?cursor=zzz", "?limit=0", "?limit=101", "?limit=x",
                          "?status=done", "?since=soon", "?x=1", "?limit=1&limit=2")
        ]  # fmt: skip
        foreign = await get(service, f"?limit=2&cursor={cursor}", who="b")
        shown = (await get(service, "?limit=1")).json()["executions"][0]

    newest_first = made[::-1]
    assert pages == [newest_first[:2], newest_first[2:4], newest_first[4:]]
    assert found == {
        "?status=failed": [made[3], made[1]],
        "?metadata.n=3": [made[3]],
        "?metadata.odd=true&status=failed": [made[3], made[1]],
        "?metadata.n=9": [],
        "?since=2000-01-01T00:00:00Z": newest_first,
        "?since=4102444800": [],
        "?thread_id=x": [],
    }
    assert [(one.status_code, one.json()["error"]) for one in (*wrong, foreign)] == [(400, "validation_error")] * 10
    assert "stdout" not in shown


@pytest.mark.slow
@pytest.mark.req("J-046")
async def test_what_ran_when_the_service_ended_is_on_record_and_never_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sandbox_serving(tmp_path) as service:
        in_order = await begin(service, FOREVER)
    async with sandbox_serving(tmp_path) as service:
        ended_in_order = (await get(service, f"/{in_order}")).json()
        dies = await begin(service, FOREVER)

        async def no_record(*_: object) -> bool:  # as of a process that is killed
            return True

        monkeypatch.setattr(service.service.sandbox_runs.records, "end", no_record)
    async with sandbox_serving(tmp_path) as service:
        lost = (await get(service, f"/{dies}")).json()
        lines = await output(service, dies)
        refused = await cancel(service, dies)
        assert not (await service.service.organisations.tenant("default")).runtime.is_executing

    assert (ended_in_order["status"], ended_in_order["error"]) == ("cancelled", "cancelled")
    assert (lost["status"], lost["error"], lost["exit_code"], lost["stdout"]) == ("failed", "lost", -1, "")
    assert [line["type"] for line in lines] == ["status", "result"]
    assert refused.status_code == 409


async def test_what_a_replica_lost_is_found_while_the_service_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_runs, "LOOK_S", 0.05)
    async with sandbox_serving(tmp_path) as service:
        records = service.service.sandbox_runs.records
        monkeypatch.setattr(records, "process", f"dead@{'0' * 36}/1/1/1")
        trace_id = await begin(service, FOREVER)
        monkeypatch.undo()

        async def is_lost() -> bool:
            return (await get(service, f"/{trace_id}")).json()["error"] == "lost"

        await until_true(is_lost)
