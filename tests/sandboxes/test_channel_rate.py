"""A guest that sends without a pause is read slowly and a little at a time, so that the loop serves its neighbours."""

from __future__ import annotations

import contextlib
import json
import socket
from collections import Counter
from typing import TYPE_CHECKING

import anyio.lowlevel
import pytest

from moonpool.sandboxes import link as link_module
from moonpool.sandboxes.base import ExitCause, ExitOutcome
from moonpool.sandboxes.link import FRAMES_PER_TURN_MAX, GuestLink
from moonpool_wire.channel import Channel
from moonpool_wire.limits import BLOB_BYTES_MAX_TO_GUEST

if TYPE_CHECKING:
    from moonpool.sandboxes.base import Stream
    from moonpool.sandboxes.messages import GuestMessage, HostMessage

pytestmark = pytest.mark.anyio

OVER = ExitOutcome(cause=ExitCause.EXITED, exit_code=0)


class Ticks:
    """Counts messages per turn of the loop."""

    def __init__(self) -> None:
        self.turn = 0
        self.per_turn: Counter[int] = Counter()

    def on_output(self, stream: Stream, data: bytes) -> None:
        raise AssertionError(stream, data)

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        del message, body
        self.per_turn[self.turn] += 1

    def on_refused(self, message: HostMessage) -> None:
        raise AssertionError(message)

    def on_exit(self, outcome: ExitOutcome) -> None:
        raise AssertionError(outcome)


def flood(count: int) -> bytes:
    channel = Channel(blob_bytes_max=BLOB_BYTES_MAX_TO_GUEST)
    head = json.dumps({"t": "display", "mime": "a"}).encode()
    for _ in range(count):
        channel.send(head)
    return channel.data_to_send()


async def pour(sink: Ticks, *, messages: int, turns: int) -> int:
    """Offer `messages` to a link over some turns of the loop; return how many it took."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    link = GuestLink(ours, {})
    link.attach(sink)
    if isinstance(sink, Refusing):
        sink.link = link
    data = memoryview(flood(messages))
    for _ in range(turns):
        sink.turn += 1
        with contextlib.suppress(BlockingIOError):
            data = data[theirs.send(data) :] if data else data
        await anyio.lowlevel.checkpoint()
    link.close()
    theirs.close()
    return sum(sink.per_turn.values())


async def test_tiny_messages_are_handled_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "MESSAGES_BURST_MAX", 1_000_000)
    monkeypatch.setattr(link_module, "FRAMES_BURST_MAX", 1_000_000)
    sink = Ticks()
    assert await pour(sink, messages=20_000, turns=400) > 5_000
    assert max(sink.per_turn.values()) <= FRAMES_PER_TURN_MAX


class Named:
    """Writes its name down for every message."""

    def __init__(self, name: str, heard: list[str]) -> None:
        self.name, self.heard = name, heard

    def on_output(self, stream: Stream, data: bytes) -> None:
        raise AssertionError(stream, data)

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        del message, body
        self.heard.append(self.name)

    def on_refused(self, message: HostMessage) -> None:
        raise AssertionError(message)

    def on_exit(self, outcome: ExitOutcome) -> None:
        raise AssertionError(outcome)


async def test_a_neighbours_messages_come_in_between_those_of_floods() -> None:
    heard: list[str] = []
    names = ["flood 1", "flood 2", "flood 3", "flood 4", "neighbour"]
    with contextlib.ExitStack() as ends:
        for name in names:
            ours, theirs = socket.socketpair()
            ends.callback(theirs.close)
            link = GuestLink(ours, {})
            ends.callback(link.close)
            link.attach(Named(name, heard))
            theirs.send(flood(5 if name == "neighbour" else 900))
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
    assert heard.count("neighbour") == 5
    before = Counter(heard[: heard.index("neighbour")])
    assert max(before.values(), default=0) <= FRAMES_PER_TURN_MAX
    assert min(Counter(heard).values()) == 5  # and the floods went on


async def test_what_was_read_and_not_handled_yet_comes_before_the_end() -> None:
    heard: list[str] = []
    ours, theirs = socket.socketpair()
    link = GuestLink(ours, {})
    link.attach(LastWords("guest", heard))
    theirs.send(flood(200))
    theirs.close()
    await anyio.lowlevel.checkpoint()
    link.end(OVER)
    assert heard == ["guest"] * 200 + ["the end"]


class LastWords(Named):
    """Writes the end down, too."""

    def on_exit(self, outcome: ExitOutcome) -> None:
        assert outcome is OVER
        self.heard.append("the end")


class Refusing(Ticks):
    """Refuses every message as if it were a call."""

    link: GuestLink
    size = 0

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        super().on_message(message, body)
        self.link.count_refused_call(self.size)


async def test_refused_calls_above_the_burst_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "REFUSED_CALLS_PER_SECOND_MAX", 0.001)
    monkeypatch.setattr(link_module, "REFUSED_CALLS_BURST_MAX", 100)
    sink = Refusing()
    taken = await pour(sink, messages=800, turns=400)
    assert 100 < taken <= 100 + FRAMES_PER_TURN_MAX


async def test_refused_calls_with_large_arguments_wait_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """SECURITY: each was read, on the loop that neighbours share: 60 KiB of brackets took it 20 ms."""
    monkeypatch.setattr(link_module, "REFUSED_CALLS_PER_SECOND_MAX", 0.001)
    monkeypatch.setattr(link_module, "REFUSED_CALLS_BURST_MAX", 1000)
    sink = Refusing()
    sink.size = 60 * 1024
    taken = await pour(sink, messages=800, turns=400)
    assert 1000 // link_module.REFUSED_CALL_UNITS_MAX <= taken <= 2 * FRAMES_PER_TURN_MAX


async def test_messages_above_the_burst_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "MESSAGES_PER_SECOND_MAX", 0.001)
    sink = Ticks()
    taken = await pour(sink, messages=50_000, turns=400)
    assert link_module.MESSAGES_BURST_MAX < taken < 4 * link_module.MESSAGES_BURST_MAX


async def test_bytes_above_the_burst_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "RECEIVED_BYTES_PER_SECOND_MAX", 0.001)
    monkeypatch.setattr(link_module, "RECEIVED_BYTES_BURST_MAX", 100_000)
    monkeypatch.setattr(link_module, "MESSAGES_BURST_MAX", 1_000_000)
    monkeypatch.setattr(link_module, "FRAMES_BURST_MAX", 1_000_000)
    sink = Ticks()
    taken = await pour(sink, messages=50_000, turns=400) * len(flood(1))
    assert 50_000 < taken < 200_000  # what was read counts before it is handled
