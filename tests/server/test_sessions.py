"""Sessions that a model names: how many, for how long, and what a cancelled call leaves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from moonpool.engine.code_request import CodeRequest
from moonpool.server.mcp.sessions import NAMED_COUNT_MAX, McpSessions, SessionsBusyError

if TYPE_CHECKING:
    from moonpool.engine.runtime import Runtime
    from moonpool.pipeline.caller_grant import CallerGrant

pytestmark = pytest.mark.anyio
GRANT = cast("CallerGrant", None)


class FakeSession:
    """Runs until it is let go or interrupted."""

    def __init__(self, *, final: bool) -> None:
        self.final = final
        self.go = asyncio.Event()
        self.running = asyncio.Event()
        self.closed = asyncio.Event()
        self.interrupts: list[bool] = []

    async def execute(self, request: CodeRequest) -> bytes:
        self.running.set()
        if request.code != b"quick":
            await self.go.wait()
        return request.code

    def interrupt(self, *, at_once: bool = False) -> None:
        self.interrupts.append(at_once)
        self.go.set()

    async def close(self) -> None:
        self.closed.set()


class FakeRuntime:
    """Remembers the sessions it gave out."""

    def __init__(self) -> None:
        self.sessions: list[FakeSession] = []

    def session(self, caller_grant: Any, session_id: str | None = None, *, final: bool = False) -> FakeSession:
        del caller_grant, session_id
        self.sessions.append(FakeSession(final=final))
        return self.sessions[-1]


class World:
    def __init__(self, *, idle_s: float = 60.0) -> None:
        self.runtime = FakeRuntime()
        self.face = McpSessions(cast("Runtime", self.runtime), idle_s=idle_s)

    async def run(self, code: bytes, name: str | None = None) -> object:
        return await self.face.execute(CodeRequest(code=code), GRANT, name)


async def test_a_name_finds_its_session_again_and_no_name_is_a_fresh_one() -> None:
    world = World()
    for name in ("a", "a", "b", None, None):
        await world.run(b"quick", name)

    assert [session.final for session in world.runtime.sessions] == [False, False, True, True]
    await world.face.close()
    assert all(session.closed.is_set() for session in world.runtime.sessions)


async def test_a_session_that_rests_too_long_is_closed() -> None:
    world = World(idle_s=0.01)
    await world.run(b"quick", "a")
    with anyio.fail_after(30):
        await world.runtime.sessions[0].closed.wait()
    await world.run(b"quick", "a")

    assert len(world.runtime.sessions) == 2
    await world.face.close()


async def test_the_longest_resting_session_gives_its_place_and_busy_ones_keep_theirs() -> None:
    world = World()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.run, b"slow", "busy")
            await anyio.wait_all_tasks_blocked()
            for number in range(NAMED_COUNT_MAX):
                await world.run(b"quick", f"n{number}")
            closed = [session.closed.is_set() for session in world.runtime.sessions]
            world.runtime.sessions[0].go.set()

    assert closed == [False, True, *[False] * (NAMED_COUNT_MAX - 1)]
    await world.face.close()


async def test_when_every_place_is_busy_the_caller_is_told() -> None:
    world = World()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for number in range(NAMED_COUNT_MAX):
                tasks.start_soon(world.run, b"slow", f"n{number}")
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(SessionsBusyError, match="without `session`"):
                await world.run(b"quick", "one more")
            assert await world.run(b"quick") == b"quick"
            for session in world.runtime.sessions:
                session.go.set()
    await world.face.close()


@pytest.mark.req("A-071")
@pytest.mark.parametrize(("name", "at_once"), [(None, True), ("a", False)])
async def test_a_cancelled_call_interrupts_its_code_before_it_lets_go(name: str | None, at_once: bool) -> None:
    world = World()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.run, b"slow", name)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()

    assert world.runtime.sessions[0].interrupts == [at_once]
    await world.face.close()


@pytest.mark.req("A-071")
async def test_cancelling_a_call_that_waits_its_turn_leaves_the_running_one_alone() -> None:
    world = World()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.run, b"slow", "a")
            await anyio.wait_all_tasks_blocked()
            with anyio.move_on_after(0.01):
                await world.run(b"quick", "a")
            assert world.runtime.sessions[0].interrupts == []
            world.runtime.sessions[0].go.set()
    await world.face.close()
