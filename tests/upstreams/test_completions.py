"""Equal requests for a completion are answered once, for a moment and in bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.upstreams import completions
from moonpool.upstreams.completions import KEPT_COUNT_MAX, RecentCompletions
from moonpool.upstreams.resources_and_prompts import COMPLETE, ResourcesAndPrompts

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject

pytestmark = pytest.mark.anyio
CAPABILITIES: Any = {"completions": {}}


class Server:
    """Answers with what it is given; counts what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), list[Any]()
        self.offers = ResourcesAndPrompts("srv", self.send)

    async def send(self, method: str, params: JsonObject) -> JsonObject:
        assert method == "completion/complete"
        self.asked.append(params)
        await anyio.lowlevel.checkpoint()
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return {"completion": answer}

    async def complete(self, value: str = "a") -> Any:
        arguments: JsonObject = {"prompt": "p", "argument": "x", "value": value}
        return (await self.offers.call(COMPLETE, arguments, CAPABILITIES))["structuredContent"]


@pytest.mark.req("D-023")
async def test_equal_requests_of_a_moment_are_sent_once() -> None:
    server, found = Server({"values": ["a1"], "hasMore": True}), list[Any]()

    async def complete() -> None:
        found.append(await server.complete())

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(complete)
    await server.complete("b")

    assert found == [{"values": ["a1"], "hasMore": True}] * 10
    assert [asked["argument"]["value"] for asked in server.asked] == ["a", "b"]


@pytest.mark.req("D-023")
async def test_an_answer_is_kept_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completions, "KEPT_S", 0.0)
    server = Server({"values": ["old"]}, {"values": ["new"]})

    assert [await server.complete(), await server.complete()] == [{"values": ["old"]}, {"values": ["new"]}]


@pytest.mark.req("D-023")
@pytest.mark.parametrize(
    ("partial", "given"),
    [
        pytest.param({"values": []}, {"values": []}, id="nothing"),
        pytest.param({"values": ["a", 1, None]}, {"values": ["a"]}, id="odd values"),
        pytest.param({"values": ["a"], "total": 7}, {"values": ["a"], "total": 7}, id="no hasMore"),
    ],
)
async def test_partial_answers_are_tolerated(partial: Any, given: Any) -> None:
    assert await Server(partial).complete() == given


async def test_a_failure_is_not_kept() -> None:
    server = Server(RuntimeError("once"), {"values": ["a"]})
    with pytest.raises(RuntimeError):
        await server.complete()

    assert await server.complete() == {"values": ["a"]}


async def test_what_is_kept_is_nobodys_to_change_and_bounded() -> None:
    server = Server({"values": ["a"]})
    (await server.complete())["values"].append("mine")
    assert await server.complete() == {"values": ["a"]}

    for number in range(KEPT_COUNT_MAX + 1):
        await server.complete(f"more {number}")
    asked = len(server.asked)
    await server.complete()
    assert len(server.asked) == asked + 1


async def test_a_long_answer_is_given_out_and_not_kept() -> None:
    recent, asked = RecentCompletions(), list[int]()

    async def ask() -> Any:
        asked.append(1)
        return {"values": ["a"] * 101}

    for _ in range(2):
        found: Any = await recent.get({}, ask)
        assert len(found["values"]) == 101
    assert len(asked) == 2
