"""Questions to clients of 2026-07-28: the call is answered by what it asks, and repeated with the answers."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from apps import fixture_server
from server.modern_client import ModernClient, answers_to
from server.raw_client import SERVE, RawClient, environment

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

CALL = "import servers.echo as e\nr = await e.echo(word='hello')\nresult = r.data if r['ok'] else r['error']"
TWICE = """
import asyncio, servers.echo as e
both = await asyncio.gather(e.echo(word='a'), e.echo(word='b'))
result = [one.data if one['ok'] else one['error']['type'] for one in both]
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rounds") / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"echo": fixture_server("echo.py", allow=[])}}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def client(config: Path) -> Generator[ModernClient]:
    with RawClient(config, approve="ask") as wire:
        yield ModernClient(wire)


@pytest.mark.req("X-06")
def test_a_yes_in_the_repeat_lets_the_call_through(client: ModernClient) -> None:
    asked = client.ask(CALL)
    [question] = asked["inputRequests"].values()
    outcome = client.call(CALL, state=asked["requestState"], answers=answers_to(asked))["result"]

    assert question["method"] == "elicitation/create"
    assert all(word in question["params"]["message"] for word in ("echo.echo", '"word"', "hello"))
    assert outcome["structuredContent"] == {"ok": True, "data": {"word": "hello"}}
    assert outcome["_meta"]["moonpool/envelope"]["approval_state"] == "APPROVED"


@pytest.mark.req("X-06")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"action": "accept", "content": {"allow": False}}, id="not allowed"),
        pytest.param({"action": "accept"}, id="no content"),
        pytest.param({"action": "decline"}, id="declined"),
        pytest.param({"action": "cancel"}, id="dismissed"),
    ],
)
def test_anything_else_is_a_no(client: ModernClient, answer: dict[str, Any]) -> None:
    asked = client.ask(CALL)
    outcome = client.finish(CALL, state=asked["requestState"], answers=answers_to(asked, answer))

    assert outcome["data"]["type"] == "ApprovalRejected"


def test_calls_made_together_are_asked_together_and_a_partial_answer_asks_for_the_rest(client: ModernClient) -> None:
    asked = client.ask(TWICE)
    first, second = asked["inputRequests"]
    again = client.ask(TWICE, state=asked["requestState"], answers={first: answers_to(asked)[first]})
    outcome = client.finish(TWICE, state=again["requestState"], answers=answers_to(again))

    assert list(again["inputRequests"]) == [second]
    assert outcome["data"] == [{"word": "a"}, {"word": "b"}]


def test_a_repeat_that_is_sent_twice_runs_nothing_twice(client: ModernClient) -> None:
    code = "runs = globals().get('runs', 0) + 1\n" + CALL + "\nresult = [runs, result]"
    asked = client.ask(code, session="twice")
    repeat = {"state": asked["requestState"], "answers": answers_to(asked), "session": "twice"}
    first, second = client.call(code, **repeat)["result"], client.call(code, **repeat)["result"]

    assert first["structuredContent"]["data"] == [1, {"word": "hello"}]
    assert first["_meta"]["moonpool/envelope"]["run_id"] == second["_meta"]["moonpool/envelope"]["run_id"]


def _changed(state: str) -> str:
    return ("B" if state[0] == "A" else "A") + state[1:]


