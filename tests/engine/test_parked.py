"""Calls that outlive their requests: who may come back for them, how often, and what becomes of the rest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from moonpool.engine.executions import KEPT_COUNT_MAX, OPEN_COUNT_MAX, Bounds, Executions
from moonpool.engine.pending_calls import ParkedCall, Patience, Pause
from moonpool.engine.request_state import RequestState, RequestStateError, StateSeal
from moonpool.pipeline.request_responder import AnswererGoneError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.core.envelope import Envelope
    from moonpool.engine.kept_executions import KeptExecutions

    Work = Callable[[ParkedCall], Awaitable[Any]]

pytestmark = pytest.mark.anyio
STATE = RequestState(call_id="c", key="k", questions=("q",))


class World:
    def __init__(self, *, parked_max: int = 4, kept_s: float = 60.0) -> None:
        self.kept: list[Any] = []
        bounds = Bounds(kept_s=kept_s, parked_max=parked_max, detached_max=2, window_bytes=1000)
        self.executions = Executions(bounds, cast("KeptExecutions", self))
        self.calls = self.executions.of("a")

    async def keep(self, envelope: Envelope, _: str) -> None:
        self.kept.append(envelope)

    def start(self, work: Work, key: str = "k") -> ParkedCall:
        async def envelope(call: ParkedCall) -> Envelope:
            said = await work(call)
            outcome = type("Outcome", (type(said),), {"shown_size": 0})  # an envelope that shows nothing
            return cast("Envelope", outcome(said))

        return self.calls.start(key, envelope)


async def asks_once(call: ParkedCall) -> object:
    return (await call.ask("m", {}))["said"]


async def asked(world: World, call: ParkedCall) -> tuple[str, str]:
    """The state of a call that asks one question, and the question's name."""
    questions = await call.outcome()
    assert isinstance(questions, tuple)
    return world.calls.state_of(call, questions), questions[0].question_id


async def test_an_answer_is_taken_once_and_the_same_one_again_only_waits() -> None:
    world = World()
    state, name = await asked(world, world.start(asks_once))
    first = world.calls.resume(state, "k", {name: {"said": 1}})
    again = world.calls.resume(state, "k", {name: {"said": 1}})
    with pytest.raises(RequestStateError):
        world.calls.resume(state, "k", {name: {"said": 2}})

    assert first is again
    assert (await first.outcome(), await again.outcome(), world.kept) == (1, 1, [])
    await world.executions.close()


@pytest.mark.parametrize("said", [float("inf"), "\ud800"], ids=["endless number", "half a character"])
async def test_an_answer_that_is_no_json_is_refused_and_the_question_stays(said: Any) -> None:
    world = World()
    call = world.start(asks_once)
    state, name = await asked(world, call)
    with pytest.raises(RequestStateError):
        world.calls.resume(state, "k", {name: {"said": said}})

    assert [question.question_id for question in call.open] == [name]
    await world.executions.close()


async def test_a_state_of_another_owner_or_another_request_is_refused() -> None:
    world, other = World(), World()
    state, name = await asked(world, world.start(asks_once))
    for calls, key in ((other.calls, "k"), (world.calls, "other")):
        with pytest.raises(RequestStateError):
            calls.resume(state, key, {name: {"said": 1}})
    await world.executions.close()


@pytest.mark.parametrize("cut", [1, 20, -1])
async def test_a_seal_that_was_touched_or_is_old_does_not_open(cut: int) -> None:
    now = [0.0]
    seal = StateSeal("a", valid_s=10, clock=lambda: now[0])
    sealed = seal.sealed(STATE)
    assert seal.opened(sealed) == STATE

    flipped = "A" if sealed[cut] != "A" else "B"
    with pytest.raises(RequestStateError):
        seal.opened(f"{sealed[:cut]}{flipped}{sealed[cut:][1:]}" if cut > 0 else sealed[:-5])
    with pytest.raises(RequestStateError):
        StateSeal("a", valid_s=10).opened(sealed)
    now[0] = 10.1
    with pytest.raises(RequestStateError):
        seal.opened(sealed)


async def test_what_nobody_waits_for_is_kept() -> None:
    world = World()
    call = world.start(asks_once)
    state, name = await asked(world, call)
    world.calls.resume(state, "k", {name: {"said": 1}})  # and its request is lost
    await call.finished()
    await world.executions.close()

    assert world.kept == [1]


async def test_the_last_wait_that_is_cancelled_ends_the_code_and_no_other() -> None:
    world, ended = World(), asyncio.Event()

    async def endless(call: ParkedCall) -> object:
        del call
        try:
            return await asyncio.Event().wait()
        finally:
            ended.set()

    call = world.start(endless)
    with anyio.fail_after(30):
        waits = [asyncio.ensure_future(call.outcome()) for _ in range(2)]
        await anyio.wait_all_tasks_blocked()
        waits[0].cancel()
        await asyncio.wait({waits[0]})
        assert not ended.is_set()
        waits[1].cancel()
        await asyncio.wait({waits[1]})
        assert ended.is_set()
    await world.executions.close()


async def test_only_so_much_waits_and_nothing_for_a_client_that_left() -> None:
    world = World(parked_max=1)

    async def asks_much(call: ParkedCall) -> object:
        return await asyncio.gather(*(call.ask("m", {}) for _ in range(OPEN_COUNT_MAX + 1)), return_exceptions=True)

    first = world.start(asks_much)
    await anyio.wait_all_tasks_blocked()
    with pytest.raises(AnswererGoneError, match="1 executions wait"):
        await world.start(asks_once).outcome()
    assert len(first.open) == OPEN_COUNT_MAX
    first.client_left(spared=False)
    outcome = cast("list[object]", await first.outcome())

    assert all(isinstance(one, AnswererGoneError) for one in outcome)
    await world.executions.close()


async def test_an_outcome_can_be_fetched_again_for_a_while_only() -> None:
    world = World(kept_s=0.05)
    call = world.start(asks_once)
    state, name = await asked(world, call)
    assert await world.calls.resume(state, "k", {name: {"said": 1}}).outcome() == 1
    with anyio.fail_after(30):
        while True:
            try:
                world.calls.resume(state, "k", {})
            except RequestStateError:
                break
            await anyio.sleep(0.02)
    await world.executions.close()


async def test_an_outcome_that_nobody_has_yet_outlives_others_that_somebody_has() -> None:
    world, go = World(), asyncio.Event()

    async def waits(_call: ParkedCall) -> object:
        await go.wait()
        return "mine"

    async def ends(_call: ParkedCall) -> object:
        return "other"

    call = world.start(waits, "mine")
    with anyio.fail_after(30):
        assert await call.outcome(Patience(elsewhere_s=0.0, elsewhere=lambda: True)) is Pause.ELSEWHERE
        go.set()
        await call.finished()
        for _ in range(KEPT_COUNT_MAX + 2):
            other = world.start(ends)
            world.calls.state_of(other, ())
            assert cast("Any", await other.outcome()) == "other"
        again = world.calls.repeated("mine")
        assert again is call
        assert cast("Any", await again.outcome()) == "mine"
        await world.executions.close()
    assert len(world.calls.calls) == KEPT_COUNT_MAX
