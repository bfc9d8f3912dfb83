"""What every start of a sandbox has in common: named steps, pairs of descriptors, and giving all back when it fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
from typing import TYPE_CHECKING

from moonpool.sandboxes import seccomp
from moonpool.sandboxes.base import SandboxStartError
from moonpool.sandboxes.process import filter_fd

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.sandboxes.base import ImageSpec
    from moonpool.sandboxes.control_group import LimitGroup
    from moonpool.sandboxes.slots import SlotFolder

_INFO_TIMEOUT_S = 20.0


@contextlib.contextmanager
def step(name: str) -> Generator[None]:
    """Raise SandboxStartError for an OSError: it happened in the step `name`."""
    try:
        yield
    except OSError as error:
        raise SandboxStartError(step=name, reason=str(error)) from error


def new_hash_seed() -> int:
    """A seed for the hashes of strings: what PYTHONHASHSEED takes, without 0, which would switch randomisation off."""
    return 1 + secrets.randbelow(2**32 - 1)


def open_channel(
    ours: contextlib.ExitStack, theirs: contextlib.ExitStack, kind: socket.SocketKind = socket.SOCK_STREAM
) -> tuple[socket.socket, socket.socket]:
    """A socket pair: the host's end, closed with `ours`, and the guest's, closed with `theirs`. Raises OSError."""
    host, guest = socket.socketpair(socket.AF_UNIX, kind)
    ours.callback(host.close)
    theirs.callback(guest.close)
    return host, guest


def open_pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe from a guest: read end, closed with `ours`, and write end, closed with `theirs`. Raises OSError."""
    read, write = os.pipe2(os.O_CLOEXEC)
    ours.callback(os.close, read)
    theirs.callback(os.close, write)
    return read, write


def open_handover(
    image: ImageSpec, ours: contextlib.ExitStack, theirs: contextlib.ExitStack
) -> tuple[socket.socket | None, tuple[int, ...]]:
    """Where the guest will send its listening socket: our end, and its end to pass on. Neither without a network."""
    if not image.network:
        return None, ()
    host, guest = open_channel(ours, theirs)
    return host, (guest.fileno(),)


def received_listener(handover: socket.socket) -> socket.socket:
    """The listening socket that a guest which is ready has sent; `handover` is closed. Raises SandboxStartError.

    SECURITY: a zygote that a sandbox broke into might send anything; it is used as nothing else.
    """
    with handover, step("network"):
        handover.setblocking(False)
        _, fds, _, _ = socket.recv_fds(handover, 1, 2)
        sockets = [socket.socket(fileno=fd) for fd in fds]
        listener = sockets[0] if len(sockets) == 1 else None
        if listener is None or not (
            listener.family == socket.AF_INET
            and listener.type == socket.SOCK_STREAM
            and listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        ):
            for one in sockets:
                one.close()
            raise OSError("the sandbox sent no listening socket")
        listener.setblocking(False)
        return listener


def open_filters(theirs: contextlib.ExitStack, image: ImageSpec, *, shows_folders: bool = False) -> tuple[int, int]:
    """The filters of the outer sandbox and of the sandbox, as files that are closed with `theirs`. Raises OSError."""
    outer = filter_fd(seccomp.network_outer_filter() if image.network else seccomp.outer_sandbox_filter())
    theirs.callback(os.close, outer)
    in_sandbox = seccomp.network_sandbox_filter if image.network else seccomp.sandbox_filter
    sandbox = filter_fd(in_sandbox(shows_folders=shows_folders))
    theirs.callback(os.close, sandbox)
    return outer, sandbox


async def read_child_pid(info_fd: int) -> int:
    """What bubblewrap says on its `--info-fd`: the process that it has made, as the host numbers it.

    Raises OSError, ValueError, KeyError, TimeoutError.
    """
    async with asyncio.timeout(_INFO_TIMEOUT_S):
        said = await _read_to_end(info_fd)
    return int(json.loads(said)["child-pid"])


async def _read_to_end(fd: int) -> bytes:
    """Read a pipe on the loop: a thread could not be taken back when the wait is cancelled."""
    loop = asyncio.get_running_loop()
    os.set_blocking(fd, False)
    data = b""
    while True:
        readable = asyncio.Event()
        loop.add_reader(fd, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(fd)
        chunk = os.read(fd, 4096)
        if not chunk:
            return data
        data += chunk


async def give_back(showing: asyncio.Future[None], slots: SlotFolder, slot: str, group: LimitGroup | None) -> None:
    """Undo what was done for a sandbox that did not come up. `showing`: its first tree is being published."""
    await settled(showing)
    slots.remove(slot)
    if group is not None:
        group.kill()  # its first process may have joined already
        group.discard()
        await group.wait_discarded()
    await slots.wait_removed(slot)


async def settled(showing: asyncio.Future[None]) -> None:
    """Wait until a publication has ended, however: its thread cannot be stopped."""
    await asyncio.wait({showing})
    if not showing.cancelled():
        showing.exception()  # retrieved
