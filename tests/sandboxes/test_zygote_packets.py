"""A zygote that was taken over by a sandbox may send anything: the host kills it and goes on."""

from __future__ import annotations

import array
import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any

import anyio
import pytest

from moonpool.sandboxes.base import ImageSpec, SandboxLimits, SandboxSpec, SandboxStartError
from moonpool.sandboxes.control_group import NoGroup
from moonpool.sandboxes.slots import SlotFolder
from moonpool.sandboxes.zygote_process import Zygote

NOWHERE = Path("/nonexistent")
IMAGE = ImageSpec(name="none", digest="sha256:none", python=NOWHERE, guest=NOWHERE)

pytestmark = pytest.mark.anyio


class Process:
    """Remembers that it was killed; the end of the outer sandbox closes its side of the control socket."""

    def __init__(self, side: socket.socket) -> None:
        self.killed = anyio.Event()
        self._side = side

    def kill(self) -> None:
        self.killed.set()
        self._side.close()


PACKETS = [
    pytest.param(b"{", id="not JSON"),
    pytest.param(b"[" * 60_000, id="bottomless"),
    pytest.param(b"[]", id="no object"),
    pytest.param(b'{"op": "exited"}', id="no id"),
    pytest.param(b'{"op": "exited", "id": "1", "status": 0}', id="an id that is no number"),
    pytest.param(b'{"op": "exited", "id": 1, "status": 1%s}' % (b"0" * 40), id="a status beyond every wait status"),
    pytest.param(b'{"op": "exited", "id": 1, "status": -1}', id="a negative status"),
    pytest.param(b'{"op": "exited", "id": 1, "status": "9"}', id="a status that is no number"),
    pytest.param(b'{"op": "exited", "id": 1, "status": 9}', id="no processor time"),
    pytest.param(b'{"op": "exited", "id": 1, "status": 9, "cpu_ms": -1}', id="negative processor time"),
]


@pytest.mark.parametrize("packet", PACKETS)
async def test_a_packet_that_makes_no_sense_ends_the_zygote(packet: bytes, tmp_path: Path) -> None:
    outcome = await spawn_from(tmp_path, packet)
    assert isinstance(outcome, SandboxStartError)


async def test_a_descriptor_that_is_no_pidfd_ends_the_zygote(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        outcome = await spawn_from(tmp_path, b'{"op": "spawned", "id": 1, "pid": 2}', fd)
    finally:
        os.close(fd)
    assert isinstance(outcome, SandboxStartError)


class Group(NoGroup):
    """Remembers what was done to it."""

    def __init__(self) -> None:
        super().__init__(SandboxLimits())
        self.done: list[str] = []

    def kill(self) -> None:
        self.done.append("killed")

    def discard(self) -> None:
        self.done.append("discarded")


class Groups:
    """Gives everybody the one group."""

    def __init__(self) -> None:
        self.group = Group()

    async def open(self, name: str, limits: SandboxLimits) -> Group:
        del name, limits
        return self.group


@pytest.mark.parametrize("how", ["a scope that cancels again and again", "a task that is cancelled"])
async def test_a_spawn_that_is_cancelled_kills_its_group_and_gives_all_back(how: str, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    groups, slots, scope = Groups(), SlotFolder(tmp_path / "scope" / "slots"), anyio.CancelScope()
    zygote = Zygote(Process(theirs), ours, slots, groups, hash_seed=1)  # pyright: ignore[reportArgumentType]

    async def in_scope() -> None:
        with scope:
            await zygote.spawn(SandboxSpec(image=IMAGE))

    spawning = asyncio.ensure_future(in_scope())
    await anyio.wait_readable(theirs)
    if how.startswith("a scope"):
        scope.cancel()
    else:
        spawning.cancel()
    with anyio.fail_after(30):
        await asyncio.wait({spawning})
    assert groups.group.done == ["killed", "discarded"]
    assert (list(slots.root.iterdir()), list((tmp_path / "scope" / "doomed").iterdir())) == ([], [])
    zygote._on_gone()
    theirs.close()


async def test_a_pidfd_that_found_no_room_is_told_as_such_and_the_zygote_lives(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = Process(theirs)
    zygote = Zygote(process, ours, SlotFolder(tmp_path / "scope" / "slots"), hash_seed=1)  # pyright: ignore[reportArgumentType]
    spawning = asyncio.ensure_future(zygote.spawn(SandboxSpec(image=IMAGE)))
    await anyio.wait_readable(theirs)
    theirs.send(b'{"op": "spawned", "id": 1, "pid": 2}')
    with anyio.fail_after(30), pytest.raises(SandboxStartError, match="'descriptors': Too many open files"):
        await spawning
    assert not process.killed.is_set()
    zygote._on_gone()
    theirs.close()


async def spawn_from(folder: Path, packet: bytes, *fds: int) -> BaseException | None:
    """Ask a zygote for a sandbox that answers with `packet`; return what the caller hears."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setblocking(False)
    process = Process(theirs)
    zygote = Zygote(process, ours, SlotFolder(folder / "scope" / "slots"), hash_seed=1)  # pyright: ignore[reportArgumentType]
    spec = SandboxSpec(image=IMAGE, limits=SandboxLimits())
    with anyio.fail_after(30):
        spawning = asyncio.ensure_future(zygote.spawn(spec))
        await anyio.wait_readable(theirs)
        assert json.loads(theirs.recv(65_536))["op"] == "spawn"
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        theirs.sendmsg([packet], rights)
        await process.killed.wait()
        await asyncio.wait({spawning})
    assert complaints == []
    return spawning.exception()
