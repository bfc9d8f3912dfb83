"""What a server may ask back: what is declared, what is answered, and what is refused with which words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.core.errors import ConfigError
from moonpool.upstreams import root_folders
from moonpool.upstreams.base import UpstreamError
from moonpool.upstreams.server_requests import ServerRequestHandlers, ServerRequestRefusedError
from upstreams.peers import command, configure, upstream

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.core.json import JsonObject

pytestmark = pytest.mark.anyio
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "default": "Ada"},
        "age": {"type": "integer", "minimum": 0},
        "colour": {"type": "string", "oneOf": [{"const": "r", "title": "red"}, {"const": "g", "title": "green"}]},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    },
    "required": ["name"],
}


def elicitation(form: Any = FORM, **more: Any) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": form, **more}}


def handlers(answer: JsonObject | Exception) -> ServerRequestHandlers:
    async def handle(server_id: str, params: JsonObject) -> JsonObject:
        assert server_id == "srv"
        if isinstance(answer, Exception):
            raise answer
        return {**answer, "asked": params} if answer.get("model") else answer

    return ServerRequestHandlers(elicit=handle, sample=handle)


async def ask(question: dict[str, Any], era: str = "legacy", *, given: Any = None, **block: Any) -> Any:
    with anyio.fail_after(30):
        async with upstream(command("curious.py", era, moonpool=block), handlers=given) as srv:
            result: Any = await srv.call_tool("ask", question, timeout_s=20)
    return result["structuredContent"]


@pytest.mark.req("D-024", "D-033", "D-043", "L-034")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_only_what_is_answered_is_declared(era: str, tmp_path: Path) -> None:
    given = handlers({"action": "decline"})
    full = await ask(elicitation(), era, given=given, roots=[str(tmp_path)])
    roots = {"listChanged": True} if era == "legacy" else {}
    assert full["declared"] == {"elicitation": {}, "sampling": {}, "roots": roots}


@pytest.mark.req("D-029", "D-030", "D-032", "D-033", "D-043", "D-047", "A-050")
@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage", "roots/list", "odd/thing"])
async def test_without_a_handler_nothing_is_declared_and_all_is_refused(method: str) -> None:
    seen = await ask({"method": method, "params": {}})
    assert seen["declared"] == {}
    assert (seen["error"]["code"], method in seen["error"]["data"]["reason"]) == (-32601, True)


@pytest.mark.req("A-063")
async def test_a_ping_of_the_server_is_answered() -> None:
    assert (await ask({"method": "ping"}))["result"] == {}


@pytest.mark.req("D-044", "D-045", "L-031")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(
            {"action": "decline", "content": {"name": "Eve"}}, {"action": "decline"}, id="a no has no content"
        ),
        pytest.param({"action": "cancel"}, {"action": "cancel"}, id="cancelled"),
        pytest.param({"action": "accept"}, {"action": "accept", "content": {"name": "Ada"}}, id="defaults fill in"),
        pytest.param(
            {"action": "accept", "content": {"name": "Eve", "age": 3, "colour": "g", "tags": ["b"]}},
            {"action": "accept", "content": {"name": "Eve", "age": 3, "colour": "g", "tags": ["b"]}},
            id="every kind of field",
        ),
    ],
)
async def test_an_answer_to_a_form_arrives(answer: JsonObject, expected: JsonObject) -> None:
    assert (await ask(elicitation(), given=handlers(answer)))["result"] == expected


@pytest.mark.req("D-046")
@pytest.mark.parametrize(
    "content",
    [{"name": "x"}, {"age": "old"}, {"colour": "blue"}, {"tags": ["c"]}, {"secret": "hunter2"}, {"age": -1}],
    ids=str,
)
async def test_an_answer_that_does_not_fit_never_leaves(content: JsonObject) -> None:
    seen = await ask(elicitation(), given=handlers({"action": "accept", "content": content}))
    assert seen["error"]["code"] == -32603
    assert "does not fit" in seen["error"]["message"]
    assert "hunter2" not in str(seen)


@pytest.mark.req("D-045")
@pytest.mark.parametrize(
    ("format_", "good", "bad"),
    [
        ("email", "ada@example.org", "ada at example"),
        ("uri", "https://h/x", "not an address"),
        ("date", "2026-11-22", "22.11.2026"),
        ("date-time", "2026-11-22T01:00:00Z", "today"),
        ("moon-phase", "anything", None),
    ],
)
async def test_an_answer_has_the_format_that_is_asked_for(format_: str, good: str, bad: str | None) -> None:
    form = {"type": "object", "properties": {"a": {"type": "string", "format": format_}}}
    seen = await ask(elicitation(form), given=handlers({"action": "accept", "content": {"a": good}}))
    assert seen["result"] == {"action": "accept", "content": {"a": good}}
    if bad is not None:
        seen = await ask(elicitation(form), given=handlers({"action": "accept", "content": {"a": bad}}))
        assert (seen["error"]["code"], bad in seen["error"]["message"]) == (-32603, False)


@pytest.mark.req("D-045", "L-031")
@pytest.mark.parametrize(
    "question",
    [
        pytest.param(elicitation({"type": "object", "properties": {"a": {"type": "object"}}}), id="nested"),
        pytest.param(
            elicitation({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/"}}}), id="a link"
        ),
        pytest.param(elicitation({"type": "object", "properties": {"a": {"type": {}}}}), id="a type that is none"),
        pytest.param(elicitation({"type": "object", "properties": {}, "required": [1]}), id="no valid schema"),
        pytest.param(elicitation({"type": "array"}), id="no object"),
        pytest.param(elicitation("x"), id="no schema"),
        pytest.param(
            elicitation({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}), id="bad pattern"
        ),
        pytest.param(elicitation({"type": "object", "properties": {str(n): {} for n in range(65)}}), id="too many"),
        pytest.param(elicitation(mode="url", url="https://h/"), id="an address to open"),
        pytest.param({"method": "sampling/createMessage", "params": {"messages": []}}, id="sampling without a limit"),
    ],
)
async def test_a_question_that_cannot_be_shown_is_refused(question: dict[str, Any]) -> None:
    seen = await ask(question, given=handlers({"action": "accept"}))
    assert seen["error"]["code"] == -32602


@pytest.mark.req("D-035", "D-037", "L-035")
async def test_sampling_reaches_its_handler_without_other_servers_context() -> None:
    params = {"messages": [], "maxTokens": 5, "includeContext": "allServers", "temperature": 0.5}
    answer = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
    seen = await ask({"method": "sampling/createMessage", "params": params}, given=handlers(answer))
    assert seen["result"] == {**answer, "asked": {"messages": [], "maxTokens": 5, "temperature": 0.5}}


@pytest.mark.req("D-039")
async def test_a_person_may_reject_sampling() -> None:
    no = handlers(ServerRequestRefusedError("User rejected sampling request"))
    seen = await ask({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}, given=no)
    assert seen["error"] == {"code": -1, "message": "User rejected sampling request"}


async def test_a_handler_that_fails_tells_the_server_nothing() -> None:
    seen = await ask(elicitation(), given=handlers(RuntimeError("internal secret")))
    assert seen["error"] == {"code": -32603, "message": "the client failed to answer"}


@pytest.mark.req("D-030")
async def test_roots_that_cannot_be_looked_at_are_an_internal_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([[]])  # what is found on connecting; nothing can be looked at after that

    def look(_: object) -> list[object]:
        for found in looks:
            return found
        raise RuntimeError("/private/disk failed")

    monkeypatch.setattr(root_folders, "_present", look)
    seen = await ask({"method": "roots/list"}, roots=[str(tmp_path)])
    assert seen["error"] == {"code": -32603, "message": "the client failed to answer"}


@pytest.mark.req("D-025", "D-028", "D-029")
async def test_roots_are_the_configured_folders_that_exist(tmp_path: Path) -> None:
    work, link = tmp_path / "work", tmp_path / "link"
    work.mkdir()
    link.symlink_to(work)
    seen = await ask({"method": "roots/list"}, roots=[link.as_uri(), str(tmp_path / "gone")])
    assert seen["result"] == {"roots": [{"uri": work.as_uri(), "name": "work"}]}


@pytest.mark.req("D-026", "D-032", "X-19")
@pytest.mark.parametrize("root", ["https://h/x", "relative", "/", "/a/../..", "file://host/x", "file:///"])
def test_a_root_that_is_no_folder_is_refused(root: str) -> None:
    with pytest.raises(ConfigError, match=r'"roots\[0\]"'):
        configure({"srv": {"command": "c", "moonpool": {"roots": [root]}}})


@pytest.mark.req("D-044")
async def test_a_modern_server_gets_its_answer_with_the_repeated_call() -> None:
    question = {**elicitation(), "rounds": 3}
    seen = await ask(question, "modern", given=handlers({"action": "accept"}))
    assert seen["answers"] == {"q": {"action": "accept", "content": {"name": "Ada"}}}


@pytest.mark.req("D-047", "D-063")
@pytest.mark.parametrize(
    ("rounds", "given"),
    [
        pytest.param(1, None, id="nobody can answer"),
        pytest.param(100, handlers({"action": "accept"}), id="it never stops asking"),
    ],
)
async def test_a_modern_server_that_gets_no_answer_fails_its_call(rounds: int, given: Any) -> None:
    with pytest.raises(UpstreamError) as caught:
        await ask({**elicitation(), "rounds": rounds}, "modern", given=given)
    assert caught.value.code == "upstream_needs_input"
