"""What servers say and ask while a client calls them, and what changes meanwhile, reaches that client and no other."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from apps import SERVERS
from moonpool.server.mcp.direct import relay
from moonpool.server.mcp.direct.relay import LOG_BYTES_MAX
from server.direct_wire import LEGACY, META, MODERN, open_tenant_of, tools_of, wire

if TYPE_CHECKING:
    from server.direct_wire import Wire

pytestmark = pytest.mark.anyio

UPSTREAM = Path(__file__).parent.parent / "conformance" / "upstream.py"
ASKS = {"elicitation": "relay", "sampling": "relay", "client_roots": True}
ABLE = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
ADA = {"action": "accept", "content": {"name": "Ada"}}
SAID = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m", "stopReason": "endTurn"}
ROOTS = {"roots": [{"uri": "file:///home/ada/work", "name": "work"}]}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
ELICIT = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": FORM}}


def entry(script: Path, *args: str, **block: Any) -> dict[str, Any]:
    return {
        "command": sys.executable,
        "args": [str(script), *args],
        "moonpool": {"allow": ["*"], "expose": "direct", **block},
    }


def upstream(era: str = MODERN, **block: Any) -> dict[str, Any]:
    return entry(UPSTREAM, era, **block)


def watched(folder: Path, version: str) -> dict[str, Any]:
    path = folder / "lists.json"
    lists = {"tools": [], "resources": ["w://a", "w://refused"], "prompts": ["p"], "texts": {"w://a": "one"}}
    path.write_text(json.dumps(lists), encoding="utf-8")
    return entry(SERVERS / "watched.py", version, str(path))


@pytest.mark.slow
@pytest.mark.req("A-081", "B-041", "D-053")
@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_progress_reaches_who_asked_for_it(tmp_path: Path, era: str, version: str) -> None:
    async with (
        open_tenant_of(tmp_path, {"u": upstream(era)}) as tenant,
        tools_of(tenant) as tools,
        wire(tools, version) as one,
    ):
        await one.result("tools/call", {"name": "test_tool_with_progress", "arguments": {}}, progressToken="t-1")
        await one.call("test_tool_with_progress")

    told = one.told("notifications/progress")
    assert [(each["progressToken"], each["progress"], each["total"]) for each in told] == [
        ("t-1", done, 100) for done in (0, 50, 100)
    ]


@pytest.mark.slow
@pytest.mark.req("C-058", "C-059", "C-060", "C-061", "C-062", "C-065")
@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_log_messages_from_the_level_on_that_a_connection_chose(tmp_path: Path, era: str) -> None:
    async with (
        open_tenant_of(tmp_path, {"u": upstream(era)}) as tenant,
        tools_of(tenant) as tools,
        wire(tools) as info,
        wire(tools) as errors,
    ):
        assert (await info.result("logging/setLevel", {"level": "info"})) == {}
        await errors.result("logging/setLevel", {"level": "error"})
        wrong = await info.error("logging/setLevel", {"level": "loud"})
        await info.call("test_tool_with_logging")
        await errors.call("test_tool_with_logging")

    assert [one["data"] for one in info.told("notifications/message")] == [
        "Tool execution started", "Tool processing data", "Tool execution completed",
    ]  # fmt: skip
    assert {one["level"] for one in info.told("notifications/message")} == {"info"}
    assert errors.told("notifications/message") == []
    assert wrong["code"] == -32602
    assert "logging" in info.greeting["capabilities"]


def remark(level: str, data: Any, **more: Any) -> dict[str, Any]:
    return {"method": "notifications/message", "params": {"level": level, "data": data, **more}}


@pytest.mark.req("C-059", "C-060", "C-061", "C-062", "C-065", "C-066")
async def test_a_client_hears_messages_from_its_level_on_and_from_info_on_unasked(tmp_path: Path) -> None:
    async with (
        open_tenant_of(tmp_path, {"c": entry(SERVERS / "curious.py", "legacy")}) as tenant,
        tools_of(tenant) as tools,
        wire(tools) as one,
        wire(tools) as other,
    ):
        heard: dict[str, list[Any]] = {}
        for chosen in ("", *LEVELS):
            if chosen:
                assert await one.result("logging/setLevel", {"level": chosen}) == {}
            for level in LEVELS:
                await one.call("say", **remark(level, level))
            heard[chosen] = [told["level"] for told in one.told("notifications/message")]
            one.heard.clear()
        await one.result("logging/setLevel", {"level": "debug"})
        for data, more in (("text", {}), ({"a": 1}, {"logger": "db"}), ([1], {}), (None, {})):
            await one.call("say", **remark("info", data, **more))
        wrong = [await one.error("logging/setLevel", params) for params in ({"level": "loud"}, {})]

    assert heard == {chosen: LEVELS[LEVELS.index(chosen or "info") :] for chosen in ("", *LEVELS)}
    assert one.told("notifications/message") == [
        {"level": "info", "data": "text"}, {"level": "info", "data": {"a": 1}, "logger": "db"},
        {"level": "info", "data": [1]}, {"level": "info", "data": "null"},
    ]  # fmt: skip
    assert [each["code"] for each in wrong] == [-32602, -32602]
    assert other.told("notifications/message") == []


@pytest.mark.req("C-063", "C-064", "F-024", "G-022")
async def test_a_flood_of_messages_is_bounded_and_holds_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "LOGS_PER_SECOND_MAX", 5)
    server = {**entry(SERVERS / "curious.py", "legacy"), "env": {"API_TOKEN": "tok-4711-abcdefghijkl"}}
    said = remark("info", {"is": ["tok-4711-abcdefghijkl"]}, logger="tok-4711-abcdefghijkl")
    large = remark("info", "x" * (LOG_BYTES_MAX + 1))
    async with open_tenant_of(tmp_path, {"c": server}) as tenant, tools_of(tenant) as tools, wire(tools) as one:
        await one.call("say", **large)
        await one.call("say", **said, times=1_000)
        await one.call("say", method="notifications/none")

    heard = one.told("notifications/message")
    assert heard[0]["data"] == "(a log message above 64 KiB was left out)"
    assert 5 <= len(heard) <= 500  # of 1,000, which no machine takes 100 s for
    assert "tok-4711" not in json.dumps(one.heard)


@pytest.mark.slow
async def test_a_request_of_the_newest_revision_says_itself_whether_it_wants_log_messages(tmp_path: Path) -> None:
    async with (
        open_tenant_of(tmp_path, {"u": upstream()}) as tenant,
        tools_of(tenant) as tools,
        wire(tools, MODERN) as one,
    ):
        call = {"name": "test_logging_tool", "arguments": {}}
        await one.result("tools/call", call)
        silent = list(one.told("notifications/message"))
        await one.result("tools/call", call, **{f"{META}logLevel": "debug"})

    assert (len(silent), len(one.told("notifications/message"))) == (0, 3)


@pytest.mark.req("D-025", "D-026", "D-033", "D-044")
@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_what_a_server_asks_is_asked_of_the_client_in_its_own_form(
    tmp_path: Path, era: str, version: str
) -> None:
    questions: list[Any] = [
        ELICIT,
        {"method": "sampling/createMessage",
         "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "Capital?"}}], "maxTokens": 9}},
        {"method": "roots/list", "params": {}},
    ]  # fmt: skip
    said = {"elicitation/create": ADA, "sampling/createMessage": SAID, "roots/list": ROOTS}
    answers = {method.replace("/", "_"): (lambda _, answer=answer: answer) for method, answer in said.items()}
    got: list[Any] = []
    async with (
        open_tenant_of(tmp_path, {"c": entry(SERVERS / "curious.py", era, **ASKS)}) as tenant,
        tools_of(tenant) as tools,
        wire(tools, version, ABLE, **answers) as one,
    ):
        for question in questions:
            call = {"name": "ask", "arguments": question}
            result = await one.result("tools/call", call)
            if version == MODERN:
                (key,), (asked,) = result["inputRequests"], result["inputRequests"].values()
                assert asked["method"] == question["method"]
                more = {"inputResponses": {key: said[question["method"]]}, "requestState": result["requestState"]}
                result = await one.result("tools/call", {**call, **more})
            got.append(result)

    text = json.dumps(got)
    assert "Ada" in text
    assert "Paris" in text
    assert "file:///home/ada/work" in text
    assert [each["method"] for each in one.asked] == (
        [] if version == MODERN else [each["method"] for each in questions]
    )


@pytest.mark.slow
@pytest.mark.req("A-051", "D-043")
async def test_a_server_is_told_what_this_client_can_be_asked(tmp_path: Path) -> None:
    async with open_tenant_of(tmp_path, {"u": upstream(**ASKS)}) as tenant, tools_of(tenant) as tools:
        async with wire(tools, MODERN) as unable:
            error = await unable.error("tools/call", {"name": "test_missing_capability", "arguments": {}})
        async with wire(tools, MODERN, {"sampling": {}}) as able:
            answer = await able.call("test_missing_capability")
            asked = await able.call("test_input_required_result_capabilities")

    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"sampling": {}}})
    assert answer["content"][0]["text"] == "The client can sample."
    assert [one["method"] for one in asked["inputRequests"].values()] == ["sampling/createMessage"]


async def rounds(one: Wire) -> tuple[Any, Any]:
    call = {"name": "test_input_required_result_elicitation", "arguments": {}}
    return call, await one.result("tools/call", call)


async def test_a_state_is_of_one_principal_one_request_and_one_call(tmp_path: Path) -> None:
    able = {"elicitation": {"form": {}}}
    async with (
        open_tenant_of(tmp_path, {"u": upstream(**ASKS)}) as tenant,
        tools_of(tenant) as mine,
        tools_of(tenant) as others,
        wire(mine, MODERN, able) as one,
        wire(others, MODERN, able) as foreign,
    ):
        call, asked = await rounds(one)
        back = {"inputResponses": {"user_name": ADA}, "requestState": asked["requestState"]}
        stolen = await foreign.error("tools/call", {**call, **back})
        changed = await one.error("tools/call", {**call, **back, "arguments": {"x": 1}})
        other = await one.error("tools/call", {**back, "name": "test_simple_text", "arguments": {}})
        forged = await one.error("tools/call", {**call, **back, "requestState": asked["requestState"] + "x"})
        again = await one.result("tools/call", {**call, "requestState": asked["requestState"]})
        done = await one.result("tools/call", {**call, **back})
        twice = await one.result("tools/call", {**call, **back})
        otherwise = {**back, "inputResponses": {"user_name": {"action": "decline"}}}
        late = await one.error("tools/call", {**call, **otherwise})

    assert {each["code"] for each in (stolen, changed, other, forged, late)} == {-32602}
    assert list(again["inputRequests"]) == ["user_name"]
    assert done["content"] == twice["content"] == [{"type": "text", "text": "Hello, Ada!"}]


@pytest.mark.slow
async def test_calls_that_a_client_leaves_waiting_give_way_to_its_next_ones(tmp_path: Path) -> None:
    block = {**ASKS, "requests_per_minute": 600}
    async with (
        open_tenant_of(tmp_path, {"u": upstream(**block)}) as tenant,
        tools_of(tenant) as tools,
        wire(tools, MODERN, {"elicitation": {"form": {}}}) as one,
    ):
        states = [(await rounds(one))[1]["requestState"] for _ in range(20)]
        call = {"name": "test_input_required_result_elicitation", "arguments": {}}
        back = {**call, "inputResponses": {"user_name": ADA}}
        first = await one.error("tools/call", {**back, "requestState": states[0]})
        last = await one.result("tools/call", {**back, "requestState": states[-1]})

    assert first["code"] == -32602
    assert last["content"][0]["text"] == "Hello, Ada!"


@pytest.mark.slow
@pytest.mark.req("D-054")
@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_cancelled_call_is_cancelled_at_its_server(tmp_path: Path, version: str) -> None:
    called = tmp_path / "called"
    servers = {"w": entry(SERVERS / "waiting.py", str(called))}
    async with (
        open_tenant_of(tmp_path / "data", servers) as tenant,
        tools_of(tenant) as tools,
        wire(tools, version) as one,
    ):
        (name,) = await one.names()
        number = await one.begin("tools/call", {"name": name, "arguments": {}})
        with anyio.fail_after(40):
            while not called.exists():  # noqa: ASYNC110  another process makes it
                await anyio.sleep(0.01)
            await one.notify("notifications/cancelled", {"requestId": number})
            while not called.with_name("called.cancelled").exists():  # noqa: ASYNC110
                await anyio.sleep(0.01)


@pytest.mark.req("C-002", "C-005", "C-006", "C-033", "C-046", "D-014", "D-015", "D-019", "G-016", "X-08")
@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_client_hears_when_a_list_changes(tmp_path: Path, era: str) -> None:
    async with (
        open_tenant_of(tmp_path / "data", {"w": watched(tmp_path, era)}) as tenant,
        tools_of(tenant) as tools,
        wire(tools) as one,
    ):
        before = await one.names()
        for kind, name in (("tools", "more"), ("prompts", "q"), ("resources", "w://b")):
            await one.call("list_change", kind=kind, name=name)
            await one.until(lambda kind=kind: one.told(f"notifications/{kind}/list_changed"))
        after = await one.names()
        prompts = [prompt["name"] for prompt in (await one.result("prompts/list"))["prompts"]]
        resources = [each["uri"] for each in (await one.result("resources/list"))["resources"]]
        told = [one.told(f"notifications/{kind}/list_changed") for kind in ("tools", "prompts", "resources")]

    assert set(after) - set(before) == {"more"}
    assert prompts == ["p", "q"]
    assert resources == ["w://a", "w://refused", "w://b"]
    assert [len(each) for each in told] == [1, 1, 1]
    assert all(one.greeting["capabilities"][kind]["listChanged"] for kind in ("tools", "prompts", "resources"))


@pytest.mark.req("A-046", "C-029", "C-034", "D-013", "D-016", "G-016")
@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_client_hears_of_resources_that_it_subscribed_to(tmp_path: Path, era: str) -> None:
    async with (
        open_tenant_of(tmp_path / "data", {"w": watched(tmp_path, era)}) as tenant,
        tools_of(tenant) as tools,
        wire(tools) as one,
        wire(tools) as other,
    ):
        refused = await one.error("resources/subscribe", {"uri": "w://refused"})
        unknown = await one.error("resources/subscribe", {"uri": "w://nonesuch"})
        assert await one.result("resources/subscribe", {"uri": "w://a"}) == {}
        await one.call("change", uri="w://a", text="two")
        (news,) = await one.until(lambda: one.told("notifications/resources/updated"))
        read = await one.result("resources/read", {"uri": "w://a"})
        assert await one.result("resources/unsubscribe", {"uri": "w://a"}) == {}
        await one.call("change", uri="w://a", text="three")
        await one.call("list_change", kind="tools", name="end")
        await one.until(lambda: one.told("notifications/tools/list_changed"))

    assert "error" not in news
    assert news["uri"] == "w://a"
    assert read["contents"] == [{"uri": "w://a", "text": "two"}]
    assert refused["code"] == -32603
    assert (unknown["code"], unknown["data"]["uri"]) == (-32002, "w://nonesuch")
    assert len(one.told("notifications/resources/updated")) == 1
    assert other.told("notifications/resources/updated") == []


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_stream_brings_what_was_asked_for_and_nothing_else(tmp_path: Path, era: str) -> None:
    async with (
        open_tenant_of(tmp_path / "data", {"w": watched(tmp_path, era)}) as tenant,
        tools_of(tenant) as tools,
        wire(tools, MODERN) as one,
    ):
        wanted = {"promptsListChanged": True, "resourceSubscriptions": ["w://a", "w://nonesuch"]}
        stream = await one.begin("subscriptions/listen", {"notifications": wanted})
        (standing,) = await one.until(lambda: one.told("notifications/subscriptions/acknowledged"))
        await one.call("list_change", kind="tools", name="more")
        await one.call("change", uri="w://a", text="two")
        await one.until(lambda: one.told("notifications/resources/updated"))
        await one.call("list_change", kind="prompts", name="q")
        (news,) = await one.until(lambda: one.told("notifications/prompts/list_changed"))
        told = [each["method"] for each in one.heard]

    assert standing["notifications"] == {"promptsListChanged": True, "resourceSubscriptions": ["w://a"]}
    assert news["_meta"][f"{META}subscriptionId"] == stream
    assert "notifications/tools/list_changed" not in told


@pytest.mark.req("C-045")
@pytest.mark.slow
@pytest.mark.req("C-030", "C-031", "C-032", "C-038", "C-041", "C-049", "C-050", "C-051", "G-017")
@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_resources_and_prompts_pass(tmp_path: Path, version: str) -> None:
    async with (
        open_tenant_of(tmp_path, {"u": upstream()}) as tenant,
        tools_of(tenant) as tools,
        wire(tools, version) as one,
    ):
        listed = [each["uri"] for each in (await one.result("resources/list"))["resources"]]
        (template,) = (await one.result("resources/templates/list"))["resourceTemplates"]
        made = await one.result("resources/read", {"uri": "test://template/7/data"})
        picture = await one.result("resources/read", {"uri": "test://static-binary"})
        missing = await one.error("resources/read", {"uri": "test://template/7"})
        absent = await one.error("prompts/get", {"name": "nonesuch"})
        half = {"name": "test_prompt_with_arguments", "arguments": {"arg2": "b"}}
        missing_one = await one.error("prompts/get", half)
        no_text = await one.error("prompts/get", {**half, "arguments": {"arg1": 1, "arg2": "b"}})
        prompt = await one.result(
            "prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "a", "arg2": "b"}}
        )

    assert listed == ["test://static-text", "test://static-binary", "test://watched-resource"]
    assert template["uriTemplate"] == "test://template/{id}/data"
    assert json.loads(made["contents"][0]["text"])["id"] == "7"
    assert picture["contents"][0]["mimeType"] == "image/png"
    assert missing["code"] == (-32602 if version == MODERN else -32002)
    assert missing["data"]["uri"] == "test://template/7"
    assert absent["code"] == -32602
    assert (missing_one["code"], missing_one["message"]) == (-32602, "the prompt needs arg1")  # which no server said
    assert no_text["code"] == -32602
    assert "arg1='a'" in prompt["messages"][0]["content"]["text"]


@pytest.mark.slow
@pytest.mark.req("C-052", "C-053", "C-054", "D-021")
async def test_completion_passes(tmp_path: Path) -> None:
    async with open_tenant_of(tmp_path, {"u": upstream()}) as tenant, tools_of(tenant) as tools, wire(tools) as one:
        asked = {
            "ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"},
            "argument": {"name": "arg1", "value": "par"},
        }
        answer = await one.result("completion/complete", asked)
        wrong = await one.error("completion/complete", {**asked, "ref": {"type": "ref/prompt", "name": "nonesuch"}})

    assert answer["completion"] == {"values": ["paris", "park", "party"], "total": 3, "hasMore": False}
    assert wrong["code"] == -32602
    assert one.greeting["capabilities"]["completions"] == {}


def library(*more: str) -> dict[str, Any]:
    return entry(SERVERS / "library.py", "2025-11-25", "resources,prompts,completions,templates", *more)


@pytest.mark.req("A-048", "C-053", "C-054", "C-055", "C-056", "C-057")
async def test_what_a_client_asks_to_complete_is_asked_of_the_server_that_has_it(tmp_path: Path) -> None:
    async with (
        open_tenant_of(tmp_path, {"l": library(), "w": watched(tmp_path, LEGACY)}) as tenant,
        tools_of(tenant) as tools,
        wire(tools) as one,
        wire(tools, "2024-11-05") as oldest,
    ):
        await one.result("prompts/list")
        await one.result("resources/templates/list")
        argument = {"name": "topic", "value": "a"}
        of_prompt = {"ref": {"type": "ref/prompt", "name": "q"}, "argument": argument}
        given = [
            (await each.result("completion/complete", asked))["completion"]
            for each in (one, oldest)
            for asked in (
                {**of_prompt, "context": {"arguments": {"first": "b"}}},
                {"ref": {"type": "ref/resource", "uri": "weird+x://{name}"}, "argument": argument},
            )
        ]
        none = await one.result("completion/complete", {**of_prompt, "ref": {"type": "ref/prompt", "name": "w_p"}})
        many = await one.result("completion/complete", {**of_prompt, "argument": {"name": "topic", "value": "many"}})
        wrong = [
            await one.error("completion/complete", asked)
            for asked in ({"ref": of_prompt["ref"]}, {**of_prompt, "ref": {"type": "ref/resource", "uri": "w://nope"}})
        ]

    asked = json.loads(given[0]["values"][0])
    assert (asked["ref"]["name"], asked["context"]) == ("q", {"arguments": {"first": "b"}})
    assert (given[0]["total"], given[0]["hasMore"]) == (9, True)
    assert json.loads(given[1]["values"][0])["ref"] == {"type": "ref/resource", "uri": "weird+x://{name}"}
    assert given[:2] == given[2:]
    assert (many["completion"]["values"][-1], many["completion"]["hasMore"]) == ("v99", True)
    assert none["completion"]["values"] == []  # that server completes nothing
    assert [each["code"] for each in wrong] == [-32602, -32002]
    assert one.greeting["capabilities"]["completions"] == {}
    assert "completions" not in oldest.greeting["capabilities"]


@pytest.mark.slow
async def test_resources_that_policy_denies_do_not_exist(tmp_path: Path) -> None:
    servers = {"u": upstream(deny=["mcp:resources/read", "mcp:prompts/get"])}
    async with open_tenant_of(tmp_path, servers) as tenant, tools_of(tenant) as tools, wire(tools) as one:
        resources = await one.result("resources/list")
        prompts = await one.result("prompts/list")
        read = await one.error("resources/read", {"uri": "test://static-text"})
        got = await one.error("prompts/get", {"name": "test_simple_prompt"})

    assert (resources["resources"], prompts["prompts"]) == ([], [])
    assert (read["code"], got["code"]) == (-32002, -32602)
