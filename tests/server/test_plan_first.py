"""Plan first over MCP: a dry run gives a plan, the client's user approves it, and a model can only name it."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from apps import DATA, fixture_server
from moonpool.engine.outcomes import OutcomeStore
from moonpool.features.approvals.model import Answerer
from moonpool.features.approvals.service import Approvals
from moonpool.features.approvals.table import ApprovalStore
from moonpool.features.plans.model import PlanState
from moonpool.features.plans.service import Plans
from moonpool.features.plans.table import PlanStore
from moonpool.store.paths import approvals_path, outcomes_dir, plans_path
from moonpool.store.process_marks import is_gone
from server.raw_client import PATIENCE_S, RawClient
from waiting import wait_until

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


@pytest.mark.parametrize(
    "way", ["queue", pytest.param("plans", marks=pytest.mark.slow), pytest.param("left", marks=pytest.mark.slow)]
)
def test_a_plan_of_a_client_that_cannot_ask_waits_in_the_queue_as_a_call_does(tmp_path: Path, way: str) -> None:
    config, boss = tmp_path / "servers.json", Answerer(name="terminal:boss", person=True)
    config.write_text(json.dumps({"mcpServers": {"echo": fixture_server("echo.py", allow=[])}}), encoding="utf-8")
    store = ApprovalStore(approvals_path(DATA), is_gone=is_gone)
    queue = Approvals(store, lambda _: None)
    plans = Plans(PlanStore(plans_path(DATA)), lambda _: None, expiry_s=600.0)
    with closing(store), RawClient(config, approve="ask", MOONPOOL_APPROVAL_WAIT_S="0.1", EOF_GRACE_S="0.5") as client:
        client.handshake()
        _, rehearsed = run(client, None, dry_run=True)
        plan_id = rehearsed["plan"]["plan_id"]
        _, done = run(client, None, plan=plan_id)
        assert done["error"]["type"] == "approval_pending"
        assert "until a person approves the plan (request" in done["error"]["message"]
        (waiting,) = queue.requests()
        assert (waiting.request.is_plan, plan_id in waiting.request.reason) == (True, True)
        if way == "left":
            assert client.process.stdin is not None
            client.process.stdin.close()
            wait_until(lambda: "the client has left" in client.said(), within_s=PATIENCE_S)
        if way == "plans":
            plans.approve(plan_id, boss)
        else:
            queue.approve(waiting.request_id, boss)
        if way == "left":
            assert client.process.wait(PATIENCE_S) == 0
            kept = OutcomeStore(outcomes_dir(DATA)).find(waiting.request.run_id)
            done = (kept or {})["result"]
        while done.get("error", {}).get("type") == "approval_pending":
            _, done = run(client, None, plan=plan_id)
        assert (done["ok"], done["data"], queue.requests()) == (True, True, [])
    assert plans.find(plan_id).state is PlanState.USED
