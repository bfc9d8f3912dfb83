"""The `zygote` backend: forks sandboxes from a preloaded process inside an outer wall (default).

One zygote per scope and image starts at first use and serves spawn requests over a SEQPACKET socket pair. Each sandbox
gets its own channel and pipes; the zygote hands back a pidfd and later the exit status. When a zygote dies, its
sandboxes die with it (the wall's PID 1 ends) and the next request starts another.

INVARIANT: nothing but numbers, flags and random slot names goes to a zygote, because every later sandbox can read its
memory. See `moonpool_guest.zygote` for the other side.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
from typing import TYPE_CHECKING, cast

from moonpool.sandboxes import seccomp
from moonpool.sandboxes.base import (
    ExitCause,
    ExitOutcome,
    SandboxClosedError,
    SandboxStartError,
    Stream,
)
from moonpool.sandboxes.identity import Identities
from moonpool.sandboxes.link import GuestLink, outcome_of
from moonpool.sandboxes.plan import WallParts, guest_command, zygote_wall
from moonpool.sandboxes.process import WallStarter, filter_fd, find_launcher, has_merged_usr, missing_on_host, write_etc
from moonpool.sandboxes.ready import wait_ready
from moonpool.sandboxes.slots import SlotFolder

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence
    from pathlib import Path

    from moonpool.sandboxes.base import GuestSink, ImageSpec, SandboxSpec
    from moonpool.sandboxes.messages import HostMessage

_HELLO_TIMEOUT_S = 30.0  # preloading numpy, pandas, matplotlib and IPython took 1.2 s on 2 cores
_SPAWN_TIMEOUT_S = 5.0
_STATUS_TIMEOUT_S = 1.0
_PACKET_BYTES_MAX = 65_536
_SPAWNS_AT_ONCE_MAX = 16  # a zygote forks one after the other; more packets would only fill its socket


class ZygoteSandbox:
    """One sandbox forked from a zygote."""

    def __init__(self, zygote: Zygote, link: GuestLink, pidfd: int, request_id: int, slot: str) -> None:
        self._zygote, self._link, self._pidfd = zygote, link, pidfd
        self.request_id, self._slot = request_id, slot
        self._killed = False
        self._exited: asyncio.Future[ExitOutcome] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(pidfd, self._on_process_gone)

    @property
    def sandbox_id(self) -> str:
        return self._slot

    @property
    def host_pid(self) -> int | None:
        """The kernel's process id in the host's namespace; None once it is gone."""
        try:
            with open(f"/proc/self/fdinfo/{self._pidfd}", encoding="utf-8") as info:  # noqa: PTH123
                pid = next(int(line.split()[1]) for line in info if line.startswith("Pid:"))
        except (OSError, StopIteration):
            return None
        return pid if pid > 0 else None

    @property
    def has_ended(self) -> bool:
        return self._exited.done()

    def attach(self, sink: GuestSink) -> None:
        self._link.attach(sink)

    def detach(self) -> None:
        self._link.detach()

    def send(self, message: HostMessage, body: bytes = b"") -> None:
        if self._exited.done():
            raise SandboxClosedError(self.sandbox_id)
        self._link.send(message, body)

    def shows(self, digest: str) -> bool:
        return self._zygote.slots.shows(self._slot, digest)

    def publish(self, tree: Path, digest: str) -> None:
        self._zygote.slots.publish(self._slot, tree, digest)

    def interrupt(self) -> None:
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        self._killed = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if not self._exited.done():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def _on_process_gone(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        status = self._zygote.exit_status(self.request_id)
        timer = loop.call_later(_STATUS_TIMEOUT_S, self._settle, None)
        status.add_done_callback(
            lambda done: (timer.cancel(), self._settle(None if done.cancelled() else done.result()))
        )

    def _settle(self, status: int | None) -> None:
        if self._exited.done():
            return
        violation = self._link.violation
        if status is not None:
            outcome = outcome_of(status, killed=self._killed, violation=violation)
        else:
            cause = ExitCause.KILLED if self._killed else ExitCause.LOST
            outcome = ExitOutcome(cause=cause, violation=violation)
        os.close(self._pidfd)
        self._exited.set_result(outcome)
        self._zygote.slots.remove(self._slot)
        self._zygote.forget(self)
        self._link.end(outcome)

    async def wait_exited(self) -> ExitOutcome:
        return await asyncio.shield(self._exited)

    async def close(self) -> ExitOutcome:
        if not self._exited.done():
            self.kill()
        return await self.wait_exited()


class Zygote:
    """Host side of one zygote process."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, slots: SlotFolder) -> None:
        self.process, self.slots = process, slots
        self._control = control
        self._control.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._next_id = 1
        self._hello: asyncio.Future[dict[str, object]] = self._loop.create_future()
        self._spawns: dict[int, asyncio.Future[int]] = {}
        self._statuses: dict[int, asyncio.Future[int]] = {}
        self._turns = asyncio.Semaphore(_SPAWNS_AT_ONCE_MAX)
        self._sandboxes: set[ZygoteSandbox] = set()
        self.alive = True
        self._loop.add_reader(control.fileno(), self._on_control)

    async def wait_hello(self) -> None:
        """Wait until the zygote has preloaded. Raises TimeoutError or SandboxStartError."""
        await asyncio.wait_for(asyncio.shield(self._hello), _HELLO_TIMEOUT_S)

    async def spawn(self, spec: SandboxSpec) -> ZygoteSandbox:
        """Fork one sandbox and wait until it is READY."""
        slot = secrets.token_hex(8)
        async with self._turns:
            try:
                self.slots.create(slot)
            except OSError as error:
                raise SandboxStartError(step="folder", reason=str(error)) from error
            showing = self.slots.publish_soon(slot, spec.tree)  # while the zygote forks
            try:
                sandbox = await self._request(spec, slot)
            except BaseException:
                await asyncio.wait({showing})
                self.slots.remove(slot)
                raise
        try:
            await wait_ready(sandbox)
            await showing
        except OSError as error:
            await sandbox.close()
            raise SandboxStartError(step="wrappers", reason=str(error)) from error
        except BaseException:
            await asyncio.wait({showing})
            await sandbox.close()
            raise
        return sandbox

    async def _request(self, spec: SandboxSpec, slot: str) -> ZygoteSandbox:
        request_id, self._next_id = self._next_id, self._next_id + 1
        ours, theirs = socket.socketpair()
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        spawned: asyncio.Future[int] = self._loop.create_future()
        self._spawns[request_id] = spawned
        self._statuses[request_id] = self._loop.create_future()
        try:
            try:
                self._send_request(request_id, spec, slot, [theirs.fileno(), out_write, err_write])
            finally:
                theirs.close()
                os.close(out_write)
                os.close(err_write)
            pidfd = await asyncio.wait_for(spawned, _SPAWN_TIMEOUT_S)
        except BaseException as error:
            self._spawns.pop(request_id, None)
            self._statuses.pop(request_id, None)
            ours.close()
            os.close(out_read)
            os.close(err_read)
            if isinstance(error, OSError | TimeoutError):
                self.kill()  # a zygote that does not answer is of no use to anybody
                raise SandboxStartError(step="spawn", reason=str(error) or "the zygote did not answer") from error
            raise
        pipes = {Stream.STDOUT: out_read, Stream.STDERR: err_read}
        holder: list[ZygoteSandbox] = []
        link = GuestLink(
            ours,
            pipes,
            on_violation=lambda: holder[0].kill(),  # noqa: PLW0108  filled below
        )
        sandbox = ZygoteSandbox(self, link, pidfd, request_id, slot)
        holder.append(sandbox)
        self._sandboxes.add(sandbox)
        return sandbox

    def _send_request(self, request_id: int, spec: SandboxSpec, slot: str, fds: list[int]) -> None:
        request = {"op": "spawn", "id": request_id, **spec.to_confinement(slot)}
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        self._control.sendmsg([json.dumps(request).encode()], rights)

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
        if op == "exited":
            status = self._statuses.get(request_id)
            if status is not None and not status.done():
                status.set_result(_number(message["status"]))
            return
        for fd in fds:
            with contextlib.suppress(ProcessLookupError):  # it has ended already; anything but a pidfd raises OSError
                signal.pidfd_send_signal(fd, 0)
        spawned = self._spawns.pop(request_id, None)
        if spawned is None or spawned.done():
            return
        if op == "spawned" and len(fds) == 1:
            spawned.set_result(fds.pop())
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

    def exit_status(self, request_id: int) -> asyncio.Future[int]:
        """The wait status of a sandbox, once the zygote has reaped it; cancelled when the zygote is gone."""
        return self._statuses[request_id]

    def forget(self, sandbox: ZygoteSandbox) -> None:
        """Drop a sandbox that has ended."""
        self._sandboxes.discard(sandbox)
        self._statuses.pop(sandbox.request_id, None)

    def kill(self) -> None:
        """End the wall; PID 1 of it goes, and everything inside with it."""
        self.process.kill()

    async def close(self) -> None:
        """End every sandbox, then the zygote, wait for both, and remove the folder."""
        for sandbox in tuple(self._sandboxes):
            await sandbox.close()
        self._on_gone()
        self.process.kill()
        await asyncio.to_thread(self.process.wait)
        await asyncio.to_thread(shutil.rmtree, self.slots.root.parent, ignore_errors=True)


