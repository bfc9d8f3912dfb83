"""Plan first over MCP: a dry run gives a plan, the client's user approves it, and a model can only name it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from apps import fixture_server
from server.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

CODE = "import servers.echo as e\nresult = (await e.echo(word='hello')).ok"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Generator[RawClient]:
    path: Path = tmp_path_factory.mktemp("plans") / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"echo": fixture_server("echo.py", allow=[])}}), encoding="utf-8")
    with RawClient(path, approve="ask") as asked:
        asked.handshake("2025-06-18", elicitation={})
        yield asked


def run(
    client: RawClient, answer: dict[str, Any] | None, *, code: str = CODE, **arguments: Any
) -> tuple[str, dict[str, Any]]:
    """Run the code; answer the one question, if one is expected. Returns the question and what came of it."""
    request_id = client.start(code, **arguments)
    question = client.receive() if answer is not None else None
    if question is not None:
        assert question["method"] == "elicitation/create"
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
    result = client.answer(request_id)["result"]["structuredContent"]
    return (question["params"]["message"] if question is not None else ""), result


def test_a_dry_run_asks_nobody_and_its_plan_is_approved_once_by_the_user(client: RawClient) -> None:
    _, rehearsed = run(client, None, dry_run=True)
    plan_id = rehearsed["plan"]["plan_id"]
    message, real = run(client, {"action": "accept", "content": {"allow": True}}, plan=plan_id)
    _, again = run(client, None, plan=plan_id)
    assert [one["call"] for one in rehearsed["plan"]["effects"]] == ["echo.echo"]
    assert "placeholders" in rehearsed["plan"]["warning"]
    assert '1. echo.echo {"word":"hello"}' in message
    assert real == {"ok": True, "data": True}
    assert again["error"]["type"] == "plan_unusable"


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        pytest.param({"action": "accept", "content": {"allow": False}}, "was denied", id="not allowed"),
        pytest.param({"action": "decline"}, "was denied", id="declined"),
        pytest.param({"action": "cancel"}, "is not approved", id="dismissed"),
    ],
)
def test_a_plan_that_the_user_does_not_approve_runs_nothing(client: RawClient, answer: Any, state: str) -> None:
    _, rehearsed = run(client, None, dry_run=True)
    _, refused = run(client, answer, plan=rehearsed["plan"]["plan_id"])
    assert (refused["ok"], refused["error"]["type"]) == (False, "plan_unusable")
    assert state in refused["error"]["message"]


def test_a_session_is_rehearsed_in_and_run_in_with_what_it_remembers(client: RawClient) -> None:
    code = "import servers.echo as e\ntold = (await e.echo(word=word)).ok\nresult = [word, told]"
    client.execute("word = 'kept'", session="s")
    _, rehearsed = run(client, None, code=code, session="s", dry_run=True)
    plan: Any = rehearsed["plan"]
    yes = {"action": "accept", "content": {"allow": True}}
    message, real = run(client, yes, code=code, session="s", plan=plan["plan_id"])
    still = client.execute("result = told", session="s")
    assert [one["arguments"] for one in plan["effects"]] == ['{"word":"kept"}']
    assert '1. echo.echo {"word":"kept"}' in message
    assert (real["data"], still["data"]) == (["kept", True], True)


@pytest.mark.parametrize("more", [{"approved": True}, {"plan": {"approved": True}}, {"dry_run": "no"}])
def test_a_request_cannot_carry_an_approval(client: RawClient, more: dict[str, Any]) -> None:
    _, refused = run(client, None, **more)
    assert refused["error"]["type"] == "input_invalid"
