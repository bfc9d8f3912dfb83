"""One reaper serves all: whatever becomes of one start, the outer sandboxes of the others keep running."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes import reaper_client
from moonpool.sandboxes.identity import UID_FIRST, Identity
from moonpool.sandboxes.process import OuterSandboxStarter
from process_tree import children_of
from sandboxes.remains import Graveyard, started_here

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from pathlib import Path

    from moonpool.sandboxes.reaper_client import OuterSandbox

pytestmark = pytest.mark.anyio

WHO = Identity(UID_FIRST if os.geteuid() == 0 else None)
TURNS = 10


@pytest.fixture
def graveyard(state_dir: Path) -> Generator[Graveyard]:
    graveyard = Graveyard(state_dir)
    yield graveyard
    graveyard.close()


@pytest.fixture
async def starter(state_dir: Path, graveyard: Graveyard) -> AsyncGenerator[OuterSandboxStarter]:
    starter = OuterSandboxStarter(state_dir)
    yield starter
    with anyio.fail_after(30):
        await starter.close()
    await graveyard.is_empty_soon()
    assert state_dir.exists()


async def wall(starter: OuterSandboxStarter, *arguments: str) -> OuterSandbox:
    command = ["/bin/sleep", "600", *arguments]
    return await starter.start(command, WHO, pass_fds=(), stdout=None, stderr=None)


async def turns() -> None:
    for _ in range(TURNS):
        await anyio.lowlevel.checkpoint()


async def reaper_of(starter: OuterSandboxStarter) -> int:
    return started_here((await starter.begin())._process.pid)


async def test_a_first_start_that_is_cancelled_leaves_its_reaper_to_the_next(
    starter: OuterSandboxStarter, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, begun, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    really, calls = reaper_client._start_reaper, []

    def slowly(*arguments):
        calls.append(arguments)
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(30)
        return really(*arguments)

    monkeypatch.setattr(reaper_client, "_start_reaper", slowly)
    (state_dir / "slots").mkdir()
    first = asyncio.ensure_future(wall(starter))
    await begun.wait()
    first.cancel()
    await asyncio.wait({first})
    go_on.set()
    with anyio.fail_after(30):
        second = await wall(starter)
    assert first.cancelled()
    assert (len(calls), children_of(await reaper_of(starter))) == (1, [second.pid])
    (state_dir / "slots").rmdir()


async def test_a_reaper_that_nobody_awaits_any_more_leaves_and_removes_nothing(
    state_dir: Path, graveyard: Graveyard, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, begun, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    started: asyncio.Future[int] = loop.create_future()
    really = reaper_client._start_reaper

    def slowly(*arguments):
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(30)
        process = really(*arguments)
        loop.call_soon_threadsafe(started.set_result, process.wait(30))

    monkeypatch.setattr(reaper_client, "_start_reaper", slowly)
    (state_dir / "slots").mkdir()
    beginning = asyncio.ensure_future(reaper_client.ReaperClient.begin(state_dir, ()))
    await begun.wait()
    beginning.cancel()
    await asyncio.wait({beginning})
    reused = [socket.socketpair() for _ in range(8)]  # takes the numbers of whatever was closed
    go_on.set()
    assert await started == 0
    for pair in reused:
        for end in pair:
            end.close()
    assert (state_dir / "slots").exists()


@pytest.mark.parametrize("how", ["again and again", "twice"])
async def test_a_start_that_is_cancelled_more_than_once_harms_no_other_outer_sandbox(
    how: str, starter: OuterSandboxStarter
) -> None:
    other = await wall(starter)
    reaper = await reaper_of(starter)
    os.kill(reaper, signal.SIGSTOP)
    scope = anyio.CancelScope()

    async def in_scope() -> None:
        with scope:
            await wall(starter)

    starting = asyncio.ensure_future(in_scope())
    await turns()
    for _ in range(2):
        if how == "twice":
            starting.cancel()
        else:
            scope.cancel()
        await turns()
    ended_early = starting.done()
    os.kill(reaper, signal.SIGCONT)
    with anyio.fail_after(30):
        await asyncio.wait({starting})
    assert not ended_early
    assert children_of(reaper) == [other.pid]


async def test_a_start_that_waits_for_room_ends_with_the_reaper(starter: OuterSandboxStarter) -> None:
    reaper = await reaper_of(starter)
    os.kill(reaper, signal.SIGSTOP)
    starts = [asyncio.ensure_future(wall(starter, "x" * 60_000)) for _ in range(8)]  # more than the socket holds
    await turns()
    os.kill(reaper, signal.SIGKILL)
    with anyio.fail_after(30):
        await asyncio.wait(starts)
    assert {isinstance(start.exception(), OSError) for start in starts} == {True}


async def test_a_command_that_fits_in_no_packet_harms_no_other_outer_sandbox(starter: OuterSandboxStarter) -> None:
    other = await wall(starter)
    with pytest.raises(OSError, match="Message too long"):
        await wall(starter, "x" * 1_000_000)
    assert children_of(await reaper_of(starter)) == [other.pid]


async def test_an_outer_sandbox_whose_pidfd_finds_no_room_is_ended(
    starter: OuterSandboxStarter, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await wall(starter)
    receive = socket.recv_fds

    def lossy(*arguments):
        packet, fds, flags, address = receive(*arguments)
        for fd in fds:
            os.close(fd)
        return packet, [], flags | socket.MSG_CTRUNC, address

    monkeypatch.setattr(reaper_client.socket, "recv_fds", lossy)
    with anyio.fail_after(30), pytest.raises(OSError, match="Too many open files"):
        await wall(starter)
    assert children_of(await reaper_of(starter)) == [other.pid]