def _number(value: object) -> int:
    """A request's id or a wait status. Raises TypeError, ValueError."""
    if not isinstance(value, int):
        raise TypeError("not a number")
    if not 0 <= value < 2**31:
        raise ValueError("not a number of ours")
    return value


class ZygoteBackend:
    """Opens sandboxes by forking zygotes. `state_dir` must be readable by sandbox uids."""

    name = "zygote"

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._identities = Identities()
        self._starter = WallStarter()
        self._zygotes: dict[tuple[str, str], Zygote] = {}
        self._starting: dict[tuple[str, str], asyncio.Lock] = {}

    def missing_features(self) -> Sequence[str]:
        return missing_on_host()

    async def open_sandbox(self, spec: SandboxSpec) -> ZygoteSandbox:
        zygote = await self.zygote(spec.scope, spec.image)
        return await zygote.spawn(spec)

    async def zygote(self, scope: str, image: ImageSpec) -> Zygote:
        """The zygote of `scope` and `image`, started if need be. Raises SandboxStartError."""
        key = (scope, image.digest)
        async with self._starting.setdefault(key, asyncio.Lock()):
            zygote = self._zygotes.get(key)
            if zygote is None or not zygote.alive:
                if zygote is not None:
                    await zygote.close()
                zygote = self._zygotes[key] = await self._start(scope, image)
            return zygote

    async def _start(self, scope: str, image: ImageSpec) -> Zygote:
        launcher = find_launcher()
        if launcher is None:
            raise SandboxStartError(step="launcher", reason="bubblewrap is not installed: apt-get install bubblewrap")
        try:
            identity = self._identities.of(scope)
        except ValueError as error:
            raise SandboxStartError(step="identity", reason=str(error)) from error
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            folder = self._state_dir / secrets.token_hex(4)
            ours.callback(shutil.rmtree, folder, ignore_errors=True)
            try:
                slots, etc = SlotFolder(folder / "slots"), write_etc(folder / "etc")
            except OSError as error:
                raise SandboxStartError(step="folder", reason=str(error)) from error
            filters = (filter_fd(seccomp.wall_filter()), filter_fd(seccomp.sandbox_filter()))
            errors_read, errors_write = os.pipe2(os.O_CLOEXEC)
            control, guest_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.callback(control.close)
            theirs.callback(guest_end.close)
            ours.callback(os.close, errors_read)
            for fd in (*filters, errors_write):
                theirs.callback(os.close, fd)
            parts = WallParts(
                launcher=launcher,
                image=image,
                etc=etc,
                slots=slots.root,
                seccomp_fd=filters[0],
                merged_usr=has_merged_usr(),
            )
            command = zygote_wall(parts, guest_command(image, _statement(guest_end.fileno(), filters[1], image)))
            try:
                process = await self._starter.start(
                    command,
                    identity,
                    pass_fds=(guest_end.fileno(), *filters),
                    stdout=errors_write,
                    stderr=errors_write,
                )
            except OSError as error:
                raise SandboxStartError(step="wall", reason=f"{launcher}: {error.strerror}") from error
            ours.pop_all()
        return await self._greet(process, control, slots, errors_read)

    async def _greet(
        self, process: subprocess.Popen[bytes], control: socket.socket, slots: SlotFolder, errors_fd: int
    ) -> Zygote:
        zygote = Zygote(process, control, slots)
        os.set_blocking(errors_fd, False)
        try:
            await zygote.wait_hello()
        except BaseException as error:
            await zygote.close()
            complaint = _read_complaint(errors_fd)
            if isinstance(error, SandboxStartError | TimeoutError):
                raise SandboxStartError(step="wall", reason=complaint or "it did not start in time") from error
            raise
        finally:
            os.close(errors_fd)
        return zygote

    async def close(self) -> None:
        for zygote in self._zygotes.values():
            await zygote.close()
        self._zygotes.clear()
        self._starter.close()


def _statement(control_fd: int, program_fd: int, image: ImageSpec) -> str:
    arguments = f"{control_fd}, {program_fd}, {list(image.preload)!r}, {sorted(image.variables)!r}"
    return f"from moonpool_guest import zygote; zygote.main({arguments})"


def _read_complaint(fd: int) -> str:
    """The last words of a wall that did not come up."""
    try:
        text = os.read(fd, 16_384).decode(errors="replace")
    except BlockingIOError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[-3:])[:600]