@pytest.mark.req("X-06")
@pytest.mark.parametrize(
    ("code", "change", "answer"),
    [
        pytest.param(CALL + " ", str, None, id="other code"),
        pytest.param(CALL, _changed, None, id="changed"),
        pytest.param(CALL, lambda state: state.partition(".")[0] + ".AAAA", None, id="unsigned"),
        pytest.param(CALL, lambda _: "", None, id="empty"),
        pytest.param(CALL, lambda _: "x" * 5000, None, id="long"),
        pytest.param(CALL, lambda _: "é.é", None, id="not ascii"),
        pytest.param(CALL, str, {"action": "decline"}, id="used, with another answer"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(client: ModernClient, code: str, change: Any, answer: Any) -> None:
    asked = client.ask(CALL)
    if answer is not None:
        client.finish(CALL, state=asked["requestState"], answers=answers_to(asked))
    given = answers_to(asked, answer) if answer else answers_to(asked)
    refused = client.call(code, state=change(asked["requestState"]), answers=given)

    assert (refused["error"]["code"], refused["error"]["data"]) == (-32602, {"reason": "request_state_refused"})
    if answer is None:  # and the call still waits for the right one
        assert client.finish(CALL, state=asked["requestState"], answers=answers_to(asked))["ok"]


@pytest.mark.req("X-06")
def test_the_state_of_another_process_is_refused(config: Path, client: ModernClient) -> None:
    asked = client.ask(CALL)
    with RawClient(config, approve="ask") as wire:
        refused = ModernClient(wire).call(CALL, state=asked["requestState"], answers=answers_to(asked))
    assert client.finish(CALL, state=asked["requestState"], answers=answers_to(asked))["ok"]

    assert refused["error"]["data"] == {"reason": "request_state_refused"}


def test_answers_to_other_questions_are_ignored(client: ModernClient) -> None:
    asked = client.ask(CALL)
    again = client.ask(CALL, state=asked["requestState"], answers={"0" * 16: answers_to(asked).popitem()[1]})

    assert list(again["inputRequests"]) == list(asked["inputRequests"])
    assert client.finish(CALL, state=again["requestState"], answers=answers_to(again, {"action": "decline"}))["ok"]


@pytest.mark.req("A-051", "A-061")
def test_a_repeat_that_no_longer_declares_forms_is_told_so(client: ModernClient) -> None:
    asked = client.ask(CALL)
    refused = ModernClient(client.wire, {}).call(CALL, state=asked["requestState"])

    assert (refused["error"]["code"], refused["error"]["data"]) == (
        -32021,
        {"requiredCapabilities": {"elicitation": {}}},
    )
    assert client.finish(CALL, state=asked["requestState"], answers=answers_to(asked))["ok"]


@pytest.mark.req("X-06", "A-043")
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}], ids=["none", "addresses only"])
def test_a_client_that_cannot_ask_is_told_what_waits(config: Path, capabilities: dict[str, Any]) -> None:
    with RawClient(config, approve="ask", MOONPOOL_APPROVAL_WAIT_S="0.1") as wire:
        outcome = ModernClient(wire, capabilities).finish(CALL)
        wire.process.terminate()  # else it waits for an answer

    assert outcome["error"]["type"] == "approval_pending"


@pytest.mark.req("A-071", "A-081")
def test_progress_and_cancellation_reach_the_repeat(client: ModernClient) -> None:
    code = "x = 1\n" + CALL + "\nprint('on it', flush=True)\nimport time\ntime.sleep(300)"
    client.finish("x = 0", session="stop")
    asked = client.ask(code, session="stop")
    repeat = client.start(code, state=asked["requestState"], answers=answers_to(asked), token="later", session="stop")
    progress = client.wire.receive()
    client.wire.notify("notifications/cancelled", {"requestId": repeat})

    assert (progress["params"]["progressToken"], progress["params"]["message"]) == ("later", "on it\n")
    assert client.finish("result = x", session="stop")["data"] == 1


@pytest.mark.req("P-037")
def test_a_call_nobody_comes_back_for_ends_denied(config: Path) -> None:
    code = CALL + "\nopen('/tmp/unused', 'w')"
    with RawClient(config, approve="ask", MOONPOOL_APPROVAL_EXPIRY_S="1") as wire:
        client = ModernClient(wire)
        asked = client.ask(code, session="s")
        assert client.finish("result = r['error']['type']", session="s")["data"] == "ApprovalExpired"
        late = client.finish(code, state=asked["requestState"], answers=answers_to(asked), session="s")

    assert late["data"]["type"] == "ApprovalExpired"


@pytest.mark.anyio
@pytest.mark.slow
async def test_the_sdk_answers_by_itself(config: Path) -> None:
    from mcp import Client, StdioServerParameters
    from mcp.types import ElicitResult

    command = StdioServerParameters(command=sys.executable, args=[str(SERVE), str(config), "ask"], env=environment())
    messages: list[str] = []

    async def say_yes(_: object, params: Any) -> ElicitResult:
        messages.append(params.message)
        return ElicitResult(action="accept", content={"allow": True})

    with anyio.fail_after(60):
        for mode in ("auto", "legacy"):
            async with Client(command, mode=mode, elicitation_callback=say_yes) as client:
                result = await client.call_tool("execute_code", {"code": TWICE})
                assert result.structured_content == {"ok": True, "data": [{"word": "a"}, {"word": "b"}]}

    assert len(messages) == 4
