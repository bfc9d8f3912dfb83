"""Host side of one zygote process: asks it for sandboxes, hears of their ends.

Requests and replies travel as JSON packets over a SEQPACKET socket pair; descriptors travel beside them. The other side
is `moonpool_guest.zygote`.

INVARIANT: nothing but numbers, flags and random slot names goes to a zygote, because every later sandbox can read its
memory.
SECURITY: a zygote runs no user code, but a sandbox might break into it; what it says is checked, and one that says
nonsense is killed.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import json
import os
import secrets
import shutil
import signal
import socket
from typing import TYPE_CHECKING, NamedTuple, cast

from moonpool.sandboxes.base import ExitCause, ExitOutcome, SandboxStartError, Stream
from moonpool.sandboxes.cgroups import LimitGroups
from moonpool.sandboxes.link import GuestLink, outcome_of
from moonpool.sandboxes.linked import LinkedSandbox
from moonpool.sandboxes.plan import UID_INSIDE
from moonpool.sandboxes.ready import wait_ready
from moonpool.sandboxes.shielding import finish
from moonpool.sandboxes.starting import give_back, open_channel, open_handover, open_pipe, settled, step
from moonpool.sandboxes.unread_budget import UnreadBudget

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.sandboxes.base import SandboxSpec
    from moonpool.sandboxes.control_group import LimitGroup
    from moonpool.sandboxes.identity import UidSlice
    from moonpool.sandboxes.reaper_client import OuterSandbox
    from moonpool.sandboxes.slots import SlotFolder

_HELLO_TIMEOUT_S = 30.0  # preloading numpy, pandas, matplotlib and IPython took 1.2 s on 2 cores
_SPAWN_TIMEOUT_S = 20.0  # then its sandboxes end with it, so not on a machine that is only busy
_STATUS_TIMEOUT_S = 1.0
_PACKET_BYTES_MAX = 65_536
_SPAWNS_AT_ONCE_MAX = 16  # a zygote forks one after the other; more packets would only fill its socket


class Ended(NamedTuple):
    """How a sandbox's first process ended, as its zygote saw it."""

    status: int  # a wait status
    cpu_s: float  # its own processor time, and that of the children it waited for


