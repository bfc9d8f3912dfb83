"""What is said to clients of each revision, and how far each is understood."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import methods
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from apps import fixture_server
from moonpool.server.mcp.tool_set import offer_of
from server.raw_client import RawClient
from server.transcripts import ALL, GOLDENS, conversation

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

LATEST = HANDSHAKE_PROTOCOL_VERSIONS[-1]
ASKS_FIRST = "import servers.echo as e\nr = await e.echo()\nresult = r['ok'] or r['error']['type']"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("revisions") / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"echo": fixture_server("echo.py", allow=[])}}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def client() -> Generator[RawClient]:
    with RawClient() as opened:
        opened.handshake()
        yield opened


def spoken(version: str) -> list[tuple[Any, Any]]:
    """What the client of the recorded conversation said and what it heard to it."""
    lines = (GOLDENS / f"{version}.txt").read_text(encoding="utf-8").splitlines()
    pairs: list[tuple[Any, Any]] = []
    for line in lines:
        said, message = line[0] == ">", json.loads(line[2:])
        if said:
            pairs.append((message, None))
        else:
            pairs[-1] = (pairs[-1][0], message)
    return pairs


@pytest.mark.req("A-001", "A-005", "A-006", "A-007", "A-009", "A-020", "A-042", "C-004", "C-012")
@pytest.mark.parametrize("version", ALL)
def test_everything_said_has_the_shape_of_the_published_schema(version: str) -> None:
    """The SDK's generated models stand for the schema: that of 2025-11-25 for all revisions before it, too."""
    judged = 0
    for said, heard in spoken(version):
        answers = {
            json.dumps(one["id"]): one for one in (heard if isinstance(heard, list) else [heard] if heard else [])
        }
        for answer in answers.values():
            assert answer["jsonrpc"] == "2.0"
            assert ("result" in answer) != ("error" in answer)
            assert isinstance(answer.get("error", {}).get("code", 0), int)
            assert isinstance(answer.get("error", {}).get("message", ""), str)
        for one in said if isinstance(said, list) else [said]:
            answer = answers.get(json.dumps(one.get("id", "none")))
            if answer is not None and "result" in answer:
                methods.validate_server_result(one["method"], version, answer["result"])
                judged += 1
    asked = sum(isinstance(one, dict) and "id" in one for one in conversation(version))
    assert asked - 5 <= judged <= asked + 2  # the rest are errors


@pytest.mark.req("A-032", "A-036", "X-17")
@pytest.mark.parametrize("version", ["1.0.0", *(pytest.param(one, marks=pytest.mark.slow) for one in ("draft", ""))])
def test_an_unknown_revision_is_answered_with_the_latest(version: str) -> None:
    with RawClient() as client:
        assert client.handshake(version)["protocolVersion"] == LATEST


@pytest.mark.req("A-019", "A-040", "A-049")
def test_what_no_revision_knows_is_ignored_at_every_level() -> None:
    odd = {"unheard-of": [None, {"a": 1}], "_meta": {"vendor.example/key": {}}}
    with RawClient() as client:
        info = {"name": "odd", "version": "1", **odd}
        capabilities = {"experimental": {"x.y/z": {"deep": [1, None]}, "more": {}}, "unheard-of": {}}
        params = {"protocolVersion": LATEST, "capabilities": capabilities, "clientInfo": info, **odd}
        assert client.call("initialize", params)["result"]["protocolVersion"] == LATEST
        client.notify("notifications/initialized", odd)
        listed = client.call("tools/list", odd)
        call = {"name": "execute_code", "arguments": {"code": "result = 1"}, **odd}
        called = client.call("tools/call", call)
        client.send({"jsonrpc": "2.0", "id": "odd", "method": "ping", "params": odd, **odd})
        pinged = client.receive()

    assert [tool["name"] for tool in listed["result"]["tools"]] == offer_of("tools", "base").names
    assert called["result"]["structuredContent"] == {"ok": True, "data": 1}
    assert pinged == {"jsonrpc": "2.0", "id": "odd", "result": {}}


FAMILIES = {
    "tools": [("tools/list", {})],
    "prompts": [("prompts/list", {}), ("prompts/get", {"name": "code_mode"})],
    "resources": [("resources/list", {}), ("resources/templates/list", {})],
    "completions": [
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}})
    ],
    "logging": [("logging/setLevel", {"level": "info"})],
    "tasks": [("tasks/list", {})],
}


@pytest.mark.req(
    "A-045", "A-046", "A-050", "C-029", "C-044", "C-052", "C-055", "C-058", "C-017", "L-001", "L-036", "L-037"
)
def test_what_is_declared_is_served_and_nothing_else() -> None:
    with RawClient() as client:
        declared = client.handshake()["capabilities"]
        served = {
            family: {client.call(method, params).get("error", {}).get("code", 0) for method, params in calls}
            for family, calls in FAMILIES.items()
        }
        file = {"uri": "moonpool://s/file"}
        subscribed = [client.call(f"resources/{verb}", file)["error"]["code"] for verb in ("subscribe", "unsubscribe")]

    assert {family: codes == {0} for family, codes in served.items()} == {
        family: family in declared for family in FAMILIES
    }
    assert {code for family, codes in served.items() if family not in declared for code in codes} <= {-32601}
    assert (declared["resources"]["subscribe"], subscribed) == (False, [-32601, -32601])


