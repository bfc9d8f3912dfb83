"""Where as many organisations are open as may be, one that nobody uses makes room, and no other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.bootstrap import organisations as module
from server.services import caller, execute, serving
from server.test_http_long_runs import gated, told
from server.test_replicas import CONFIG

if TYPE_CHECKING:
    from pathlib import Path

    from server.services import OpenService

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="without root there is one uid, which serves one organisation"),
]


async def run(service: OpenService, name: str, code: str = "result = 1", **more: object) -> str:
    answer = await service.post(execute(code, **more), authorization=f"Bearer {name}")
    return str(told(answer.json())) if answer.status_code == 200 else f"{answer.status_code} {answer.text}"


async def test_the_idle_one_makes_room_and_opens_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TENANTS_MAX", 2)
    monkeypatch.setattr(module, "ORGANISATION_IDLE_S", 0.0)
    callers = {name: caller(name, name) for name in ("busy", "one", "two")}
    with anyio.fail_after(120):
        async with serving(callers, config=CONFIG, state=tmp_path / "state") as service:
            of_busy = {"authorization": "Bearer busy"}
            session = (await service.http.post("/v1/sessions", json={}, headers=of_busy)).json()["id"]
            for name in ("one", "two", "one"):
                assert "'data': 1" in await run(service, name)
            assert set(service.service.engine.tool_registries) == {"busy", "one"}
            assert (await service.http.get(f"/v1/sessions/{session}", headers=of_busy)).status_code == 200

            begun = await run(service, "one", gated(tmp_path / "go"), patience_s=0)
            assert "running" in begun
            assert "2 organisations" in await run(service, "two")
            (tmp_path / "go").touch()
            assert (await service.http.delete(f"/v1/sessions/{session}", headers=of_busy)).status_code == 204
            assert "'data': 1" in await run(service, "two")
            assert set(service.service.engine.tool_registries) == {"one", "two"}