class ZygoteSandbox(LinkedSandbox):
    """One sandbox forked from a zygote."""

    def __init__(
        self, zygote: Zygote, link: GuestLink, pidfd: int, request_id: int, slot: str, group: LimitGroup
    ) -> None:
        super().__init__(link, pidfd, zygote.slots, slot, group, on_gone=lambda: zygote.forget(self))
        self.hash_seed = zygote.hash_seed
        self._zygote, self.request_id = zygote, request_id
        asyncio.get_running_loop().add_reader(pidfd, self._on_process_gone)

    def _on_process_gone(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        status = self._zygote.exit_status(self.request_id)
        timer = loop.call_later(_STATUS_TIMEOUT_S, self._settle, None)
        status.add_done_callback(
            lambda done: (timer.cancel(), self._settle(None if done.cancelled() else done.result()))
        )

    def _settle(self, ended: Ended | None) -> None:
        if self.has_ended:
            return
        violation = self._link.violation
        if ended is not None:
            outcome = outcome_of(ended.status, killed=self._killed, violation=violation)
            self._end(outcome, cpu_s=ended.cpu_s)
        else:
            cause = ExitCause.KILLED if self._killed else ExitCause.LOST
            self._end(ExitOutcome(cause=cause, violation=violation))


class Zygote:
    """Host side of one zygote process."""

    def __init__(
        self,
        process: OuterSandbox,
        control: socket.socket,
        slots: SlotFolder,
        groups: LimitGroups | None = None,
        unread: UnreadBudget | None = None,
        *,
        hash_seed: int,
        uids: UidSlice | None = None,
    ) -> None:
        self.process, self.slots = process, slots
        self.uids = uids  # one for each of its sandboxes, where there are any
        self._uid_numbers: dict[int, int] = {}  # by request, until the zygote says that nothing of it is there
        self.hash_seed = hash_seed  # of all its sandboxes
        self._groups = groups or LimitGroups()
        self._unread = unread or UnreadBudget()
        self._control = control
        self._control.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._next_id = 1
        self._hello: asyncio.Future[dict[str, object]] = self._loop.create_future()
        self._spawns: dict[int, asyncio.Future[int]] = {}
        self._statuses: dict[int, asyncio.Future[Ended]] = {}
        self._turns = asyncio.Semaphore(_SPAWNS_AT_ONCE_MAX)
        self._sandboxes: set[ZygoteSandbox] = set()
        self.alive = True
        self.on_free: Callable[[], None] | None = None  # told when a sandbox has ended, and when this has
        self._loop.add_reader(control.fileno(), self._on_control)

    @property
    def sandbox_count(self) -> int:
        """Sandboxes of it that have not ended."""
        return len(self._sandboxes)

    async def wait_hello(self) -> None:
        """Wait until the zygote has preloaded. Raises TimeoutError or SandboxStartError."""
        async with asyncio.timeout(_HELLO_TIMEOUT_S):
            await asyncio.shield(self._hello)

    async def spawn(self, spec: SandboxSpec) -> ZygoteSandbox:
        """Fork one sandbox and wait until it is READY."""
        slot = secrets.token_hex(8)
        async with self._turns:
            with step("folder"):
                showing = self.slots.open(slot, spec.tree)  # while the zygote forks
            group: LimitGroup | None = None
            try:
                group = await self._groups.open(slot, spec.limits)
                sandbox = await self._request(spec, slot, group)
            except BaseException:
                await finish(give_back(showing, self.slots, slot, group))
                raise
        try:
            await wait_ready(sandbox)
            sandbox.take_listener()
            with step("wrappers"):
                await asyncio.shield(showing)
        except BaseException:
            await finish(_close(sandbox, showing))
            raise
        return sandbox

    async def _request(self, spec: SandboxSpec, slot: str, group: LimitGroup) -> ZygoteSandbox:
        request_id, self._next_id = self._next_id, self._next_id + 1
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            with step("descriptors"):
                host, guest = open_channel(ours, theirs)
                (out_read, out_write), (err_read, err_write) = (open_pipe(ours, theirs) for _ in range(2))
                handover, handed = open_handover(spec.image, ours, theirs)
            spawned: asyncio.Future[int] = self._loop.create_future()
            self._spawns[request_id] = spawned
            self._statuses[request_id] = self._loop.create_future()
            try:
                fds = [guest.fileno(), out_write, err_write, *handed, *group.join_fds]
                self._send_request(request_id, spec.to_confinement(slot, grouped=group.counts), fds)
                theirs.close()
                group.joined()
                timer = self._loop.call_later(_SPAWN_TIMEOUT_S, _time_out, spawned)
                try:
                    pidfd = await spawned
                finally:
                    timer.cancel()
            except BaseException as error:
                self._spawns.pop(request_id, None)
                self._statuses.pop(request_id, None)
                if spawned.done() and not spawned.cancelled() and spawned.exception() is None:
                    pidfd = spawned.result()  # it came in the moment of giving up
                    _end(pidfd)
                    os.close(pidfd)
                if isinstance(error, OSError):
                    self.kill()  # a zygote that does not answer is of no use to anybody
                    raise SandboxStartError(step="spawn", reason=str(error) or "the zygote did not answer") from error
                raise
            link = GuestLink(
                host,
                {Stream.STDOUT: out_read, Stream.STDERR: err_read},
                unread=self._unread,
                scope=spec.scope,
            )
            ours.pop_all()
        sandbox = ZygoteSandbox(self, link, pidfd, request_id, slot, group)
        sandbox.expect_listener(handover)
        self._sandboxes.add(sandbox)
        return sandbox

    def _send_request(self, request_id: int, confinement: dict[str, object], fds: list[int]) -> None:
        request = {"op": "spawn", "id": request_id, "fds": len(fds), **confinement}
        if self.uids is not None:
            number = self._uid_numbers[request_id] = self.uids.take()
            request["uid"] = int(UID_INSIDE) + number
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        try:
            self._control.sendmsg([json.dumps(request).encode()], rights)
        except OSError:
            self._give_uid_back(request_id)
            raise

    def _give_uid_back(self, request_id: int) -> None:
        number = self._uid_numbers.pop(request_id, None)
        if self.uids is not None and number is not None:
            self.uids.give_back(number)

    def _on_control(self) -> None:
        try:
            packet, fds, _, _ = socket.recv_fds(self._control, _PACKET_BYTES_MAX, 4)
        except BlockingIOError:
            return
        except OSError:
            packet, fds = b"", []
        if not packet:
            self._on_gone()
            return
        # SECURITY: a zygote runs no user code, but a sandbox might break into it; its packets are not trusted either.
        try:
            message = cast("dict[str, object]", json.loads(packet))
            self._on_packet(str(message["op"]), message, fds)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            self.kill()
        finally:
            for fd in fds:
                os.close(fd)

    def _on_packet(self, op: str, message: dict[str, object], fds: list[int]) -> None:
        if op == "hello" and not self._hello.done():
            self._hello.set_result(message)
            return
        request_id = _number(message["id"])
        if op in ("exited", "refused"):
            self._give_uid_back(request_id)
        if op == "exited":
            status = self._statuses.get(request_id)
            if status is not None and not status.done():
                status.set_result(Ended(_number(message["status"]), _number(message["cpu_ms"]) / 1000))
            return
        spawned = self._spawns.get(request_id)
        is_awaited = spawned is not None and not spawned.done()
        for fd in fds:
            _end(fd, 0 if is_awaited else signal.SIGKILL)
        self._spawns.pop(request_id, None)  # not before: whoever waits hears it when nonsense ends the zygote
        if spawned is None or not is_awaited:
            return
        if op == "spawned" and len(fds) == 1:
            spawned.set_result(fds.pop())
        elif op == "spawned":  # the Linux kernel drops what a process has no room for
            spawned.set_exception(SandboxStartError(step="descriptors", reason=os.strerror(errno.EMFILE)))
        else:
            spawned.set_exception(SandboxStartError(step="spawn", reason=str(message.get("reason"))[:500]))

    def _on_gone(self) -> None:
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        error = SandboxStartError(step="zygote", reason="the zygote has ended")
        for future in (self._hello, *self._spawns.values()):
            if not future.done():
                future.set_exception(error)
                future.exception()  # retrieved: nobody may be waiting for it
        for status in self._statuses.values():
            status.cancel()
        if self.on_free is not None:
            self.on_free()

    def exit_status(self, request_id: int) -> asyncio.Future[Ended]:
        """How a sandbox ended, once the zygote has reaped it; cancelled when the zygote is gone."""
        return self._statuses[request_id]

    def forget(self, sandbox: ZygoteSandbox) -> None:
        """Drop a sandbox that has ended."""
        self._sandboxes.discard(sandbox)
        self._statuses.pop(sandbox.request_id, None)
        if self.on_free is not None:
            self.on_free()

    def kill(self) -> None:
        """End the outer sandbox: its PID 1 ends, and everything inside with it."""
        self.process.kill()

    async def close(self) -> None:
        """End every sandbox, then the zygote, wait for both, and remove the folder."""
        for sandbox in tuple(self._sandboxes):
            await sandbox.close()
        await self.slots.wait_all_removed()
        self._on_gone()
        self.process.kill()
        await self.process.wait()
        if self.uids is not None:
            self.uids.close()
            self.uids = None
        await asyncio.to_thread(shutil.rmtree, self.slots.root.parent, ignore_errors=True)


async def _close(sandbox: ZygoteSandbox, showing: asyncio.Future[None]) -> None:
    await settled(showing)
    await sandbox.close()


def _time_out(spawned: asyncio.Future[int]) -> None:
    if not spawned.done():
        spawned.set_exception(TimeoutError())


def _end(pidfd: int, number: int = signal.SIGKILL) -> None:
    """End a process that nobody will own. Raises OSError for what is no pidfd."""
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        signal.pidfd_send_signal(pidfd, number)


def _number(value: object) -> int:
    """A request's id, a wait status or milliseconds. Raises TypeError, ValueError."""
    if not isinstance(value, int):
        raise TypeError("not a number")
    if not 0 <= value < 2**31:
        raise ValueError("not a number of ours")
    return value
