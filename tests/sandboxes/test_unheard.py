"""Code that goes on writing while nobody hears its sandbox: the host reads a little, then the writer waits."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from moonpool.engine.files.exchange import exchanging
from moonpool.sandboxes.backlog import Backlog
from moonpool.sandboxes.base import ExitCause, ExitOutcome, SandboxSpec, Stream
from moonpool.sandboxes.link import GuestLink
from moonpool.sandboxes.messages import Display, FileEntries, FileList
from moonpool_wire.channel import Channel
from moonpool_wire.limits import BLOB_BYTES_MAX_TO_GUEST
from sandboxes.probe import Probe, open_fds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.sandboxes.base import ImageSpec
    from moonpool.sandboxes.bubblewrap import BubblewrapBackend
    from moonpool.sandboxes.linked import LinkedSandbox
    from moonpool.sandboxes.messages import GuestMessage, HostMessage
    from moonpool.sandboxes.zygote import ZygoteBackend

pytestmark = [pytest.mark.anyio, pytest.mark.claim("C-CHAN-4")]

READ = 65_536
KEPT_MAX = 2 * READ
OVER = ExitOutcome(cause=ExitCause.EXITED, exit_code=0)


class Ear:
    """Hears everything."""

    def __init__(self) -> None:
        self.output = b""
        self.outcome: ExitOutcome | None = None

    def on_output(self, stream: Stream, data: bytes) -> None:
        del stream
        self.output += data

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        raise AssertionError(message, body)

    def on_refused(self, message: HostMessage) -> None:
        raise AssertionError(message)

    def on_exit(self, outcome: ExitOutcome) -> None:
        self.outcome = outcome


def frame(head: bytes, body: bytes = b"") -> bytes:
    channel = Channel(blob_bytes_max=BLOB_BYTES_MAX_TO_GUEST)
    channel.send(head, body)
    return channel.data_to_send()


def display(mime: bytes) -> bytes:
    return frame(b'{"t":"display","mime":"%b"}' % mime)


class Guest:
    """The other end of a link, with one pipe."""

    def __init__(self) -> None:
        ours, self._channel = socket.socketpair()
        read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.link = GuestLink(ours, {Stream.STDOUT: read})
        self.written = bytearray()

    async def flood(self, turns: int = 40) -> int:
        """Write numbers whenever the pipe takes something, over some turns of the loop; return how many bytes."""
        before = len(self.written)
        for turn in range(turns):
            block = turn.to_bytes(2, "big") * 4096
            try:
                self.written += block[: os.write(self._write, block)]
            except BlockingIOError:
                pass
            await anyio.lowlevel.checkpoint()
        return len(self.written) - before

    def say(self, data: bytes) -> None:
        self._channel.sendall(data)

    def end_of_output(self) -> None:
        os.close(self._write)
        self._write = -1

    def close(self) -> None:
        self.link.close()
        self._channel.close()
        if self._write >= 0:
            self.end_of_output()


@pytest.fixture
async def guest() -> AsyncGenerator[Guest]:
    before = open_fds()
    guest = Guest()
    yield guest
    guest.close()
    assert open_fds() <= before  # what others left may go meanwhile


async def full(guest: Guest) -> None:
    with anyio.fail_after(30):
        while await guest.flood():
            pass
    assert not guest.link.hears_pipes
    assert len(guest.written) <= KEPT_MAX + READ  # one more pipe, which nobody reads


async def test_a_writer_that_nobody_hears_waits_and_loses_nothing(guest: Guest) -> None:
    await full(guest)
    ear = Ear()
    guest.link.attach(ear)
    assert guest.link.hears_pipes
    assert await guest.flood() > 0
    with anyio.fail_after(30):
        while len(ear.output) < len(guest.written):
            await anyio.lowlevel.checkpoint()
    assert ear.output == bytes(guest.written)


async def test_a_writer_waits_again_for_the_owner_after_the_next(guest: Guest) -> None:
    for _ in range(2):
        await full(guest)
        guest.link.attach(Ear())
        await guest.flood()
        guest.link.detach()
        assert guest.link.hears_pipes
        guest.written.clear()


async def test_whoever_keeps_little_takes_over_what_was_kept_and_no_more(guest: Guest) -> None:
    await full(guest)
    for _ in range(3):
        guest.link.attach(Backlog())
        assert (guest.link.hears_pipes, await guest.flood()) == (False, 0)
    ear = Ear()
    guest.link.attach(ear)
    assert ear.output == bytes(guest.written[: len(ear.output)])
    assert len(ear.output) >= READ


async def test_the_end_of_a_stream_that_waits_is_seen_by_the_next_owner(guest: Guest) -> None:
    await full(guest)
    guest.end_of_output()
    ear = Ear()
    guest.link.attach(ear)
    with anyio.fail_after(30):
        while len(ear.output) < len(guest.written) or guest.link._pipes:
            await anyio.lowlevel.checkpoint()
    assert ear.output == bytes(guest.written)


async def test_a_sandbox_that_ends_while_its_output_waits_is_told_as_ended(guest: Guest) -> None:
    await full(guest)
    guest.link.end(OVER)
    ear = Ear()
    guest.link.attach(ear)
    assert ear.outcome == OVER
    assert READ <= len(ear.output) <= KEPT_MAX


class All(Ear):
    """Hears messages, too."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        del body
        assert isinstance(message, Display)
        self.messages.append(message.mime)


