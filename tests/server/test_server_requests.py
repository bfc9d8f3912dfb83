"""What servers ask reaches the client of the call, in every mix of protocol versions, and nobody else."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from apps import fixture_server
from server.modern_client import ModernClient
from server.other_clients import old_sdk_python
from server.raw_client import SERVE, RawClient, environment

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

ERAS = ["legacy", "modern"]
ABLE = {"elicitation": {"form": {}, "url": {}}, "sampling": {}}
FORM = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}
ELICIT = {"method": "elicitation/create", "params": {"message": "Who\x1b[2J?", "requestedSchema": FORM}}
OPEN = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "Sign", "url": "https://h.example/sign", "elicitationId": "e1"},
}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}, "_meta": {"x": 1}}],
        "maxTokens": 10**9,
        "systemPrompt": "Be kind",
        "modelPreferences": {"hints": [{"name": "small"}, {"name": "large"}], "costPriority": 0.5, "speedPriority": 1},
        "temperature": 0.5,
        "stopSequences": ["."],
        "includeContext": "allServers",
    },
}
SAID = {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m-1", "stopReason": "endTurn"}
ACCEPTED = {"action": "accept", "content": {"name": "Ada"}}


def code_of(server: str, question: Any) -> str:
    return (
        f"import json, servers.{server} as s\n"
        f"r = await s.ask(**json.loads({json.dumps(question)!r}))\n"
        "result = r.data if r['ok'] else r['error']"
    )


ALL = "\n".join(
    [
        "every = []",
        *(code_of(era, question) + "\nevery.append(result)" for era in ERAS for question in (ELICIT, SAMPLE)),
        "result = every",
    ]
)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("relay") / "servers.json"
    servers = {
        **{
            f"{era}{kind}": fixture_server("curious.py", era, allow=["*"], **block)
            for era in ERAS
            for kind, block in {
                "": {"elicitation": "relay", "sampling": "relay", "timeout_s": 5},
                "shy": {},
                "watched": {"sampling": "ask"},
            }.items()
        },
        "opens": fixture_server("raw.py", "refuses", allow=["*"], elicitation="relay"),
        "hurried": fixture_server("curious.py", "legacy", allow=["*"], elicitation="relay", timeout_s=1.5),
        "eager": fixture_server("curious.py", "legacy", allow=["*"], elicitation="relay"),
    }
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


class Clients:
    """One client of each era; `run` executes code and answers each question in turn."""

    def __init__(self, legacy: RawClient, modern: RawClient) -> None:
        self._legacy, self._modern = legacy, ModernClient(modern, ABLE)

    def run(self, era: str, code: str, *answers: Any, **arguments: Any) -> tuple[list[Any], Any]:
        if era == "legacy":
            return self._run_legacy(code, list(answers), arguments)
        asked: list[Any] = []
        result = self._modern.call(code, **arguments)["result"]
        for answer in answers:
            [(name, question)] = result["inputRequests"].items()
            asked.append(question)
            repeat = {"state": result["requestState"], "answers": {name: _value(answer)}}
            result = self._modern.call(code, **repeat, **arguments)["result"]
        return asked, result["structuredContent"]["data"]

    def _run_legacy(self, code: str, answers: list[Any], arguments: Any) -> tuple[list[Any], Any]:
        request_id = self._legacy.start(code, **arguments)
        asked: list[Any] = []
        for answer in answers:
            question = self._legacy.receive()
            asked.append({"method": question["method"], "params": question["params"]})
            self._legacy.send({"jsonrpc": "2.0", "id": question["id"], "result": _value(answer)})
        return asked, self._legacy.answer(request_id)["result"]["structuredContent"]["data"]


def _value(answer: Any) -> Any:
    return answer() if callable(answer) else answer


@pytest.fixture(scope="module")
def clients(config: Path) -> Generator[Clients]:
    with RawClient(config, approve="ask") as legacy, RawClient(config, approve="ask") as modern:
        legacy.handshake("2025-11-25", **ABLE)
        yield Clients(legacy, modern)


def answer_in(data: Any) -> Any:
    """What the server got, whatever its era."""
    return data["answers"]["q"] if "answers" in data else data["result"]


every_mix = pytest.mark.parametrize(("era", "server"), [(era, server) for era in ERAS for server in ERAS], ids=str)


@pytest.mark.req("D-044", "D-046")
@every_mix
def test_a_form_reaches_the_user_and_the_answer_the_server(clients: Clients, era: str, server: str) -> None:
    [asked], data = clients.run(era, code_of(server, ELICIT), ACCEPTED)

    assert asked["params"]["message"] == f"Server '{server}', called by code as {server}.ask, asks:\n> Who\\x1b[2J?"
    assert asked["params"]["requestedSchema"] == FORM
    assert answer_in(data) == ACCEPTED
    assert data["declared"]["elicitation"] == {"form": {}, "url": {}}


@pytest.mark.req("D-044")
@every_mix
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_no_reaches_the_server_without_content(clients: Clients, era: str, server: str, action: str) -> None:
    _, data = clients.run(era, code_of(server, ELICIT), {"action": action})

    assert answer_in(data) == {"action": action}


@pytest.mark.req("D-046")
@pytest.mark.parametrize("era", ERAS)
def test_an_answer_that_does_not_fit_never_leaves(clients: Clients, era: str) -> None:
    _, data = clients.run(era, code_of("legacy", ELICIT), {"action": "accept", "content": {"name": "x"}})

    assert data["error"]["code"] == -32603


@pytest.mark.req("L-032")
@every_mix
def test_an_address_is_shown_to_a_client_that_opens_some(clients: Clients, era: str, server: str) -> None:
    [asked], data = clients.run(era, code_of(server, OPEN), {"action": "accept"})

    assert (asked["params"]["mode"], asked["params"]["url"]) == ("url", "https://h.example/sign")
    assert answer_in(data) == {"action": "accept"}


def refused_until(*addresses: Any) -> str:
    data = {"elicitations": [{"mode": "url", "message": "Sign", "url": one, "elicitationId": "e"} for one in addresses]}
    error = {"code": -32042, "message": "sign first", "data": data}
    return (
        f"import json, servers.opens as s\nr = await s.echo(**json.loads({json.dumps(error)!r}))\n"
        "result = [r['ok'], r['error']['message']]"
    )


@pytest.mark.req("L-032")
@pytest.mark.parametrize("era", ERAS)
def test_an_address_that_a_call_needs_is_shown_whole_and_opened_by_nobody_here(clients: Clients, era: str) -> None:
    address = "https://h.example/a/very/long?state=" + "x" * 300
    [asked], (ok, said) = clients.run(era, refused_until(address), {"action": "accept"})
    _, (_, declined) = clients.run(era, refused_until(address), {"action": "decline"})

    assert (asked["params"]["mode"], asked["params"]["url"]) == ("url", address)
    assert (ok, "sign first" in said, said.endswith("call again once that is done")) == (False, True, True)
    assert "call again" not in declined
    for useless in ((), ("javascript:alert(1)",), ("http://u:p@h.example",), (7,), ("https://h.example",) * 4):
        asked, (ok, said) = clients.run(era, refused_until(*useless))  # nobody is asked, and it is refused
        assert (asked, ok, "call again" in said) == ([], False, False)


@pytest.mark.req("D-035", "D-036", "D-037", "D-038", "A-091")
@every_mix
def test_sampling_reaches_the_model_with_its_wishes_and_no_other_servers(
    clients: Clients, era: str, server: str
) -> None:
    [asked], data = clients.run(era, code_of(server, SAMPLE), SAID)
    kept = ("systemPrompt", "temperature", "stopSequences", "modelPreferences")
    wanted = {key: SAMPLE["params"][key] for key in kept}

    assert {key: asked["params"][key] for key in wanted} == wanted
    assert (asked["params"]["includeContext"], asked["params"]["maxTokens"]) == ("none", 16_384)
    assert asked["params"]["messages"] == [{"role": "user", "content": {"type": "text", "text": "Hi"}}]
    assert answer_in(data) == SAID


@pytest.mark.req("D-034")
@pytest.mark.parametrize("era", ERAS)
def test_a_person_reviews_prompt_and_answer_where_asked(clients: Clients, era: str) -> None:
    yes = {"action": "accept", "content": {"allow": True}}
    asked, data = clients.run(era, code_of("legacywatched", SAMPLE), yes, SAID, yes)

    assert [one["method"].partition("/")[0] for one in asked] == ["elicitation", "sampling", "elicitation"]
    assert "Be kind" in asked[0]["params"]["message"]
    assert "Hello" in asked[2]["params"]["message"]
    assert data["result"] == SAID


@pytest.mark.req("D-039")
@pytest.mark.parametrize("era", ERAS)
def test_a_person_may_reject_sampling(clients: Clients, era: str) -> None:
    _, data = clients.run(era, code_of("legacywatched", SAMPLE), {"action": "decline"})

    assert data["error"] == {"code": -1, "message": "User rejected sampling request"}


@pytest.mark.req("D-033", "D-043")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("question", [ELICIT, SAMPLE], ids=["form", "sampling"])
def test_without_a_word_in_the_configuration_nobody_is_asked(clients: Clients, era: str, question: Any) -> None:
    _, data = clients.run(era, code_of("legacyshy", question))

    assert (data["declared"], data["error"]["code"]) == ({}, -32601)


@pytest.mark.req("D-047", "A-043", "A-051")
@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_cannot_be_asked_declines(config: Path, era: str) -> None:
    with RawClient(config, approve="ask") as wire:
        clients = Clients(wire, wire)
        clients._modern.capabilities = {}
        if era == "legacy":
            wire.handshake("2025-11-25")
        form, sampling = (clients.run(era, code_of("legacy", question))[1] for question in (ELICIT, SAMPLE))

    assert form["result"] == {"action": "decline"}
    assert sampling["error"] == {"code": -1, "message": "no client that can sample is attached"}


@pytest.mark.req("D-048")
@pytest.mark.parametrize("era", ["modern", pytest.param("legacy", marks=pytest.mark.slow)])
def test_no_clock_runs_while_a_person_answers(clients: Clients, era: str) -> None:
    def answer_late() -> Any:
        threading.Event().wait(2.5)  # longer than the server's 1.5 s and the execution's 2 s
        return ACCEPTED

    clients.run(era, code_of("hurried", ELICIT), ACCEPTED)  # the start of the server takes none of that time
    _, data = clients.run(era, code_of("hurried", ELICIT), answer_late, timeout_s=2)

    assert data["result"] == ACCEPTED


@pytest.mark.req("D-040", "D-046", "F-024")
def test_a_server_that_asks_too_often_is_refused(clients: Clients) -> None:
    for _ in range(10):
        clients.run("modern", code_of("eager", ELICIT), {"action": "decline"})
    _, data = clients.run("modern", code_of("eager", ELICIT))

    assert data["error"]["message"] == "more than 10 server requests in a minute"


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.slow
async def test_the_sdk_answers_servers_of_every_era(config: Path, mode: str) -> None:
    from mcp import Client, StdioServerParameters
    from mcp.types import CreateMessageResult, ElicitResult, TextContent

    command = StdioServerParameters(command=sys.executable, args=[str(SERVE), str(config), "ask"], env=environment())

    async def fill_in(_: object, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada"})

    async def sample(_: object, params: Any) -> CreateMessageResult:
        text = TextContent(type="text", text="Hello")
        return CreateMessageResult(role="assistant", content=text, model="m-1", stop_reason="endTurn")

    with anyio.fail_after(60):
        async with Client(command, mode=mode, elicitation_callback=fill_in, sampling_callback=sample) as client:
            result = await client.call_tool("execute_code", {"code": ALL})

    assert [answer_in(one) for one in result.structured_content["data"]] == [ACCEPTED, SAID] * len(ERAS)


@pytest.mark.slow
def test_the_sdk_of_the_1_x_line_answers_them_too(config: Path) -> None:
    script = SERVE.with_name("clients") / "old_sdk.py"
    command = [str(old_sdk_python()), str(script), ALL, sys.executable, str(SERVE), str(config), "ask"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=90, env=environment())

    assert [answer_in(one) for one in json.loads(done.stdout)["structured"]["data"]] == [ACCEPTED, SAID] * len(ERAS)
