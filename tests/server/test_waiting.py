"""Clients that cannot ask their user: the call waits in the queue, and the repeated request waits for it."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from apps import DATA, fixture_server
from moonpool.features.approvals.model import Answerer
from moonpool.features.approvals.service import Approvals
from moonpool.features.approvals.table import ApprovalStore
from moonpool.store.paths import approvals_path
from moonpool.store.process_marks import is_gone
from server.raw_client import PATIENCE_S, RawClient

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from moonpool.features.approvals.model import ApprovalRequest

CALL = "import servers.echo as e\nr = await e.echo(word='hello')\nresult = r.data if r['ok'] else r['error']"
BOSS = Answerer(name="terminal:boss", person=True)


@pytest.fixture
def queue() -> Generator[Approvals]:
    store = ApprovalStore(approvals_path(DATA), is_gone=is_gone)
    yield Approvals(store, lambda _: None)
    store.close()


def waiting(queue: Approvals) -> ApprovalRequest:
    end = time.monotonic() + PATIENCE_S
    while not (found := queue.requests()):
        assert time.monotonic() < end, "nothing waits"
        threading.Event().wait(0.05)
    return found[0].request


def run(client: RawClient) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the client and the model read."""
    result = client.tool("execute_code", code=CALL, session="s")
    return result, json.loads(result["content"][0]["text"])


def until_over(client: RawClient) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same, when nobody is waited for any more."""
    end = time.monotonic() + PATIENCE_S
    while (found := run(client))[1].get("error", {}).get("type") == "approval_pending":
        assert time.monotonic() < end, "nobody takes the answer"
    return found


@pytest.mark.req("X-06", "A-043", "P-036", "A-051")
@pytest.mark.parametrize(
    ("version", "capabilities"),
    [
        pytest.param("2025-11-25", {"elicitation": {"url": {}}}, id="addresses only"),
        pytest.param("2025-03-26", {"elicitation": {}}, id="a revision without elicitation", marks=pytest.mark.slow),
    ],
)
def test_a_client_that_cannot_ask_is_told_what_waits_and_its_repeated_request_goes_on(
    tmp_path: Path, queue: Approvals, version: str, capabilities: dict[str, Any]
) -> None:
    config, told = tmp_path / "servers.json", tmp_path / "told"
    unset = {"command": "x", "env": {"K": "${SURELY_NOT_SET}"}}
    servers = {"echo": fixture_server("echo.py", allow=[]), "unset": unset}
    config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    program = "import json, os, sys; open(sys.argv[1], 'a').write(json.dumps([sys.argv[2:], 'MY_TOKEN' in os.environ]))"
    words = {"MOONPOOL_APPROVAL_COMMAND": f'"{sys.executable}" -c "{program}" "{told}"', "MY_TOKEN": "t-4711-secret"}
    with RawClient(config, approve="ask", MOONPOOL_APPROVAL_WAIT_S="0.1", **words) as client:
        client.handshake(version, **capabilities)
        found = client.tool("search_tools", queries=["echo"])["content"][0]["text"]
        left_out = [
            client.tool("get_tool_definition", paths=["servers.unset.x"])["content"][0]["text"],
            client.tool("search_tools", queries=["x"], server="unset")["content"][0]["text"],
        ]
        first, error = run(client)
        request = waiting(queue)
        behind = client.tool("execute_code", code="result = 1", session="s")["content"][0]["text"]
        asked = len(queue.requests(waiting_only=False))
        queue.approve(request.request_id, BOSS)
        _, outcome = until_over(client)
        asked_then = len(queue.requests(waiting_only=False))
        client.start(CALL)  # it has been delivered, so this is a run of its own
        new = waiting(queue)
        client.process.terminate()

    assert "Not available now: unset" in found
    assert all("'unset' is left out: \"env.K\" uses ${SURELY_NOT_SET}" in one for one in left_out), left_out
    error = error["error"]
    assert (first["isError"], error["type"], error["retryable"]) == (True, "approval_pending", True)
    assert f"echo.echo (request {request.request_id[:8]})" in error["message"]
    assert "approval_pending" in behind  # it waits for its turn, and would hold back its answer as long
    assert "hello" not in error["message"]  # a model has the arguments, a log need not
    assert "moonpool allow" not in json.dumps(first)
    assert not re.search(r"approvals (approve|deny)|REQUEST", json.dumps(first))  # no command that answers
    assert outcome == {"ok": True, "data": {"word": "hello"}}
    assert asked_then == asked  # the code ran once
    assert new.request_id != request.request_id
    announced = [[request.request_id, "Moonpool: echo.echo waits for approval"], False]
    assert told.read_text(encoding="utf-8").startswith(json.dumps(announced))
