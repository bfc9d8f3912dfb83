"""Questions to the client's user: only an explicit yes to the right question lets a call through."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from apps import fixture_server
from server.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

CALL = "import servers.echo as e\nr = await e.echo(word='hello')\nresult = r.data if r['ok'] else r['error']"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elicitation") / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"echo": fixture_server("echo.py", allow=[])}}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def client(config: Path) -> Generator[RawClient]:
    with RawClient(config, approve="ask") as asked:
        asked.handshake("2025-06-18", elicitation={})
        yield asked


def ask(client: RawClient, answer: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run code that calls a tool; answer the question. Returns the question and the execution's answer."""
    request_id = client.start(CALL)
    question = client.receive()
    assert question["method"] == "elicitation/create"
    client.send({"jsonrpc": "2.0", "id": question["id"], **answer})
    return question["params"], client.answer(request_id)["result"]


@pytest.mark.req("X-06", "D-005", "C-073", "C-074")
def test_a_yes_lets_the_call_through(client: RawClient) -> None:
    question, result = ask(client, {"result": {"action": "accept", "content": {"allow": True}}})

    assert all(word in question["message"] for word in ("echo.echo", '"word"', "hello"))
    assert "\nTo allow it without a question: moonpool allow echo.echo --config /" in question["message"]
    assert question["requestedSchema"]["required"] == ["allow"]
    assert result["structuredContent"]["data"] == {"word": "hello"}
    assert result["_meta"]["moonpool/envelope"]["approval_state"] == "APPROVED"


@pytest.mark.req("X-06", "C-074", "C-075")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"result": {"action": "accept", "content": {"allow": False}}}, id="not allowed"),
        pytest.param({"result": {"action": "accept", "content": {"allow": "true"}}}, id="a word"),
        pytest.param({"result": {"action": "accept", "content": {}}}, id="nothing filled in"),
        pytest.param({"result": {"action": "accept"}}, id="no content"),
        pytest.param({"result": {"action": "decline"}}, id="declined"),
        pytest.param({"result": {"action": "cancel"}}, id="dismissed"),
        pytest.param({"result": {"action": "yes"}}, id="unknown action"),
        pytest.param({"result": {}}, id="empty"),
        pytest.param({"error": {"code": -32601, "message": "no"}}, id="error"),
    ],
)
def test_anything_else_is_a_no(client: RawClient, answer: dict[str, Any]) -> None:
    _, result = ask(client, answer)

    assert result["structuredContent"]["data"]["type"] == "ApprovalRejected"
    assert result["_meta"]["moonpool/envelope"]["approval_state"] == "REJECTED"


@pytest.mark.req("A-057", "A-071")
def test_cancelling_the_call_takes_the_question_back(client: RawClient) -> None:
    request_id = client.start(CALL)
    question = client.receive()

    client.notify("notifications/cancelled", {"requestId": request_id})
    taken_back = client.receive()

    assert (taken_back["method"], taken_back["params"]["requestId"]) == ("notifications/cancelled", question["id"])
    assert client.execute("result = 1")["data"] == 1
