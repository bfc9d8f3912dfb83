"""Guests that never read: what the host holds for all of them is bounded, and their neighbours get everything."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes import unread_budget as unread
from moonpool.sandboxes.link import GuestLink
from moonpool.sandboxes.messages import ToolResult
from moonpool.sandboxes.unread_budget import STALLED_S, UnreadBudget
from sandboxes.probe import Probe, open_fds
from security.backends import opened
from waiting import until

if TYPE_CHECKING:
    from moonpool.sandboxes.base import ExitOutcome

pytestmark = [pytest.mark.anyio, pytest.mark.claim("C-CHAN-4")]

MIB = 1024 * 1024


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, eq=False)
class Reader:
    """Remembers that it was given up."""

    name: str
    given_up: list[str]
    scope: str = "tenant"

    def give_up(self) -> None:
        self.given_up.append(self.name)


def test_the_one_that_holds_most_is_given_up_not_the_one_that_came_last() -> None:
    given_up: list[str] = []
    budget, large, small, last = UnreadBudget(100), *(Reader(name, given_up) for name in ("large", "small", "last"))
    budget.hold(small, 20)
    budget.hold(large, 70)
    budget.hold(last, 11)
    assert (given_up, budget.total) == (["large"], 31)


def test_who_reads_frees_what_was_held() -> None:
    given_up: list[str] = []
    budget, reader = UnreadBudget(100), Reader("reader", given_up)
    for count in (90, 0, 90, 10, 100):
        budget.hold(reader, count)
    assert (given_up, budget.total) == ([], 100)


def test_as_many_are_given_up_as_it_takes() -> None:
    given_up: list[str] = []
    budget = UnreadBudget(100)
    for name in "abc":
        budget.hold(Reader(name, given_up), 33)
    budget.hold(Reader("d", given_up), 99)
    assert (given_up, budget.total) == (["d"], 99)
    budget.hold(Reader("e", given_up), 34)
    assert (given_up, budget.total) == (["d", "e"], 99)


@pytest.mark.parametrize(
    ("counts", "given_up"),
    [
        pytest.param((50, 49), ["deaf 0"], id="has read a little"),
        pytest.param((0, 49), ["deaf 0"], id="has only just been sent it"),
        pytest.param((49,), ["honest"], id="has read as little as the others, and holds most"),
    ],
)
def test_whoever_reads_is_not_given_up_for_those_who_do_not(counts: tuple[int, ...], given_up: list[str]) -> None:
    gone: list[str] = []
    clock = Clock()
    budget, honest = UnreadBudget(100, clock=clock), Reader("honest", gone)
    for number in range(3):
        budget.hold(Reader(f"deaf {number}", gone), 16)
    first, *later = counts
    budget.hold(honest, first)
    clock.now += STALLED_S
    for count in later:
        budget.hold(honest, count)
    budget.hold(Reader("last", gone), 4)
    assert gone == given_up


def test_whoever_is_sent_more_and_more_has_not_read_for_it() -> None:
    gone: list[str] = []
    clock = Clock()
    budget, deaf, honest = UnreadBudget(100, clock=clock), Reader("deaf", gone), Reader("honest", gone)
    for count in (10, 20, 30):
        budget.hold(deaf, count)
        clock.now += STALLED_S
    budget.hold(honest, 71)
    assert gone == ["deaf"]


def test_no_tenant_pays_while_another_holds_more() -> None:
    gone: list[str] = []
    clock = Clock()
    budget = UnreadBudget(100, clock=clock)
    budget.hold(Reader("honest, and busy computing", gone, scope="one"), 30)
    clock.now += STALLED_S
    for number in range(7):
        reader = Reader(f"reads a byte now and then {number}", gone, scope="other")
        budget.hold(reader, 10)
        budget.hold(reader, 9)
    budget.hold(Reader("the last", gone, scope="other"), 10)
    assert gone == ["the last"]


async def test_a_link_answers_for_its_tenant() -> None:
    gone: list[str] = []
    budget = UnreadBudget(2 * MIB)
    with ExitStack() as ends:
        links: dict[str, GuestLink] = {}
        for name, scope in (("first", "busy"), ("second", "busy"), ("third", "modest")):
            ours, theirs = socket.socketpair()
            ends.callback(theirs.close)
            link = links[name] = GuestLink(ours, {}, unread=budget, scope=scope)
            link.on_violation = partial(gone.append, name)
            ends.callback(link.close)
        for name, quarters in (("third", 5), ("first", 3), ("second", 4)):
            links[name].send(ToolResult(id=1), bytes(quarters * MIB // 4))
    assert gone == ["second"]
    assert links["third"].violation is None


async def test_what_a_hundred_links_do_not_read_is_bounded() -> None:
    budget, violated = UnreadBudget(64 * MIB), [0]
    before = open_fds()

    def count() -> None:
        violated[0] += 1

    with ExitStack() as ends:
        links: list[GuestLink] = []
        for _ in range(100):
            ours, theirs = socket.socketpair()
            ends.callback(theirs.close)
            link = GuestLink(ours, {}, unread=budget)
            link.on_violation = count
            links.append(link)
            ends.callback(link.close)
        for _ in range(4):
            for link in links:
                link.send(ToolResult(id=1), bytes(MIB))
                assert budget.total <= 64 * MIB
        assert 0 < violated[0] < 100
    assert budget.total == 0
    assert open_fds() <= before


@pytest.mark.parametrize("name", ["zygote", pytest.param("bubblewrap", marks=pytest.mark.slow)])
async def test_what_all_together_do_not_read_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnreadBudget.__init__, "__defaults__", (32 * MIB,))
    async with opened(name) as (backend, spec):
        first = await backend.open_sandbox(spec)
        neighbour = Probe(first)
        await neighbour.run("result = 1")
        before = open_fds()
        with anyio.fail_after(60):
            deaf = [Probe(await backend.open_sandbox(spec)) for _ in range(8)]
            for probe in deaf:
                probe.start("import time\nprint('deaf')\ntime.sleep(100)")
            for probe in deaf:
                await probe.said("deaf")
            held = unread_of(backend)
            for number in range(1, 11):
                for probe in deaf:
                    if not probe.sandbox.has_ended:
                        probe.sandbox.send(ToolResult(id=number), bytes(MIB))
                        assert held.total <= 32 * MIB
                call = (
                    "from moonpool_guest.toolcalls import invoke_sync\nresult = invoke_sync('s', 't', {'a': 'x' * 9})"
                )
                assert (await neighbour.run(call)).result
            await until(lambda: any(outcome_of(probe) for probe in deaf))  # it was killed, which takes a moment
            ended = [outcome for probe in deaf if (outcome := outcome_of(probe)) is not None]
            assert all("all sandboxes together" in (outcome.violation or "") for outcome in ended)
            for probe in deaf:
                await probe.sandbox.close()
        assert held.total == 0
        assert open_fds() <= before
        await first.close()


def unread_of(backend: object) -> UnreadBudget:
    held = vars(backend)["_unread"]
    assert isinstance(held, unread.UnreadBudget)
    return held


def outcome_of(probe: Probe) -> ExitOutcome | None:
    return probe._collect().exit
