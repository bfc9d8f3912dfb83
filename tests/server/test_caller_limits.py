"""Limits of callers over HTTP: refused before a sandbox opens, in the form of each face, until there is room again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.features.caller_limits.model import CallerLimits
from server.services import STREAMS, caller, execute, request, serving
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from server.services import OpenService

pytestmark = pytest.mark.anyio
BLOCKED = "import time\nprint('begun', flush=True)\ntime.sleep(600)"


def limited(name: str, **more: Any) -> Any:
    return caller(name, limits=CallerLimits.parse(**{"rate": None, "concurrency": None, "quota": None, **more}))


@pytest.fixture(scope="module")
async def service() -> AsyncGenerator[OpenService]:
    callers = {
        "slow": limited("slow", rate="2/h"),
        "two": limited("two", quota="2/day"),
        "narrow": limited("narrow", concurrency=1),
        "free": caller("free"),
    }
    async with serving(callers) as one:
        yield one


def auth(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


@pytest.mark.req("C-026", "F-024")
async def test_one_request_more_than_the_rate_is_429_on_every_path(service: OpenService) -> None:
    for _ in range(2):
        assert (await service.post(request("ping"), **auth("slow"))).status_code == 200
    rpc = await service.post(request("tools/list"), **auth("slow"))
    plain = await service.http.get("/v1/sessions", headers=auth("slow"))

    assert (rpc.status_code, plain.status_code) == (429, 429)
    assert 0 < int(rpc.headers["retry-after"]) <= 1800
    data = {"bound": "rate", "of": "caller", "limit": "2/h"}
    assert rpc.json()["error"]["data"].items() >= {**data, "reason": "limit_exceeded"}.items()
    assert plain.json()["error"]["data"].items() >= data.items()
    assert (await service.post(request("ping"), **auth("free"))).status_code == 200


@pytest.mark.req("C-026")
async def test_a_quota_counts_executions_of_both_faces_and_nothing_else(service: OpenService) -> None:
    for _ in range(3):
        assert (await service.post(request("tools/list"), **auth("two"))).status_code == 200
    assert (await service.post(execute("result = 1"), **auth("two"))).status_code == 200
    session = (await service.http.post("/v1/sessions", json={}, headers=auth("two"))).json()["id"]
    run = f"/v1/sessions/{session}/executions"
    code = {"id": "0" * 32, "language": "python", "code": "result = 2"}
    for _ in range(2):  # the second finds the first
        assert (await service.http.post(run, json=code, headers=auth("two"))).status_code == 200

    over = await service.post(execute("result = 3", id="mine"), **auth("two"))
    told = await service.http.post(run, json={**code, "id": "1" * 32}, headers=auth("two"))

    assert (over.status_code, over.json()["id"]) == (429, "mine")
    assert over.json()["error"]["data"]["bound"] == "quota"
    assert (told.status_code, told.json()["error"]["code"]) == (429, "limit_exceeded")
    assert told.json()["error"]["data"]["bound"] == "quota"
    assert int(told.headers["retry-after"]) == told.json()["error"]["data"]["retry_after_s"]
    pool = service.service.engine.pool.statistics()
    assert pool.refused == 0
    await service.http.delete(f"/v1/sessions/{session}", headers=auth("two"))


@pytest.mark.req("C-026")
async def test_executions_at_once_count_until_they_end_also_when_their_connection_breaks(service: OpenService) -> None:
    session = await service.session(**auth("narrow"))
    with anyio.fail_after(60):
        async with service.http.stream(
            "POST",
            "/mcp",
            json=execute(BLOCKED, id=7, meta={"progressToken": 1}),
            headers={**STREAMS, **{name.replace("_", "-"): value for name, value in session.items()}},
        ) as response:
            async for line in response.aiter_lines():
                if "begun" in line:
                    break
        refused = await service.post(execute("result = 1"), **auth("narrow"))
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"]["data"]["bound"] == "concurrency"
        assert (await service.post(request("tools/list"), **auth("narrow"))).status_code == 200
        figures = (await service.http.get("/metrics", headers=auth("free"))).text
        assert 'moonpool_requests_refused_total{bound="concurrency",of="caller"} 1.0' in figures
        assert "moonpool_executions_open 1.0" in figures
        await service.http.delete("/mcp", headers={name.replace("_", "-"): value for name, value in session.items()})
        await until(lambda: service.service.limiter.held == 0)
        answer = await service.post(execute("result = 1"), **auth("narrow"))
    assert json.loads(answer.json()["result"]["content"][0]["text"])["data"] == 1


async def test_what_goes_on_without_a_request_counts_and_is_waited_for_at_the_end(service: OpenService) -> None:
    with anyio.fail_after(60):
        left = await service.post(execute(BLOCKED, patience_s=0), **auth("narrow"))
        run = json.loads(left.json()["result"]["content"][0]["text"])["execution"]
        assert service.service.is_busy  # nobody waits for it, and a drain does
        refused = await service.post(execute("result = 1"), **auth("narrow"))
        assert (refused.status_code, refused.json()["error"]["data"]["bound"]) == (429, "concurrency")
        wait = {"name": "wait", "arguments": {"id": run, "cancel": True}}
        assert (await service.post(request("tools/call", wait), **auth("narrow"))).status_code == 200
        await until(lambda: not service.service.is_busy)
        assert (await service.post(execute("result = 1"), **auth("narrow"))).status_code == 200
