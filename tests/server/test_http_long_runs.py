"""Executions over HTTP outlive the requests, sessions and connections that began them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from apps import fixture_server
from moonpool.configuration.servers import parse_config
from server.services import MODERN_META, STREAMS, caller, execute, modern_headers, request, serving

if TYPE_CHECKING:
    from pathlib import Path

    from server.services import OpenService

pytestmark = pytest.mark.anyio
SERVERS = {"mcpServers": {"echo": fixture_server("echo.py")}}
CONFIG = parse_config(json.dumps(SERVERS).encode(), source="test", environ=os.environ)


def gated(path: Path) -> str:
    return f"import servers.echo as e\nprint('begun', flush=True)\nawait e.await_file(path={str(path)!r})\nresult = 42"


async def wait(service: OpenService, execution: str, *, who: str = "a", **arguments: Any) -> Any:
    """A request without a session, on whatever connection there is."""
    message = request("tools/call", {"name": "wait", "arguments": {"id": execution, **arguments}})
    answer = await service.post(message, authorization=f"Bearer {who}")
    return told(answer.json())


def told(answer: Any) -> Any:
    """What a model reads; a request without a session is one of 2025-03-26, which has no structured content."""
    return json.loads(answer["result"]["content"][0]["text"])


@pytest.mark.skipif(os.geteuid() != 0, reason="without root there is one uid, which serves one organisation")
async def test_an_execution_outlives_its_session_and_is_unknown_to_everybody_else(tmp_path: Path) -> None:
    callers = {
        "a": caller("a"),
        "same": caller("a", is_person=True),  # other rights, the same principal
        "b": caller("b"),
        "c": caller("a", organisation="another"),
    }
    async with serving(callers, config=CONFIG, state=tmp_path / "state") as service:
        session = await service.session(authorization="Bearer a")
        begun = await service.post(execute(gated(tmp_path / "go"), patience_s=0), **STREAMS, **session)
        execution = told(_answers(begun.text)[-1])["execution"]
        await service.http.delete("/mcp", headers={name.replace("_", "-"): one for name, one in session.items()})
        with anyio.fail_after(60):
            while "begun" not in (await wait(service, execution, patience_s=0.05, offset=0)).get("output", ""):
                pass
        unknown = f"run_{'0' * 32}"
        foreign = [
            json.dumps(await wait(service, one, who=who, cancel=True)).replace(one, "ID")
            for who in ("b", "c")
            for one in (execution, unknown)
        ]
        (tmp_path / "go").touch()
        with anyio.fail_after(60):
            outcome = await wait(service, execution)
            again = await wait(service, execution, who="same")

    assert len(set(foreign)) == 1
    assert "execution_unknown" in foreign[0]
    assert outcome == again == {"ok": True, "data": 42, "stdout": "begun\n"}


def _answers(text: str) -> list[Any]:
    """The messages of a body that is JSON or a stream."""
    if text.startswith("{"):
        return [json.loads(text)]
    lines = (line.removeprefix("data: ") for line in text.splitlines())
    return [json.loads(line) for line in lines if line.startswith("{")]


async def test_a_connection_that_breaks_while_it_waits_ends_nothing_that_has_been_given_out(tmp_path: Path) -> None:
    """Also in 2026-07-28, where a broken connection cancels its request."""
    async with serving({"a": caller("a")}, config=CONFIG, state=tmp_path / "state") as service:
        bearer = {"authorization": "Bearer a"}
        begun = await service.post(execute(gated(tmp_path / "go"), patience_s=0), **bearer)
        execution = told(begun.json())["execution"]
        params = {"name": "wait", "arguments": {"id": execution}, "_meta": {**MODERN_META, "progressToken": 1}}
        message = request("tools/call", params)
        headers = {**modern_headers("tools/call", "wait"), **bearer}
        with anyio.fail_after(60):
            async with service.http.stream("POST", "/mcp", json=message, headers=headers) as response:
                assert response.status_code == 200
        (tmp_path / "go").touch()
        with anyio.fail_after(60):
            outcome = await wait(service, execution)

    assert outcome["data"] == 42