class Failing(All):
    """Fails at everything, once it was heard."""

    def on_output(self, stream: Stream, data: bytes) -> None:
        super().on_output(stream, data)
        raise ValueError("output")

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        super().on_message(message, body)
        raise ValueError("message")


async def test_a_sink_that_raises_costs_the_sandbox_none_of_what_it_says(guest: Guest) -> None:
    told: list[str] = []
    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))
    ear = Failing()
    guest.link.attach(ear)
    said = display(b"one") + display(b"two") + display(b"three")
    try:
        for at in range(0, len(said), 7):  # mostly parts of frames
            guest.say(said[at : at + 7])
            await guest.flood(turns=3)
        with anyio.fail_after(30):
            while len(ear.output) < len(guest.written):
                await anyio.lowlevel.checkpoint()
    finally:
        loop.set_exception_handler(handler)
    assert ear.messages == ["one", "two", "three"]
    assert ear.output == bytes(guest.written)
    assert guest.link.violation is None
    assert Counter(told)["message"] == 3


async def test_output_as_a_message_is_a_violation_where_there_are_pipes(guest: Guest) -> None:
    ended: list[bool] = []
    guest.link.on_violation = lambda: ended.append(True)
    guest.link.attach(Ear())
    guest.say(frame(b'{"t":"output","stream":1}', b"forged"))
    await guest.flood(turns=3)
    assert ended == [True]
    assert "output as a message" in str(guest.link.violation)


async def test_whoever_lets_go_inside_a_call_hears_no_more_and_the_next_one_hears_the_rest(guest: Guest) -> None:
    class LetsGo(All):
        def on_message(self, message: GuestMessage, body: bytes) -> None:
            super().on_message(message, body)
            guest.link.detach()

    first, second = LetsGo(), All()
    guest.link.attach(first)
    guest.say(display(b"done") + display(b"late"))
    await guest.flood(turns=6)
    guest.link.detach()  # once more: what was kept stays
    guest.link.attach(second)
    with anyio.fail_after(30):
        while len(first.output) + len(second.output) < len(guest.written):
            await anyio.lowlevel.checkpoint()
    assert (first.messages, second.messages) == (["done"], ["late"])
    assert first.output + second.output == bytes(guest.written)


# --- real sandboxes


FLOOD = "import subprocess\nflood = subprocess.Popen(['yes'])"


@pytest.mark.parametrize("ending", ["close", "kill"])
async def test_a_process_that_floods_between_executions_is_not_read(
    real_backend: ZygoteBackend | BubblewrapBackend,
    image: ImageSpec,
    ending: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = 0
    real = Backlog.on_output

    def count(self: Backlog, stream: Stream, data: bytes) -> None:
        nonlocal taken
        taken += len(data)
        real(self, stream, data)

    monkeypatch.setattr(Backlog, "on_output", count)
    probe = Probe(await real_backend.open_sandbox(SandboxSpec(image=image)))
    await probe.run(FLOOD)
    taken = 0
    await unheard(probe)
    assert taken <= KEPT_MAX
    probe.sandbox.attach(probe)
    assert (await probe.run("flood.kill()\nresult = flood.wait()")).result == -9

    await probe.run(FLOOD)
    await unheard(probe)
    taken = 0
    async with exchanging(probe.sandbox, FileList(order=1, path=".", recursive=False), timeout_s=20) as exchange:
        assert isinstance((await exchange.answer())[0], FileEntries)
    assert taken <= KEPT_MAX  # what was kept is handed on
    with anyio.fail_after(20):
        if ending == "kill":
            probe.sandbox.kill()
            await probe.sandbox.wait_exited()
        await probe.sandbox.close()


async def unheard(probe: Probe) -> None:
    """Detach, and return once the host has stopped reading."""
    probe.sandbox.detach()
    sandbox: LinkedSandbox = probe.sandbox  # pyright: ignore[reportAssignmentType]
    with anyio.fail_after(20):
        while sandbox._link.hears_pipes:
            await anyio.lowlevel.checkpoint()