@pytest.mark.req("A-028")
def test_before_the_client_is_ready_it_hears_only_what_its_own_calls_need(config: Path) -> None:
    with RawClient(config, approve="ask") as client:
        about = {"name": "early", "version": "1"}
        params = {"protocolVersion": LATEST, "capabilities": {"elicitation": {}}, "clientInfo": about}
        client.call("initialize", params)
        early = client.start(ASKS_FIRST)
        question = client.receive()
        assert (question["method"], client.heard) == ("elicitation/create", [])
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        answer = client.answer(early)

    assert answer["result"]["structuredContent"]["data"] == "ApprovalRejected"


@pytest.mark.req("A-041", "L-015", "A-083", "C-012", "C-018")
@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_a_client_gets_no_member_that_its_revision_does_not_have(version: str) -> None:
    code = "print('on my way', flush=True)\nopen('f.txt', 'w').write('x')\nresult = {'a': 1}"
    with RawClient() as client:
        about = client.handshake(version)
        tools = client.call("tools/list")["result"]["tools"]
        result = client.answer(client.start(code, meta={"progressToken": 1}))["result"]
        progress = [message["params"] for message in client.heard]

    at = HANDSHAKE_PROTOCOL_VERSIONS.index(version)
    members = {member for tool in tools for member in tool}
    assert about["protocolVersion"] == version
    assert ("title" in about["serverInfo"], "description" in about["serverInfo"]) == (at >= 2, at >= 3)
    assert ("annotations" in members, "outputSchema" in members) == (at >= 1, at >= 2)
    assert members <= {"name", "description", "inputSchema", "annotations", "outputSchema", "title"}
    assert ("structuredContent" in result) is (at >= 2)
    assert {block["type"] for block in result["content"]} == {"text"}
    assert json.loads(result["content"][0]["text"])["data"] == {"a": 1}
    assert {"message" in one for one in progress} == {at >= 1}
    assert {one["progressToken"] for one in progress} == {1}


@pytest.mark.req("C-067", "C-069")
@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"])
def test_a_cursor_that_was_not_given_out_is_refused_by_every_list(client: RawClient, method: str) -> None:
    page = client.call(method)["result"]
    refused = client.call(method, {"cursor": "zzz"})["error"]

    assert "nextCursor" not in page
    assert (refused["code"], "cursor" in refused["message"]) == (-32602, True)


@pytest.mark.req("C-011", "L-011")
def test_arguments_may_be_absent_and_what_is_missing_then_is_a_tool_error(client: RawClient) -> None:
    result = client.call("tools/call", {"name": "execute_code"})["result"]

    assert result["isError"] is True
    assert "is a required property" in result["content"][0]["text"]


@pytest.mark.req("A-078")
@pytest.mark.parametrize("token", [1.5, True, None, {}, ["t"]])
def test_a_progress_token_is_a_string_or_a_whole_number(client: RawClient, token: Any) -> None:
    client.heard.clear()
    answer = client.answer(client.start("print('x', flush=True)\nresult = 1", meta={"progressToken": token}))

    assert client.heard == []
    assert answer.get("error", {}).get("code", -32602) == -32602


@pytest.mark.req("C-070", "C-071")
def test_roots_of_a_client_are_not_asked_for() -> None:
    """The folders that code may use are the operator's; nothing that a client names gives or limits any."""
    with RawClient() as client:
        client.handshake(roots={"listChanged": True})
        client.notify("notifications/roots/list_changed")
        data = client.execute("import os\nresult = sorted(os.listdir('/workspace'))")["data"]
        assert client.call("ping")["result"] == {}
        assert client.heard == []

    assert "servers" in data


@pytest.mark.req("A-085")
def test_without_a_token_no_progress_is_told(client: RawClient) -> None:
    client.heard.clear()
    client.execute("for i in range(100): print(i, flush=True)")

    assert client.heard == []


@pytest.mark.req("C-047")
def test_a_prompt_has_the_shape_of_the_published_schema(client: RawClient) -> None:
    prompt = client.call("prompts/get", {"name": "code_mode"})["result"]

    methods.validate_server_result("prompts/get", LATEST, prompt)
    assert [message["role"] for message in prompt["messages"]] == ["user"]
    assert {message["content"]["type"] for message in prompt["messages"]} == {"text"}


@pytest.mark.req("X-29")
def test_a_missing_resource_has_the_code_of_the_revision(client: RawClient) -> None:
    missing = {"uri": "moonpool://s/missing"}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1"},
    }
    with RawClient() as modern:
        newer = modern.call("resources/read", {**missing, "_meta": meta})["error"]
    older = client.call("resources/read", missing)["error"]

    assert (older["code"], older["data"]["uri"]) == (-32002, missing["uri"])
    assert (newer["code"], newer["data"]["uri"]) == (-32602, missing["uri"])
