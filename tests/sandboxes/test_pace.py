"""A guest that sends without a pause is read slowly and in small pieces, so that the loop serves its neighbours."""

from __future__ import annotations

import contextlib
import json
import socket
from collections import Counter
from typing import TYPE_CHECKING

import anyio.lowlevel
import pytest

from moonpool.sandboxes import link as link_module
from moonpool.sandboxes.link import GuestLink
from moonpool_wire.channel import Channel
from moonpool_wire.limits import BLOB_BYTES_MAX_TO_GUEST

if TYPE_CHECKING:
    from moonpool.sandboxes.base import ExitOutcome, Stream
    from moonpool.sandboxes.messages import GuestMessage, HostMessage

pytestmark = pytest.mark.anyio


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
    data = memoryview(flood(messages))
    for _ in range(turns):
        sink.turn += 1
        with contextlib.suppress(BlockingIOError):
            data = data[theirs.send(data) :] if data else data
        await anyio.lowlevel.checkpoint()
    link.close()
    theirs.close()
    return sum(sink.per_turn.values())


async def test_tiny_messages_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "MESSAGES_BURST_MAX", 1_000_000)
    monkeypatch.setattr(link_module, "FRAMES_BURST_MAX", 1_000_000)
    sink = Ticks()
    assert await pour(sink, messages=20_000, turns=400) > 5_000
    first, *later = sink.per_turn.values()
    frame = len(flood(1))
    assert first > 4096 // frame  # nobody knew yet
    assert max(later) <= 4096 // frame + 1


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
    assert 100_000 < taken < 300_000
