"""What every sandbox with a real process has in common: a link, a pidfd, a wrapper slot and a group of limits.

The backends differ only in how such a process is started and in how they learn with what status it ended; they call
`_end` with the outcome, once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
import time
from typing import TYPE_CHECKING

from moonpool.sandboxes.base import SandboxClosedError
from moonpool.sandboxes.host_folders import NO_NEWS
from moonpool.sandboxes.limit_watch import LimitWatch
from moonpool.sandboxes.starting import received_listener

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from moonpool.sandboxes.base import ExitOutcome, GuestSink, LimitKind
    from moonpool.sandboxes.control_group import LimitGroup
    from moonpool.sandboxes.host_folders import FolderNews
    from moonpool.sandboxes.link import GuestLink
    from moonpool.sandboxes.messages import HostMessage
    from moonpool.sandboxes.slots import SlotFolder

_log = logging.getLogger(__name__)
_CPU_CLOCK_OF_PROCESS = 2  # CPUCLOCK_SCHED, beside a process id that stands inverted above three bits


class LinkedSandbox:
    """A `Sandbox` whose kernel is the process behind `pidfd`. Its slot's name is its id."""

    hash_seed: int  # set by the backend that started it

    def __init__(
        self,
        link: GuestLink,
        pidfd: int,
        slots: SlotFolder,
        slot: str,
        group: LimitGroup,
        *,
        on_gone: Callable[[], None],
    ) -> None:
        self._link, self._pidfd = link, pidfd
        self._slots, self._slot = slots, slot
        self._group = group
        self._watch = LimitWatch(group, cpu_s=self._cpu_s, kill=self.kill)
        self._on_gone = on_gone  # the backend's own books
        link.on_violation = self.kill
        self._handover: socket.socket | None = None
        self.listener: socket.socket | None = None
        self._killed = False
        self._exited: ExitOutcome | None = None
        self._waiting: set[asyncio.Future[ExitOutcome]] = set()  # for its end

    @property
    def sandbox_id(self) -> str:
        return self._slot

    def expect_listener(self, handover: socket.socket | None) -> None:
        """The guest sends its listening socket to `handover` before it is ready; None: it has none."""
        self._handover = handover

    def take_listener(self) -> None:
        """Receive the listening socket of a sandbox with a network, which is ready. Raises SandboxStartError."""
        if self._handover is not None:
            self.listener = received_listener(self._handover)
            self._handover = None

    @property
    def host_pid(self) -> int | None:
        """The kernel's process id in the host's namespace; None once it is gone."""
        try:
            with open(f"/proc/self/fdinfo/{self._pidfd}", encoding="utf-8") as info:  # noqa: PTH123
                pid = next(int(line.split()[1]) for line in info if line.startswith("Pid:"))
        except (OSError, StopIteration):
            return None
        return pid if pid > 0 else None

    def _cpu_s(self) -> float:
        """Processor time of the whole sandbox, or of the kernel alone where nobody counts."""
        if self._group.counts:
            return self._group.cpu_s()
        pid = self.host_pid
        try:
            return 0.0 if pid is None else time.clock_gettime(~pid << 3 | _CPU_CLOCK_OF_PROCESS)
        except OSError:  # gone since
            return 0.0

    @property
    def has_ended(self) -> bool:
        return self._exited is not None

    def limits_hit(self) -> frozenset[LimitKind] | None:
        return self._watch.hits()

    def memory_share(self) -> float | None:
        return None if self.has_ended else self._watch.memory_share()

    def attach(self, sink: GuestSink) -> None:
        self._link.attach(sink)

    def detach(self) -> None:
        self._link.detach()

    def count_refused_call(self, size: int) -> None:
        self._link.count_refused_call(size)

    def send(self, message: HostMessage, body: bytes = b"") -> None:
        if self._exited is not None:
            raise SandboxClosedError(self.sandbox_id)
        self._link.send(message, body)

    def shows(self, digest: str) -> bool:
        return self._slots.shows(self._slot, digest)

    def publish(self, tree: Path, digest: str) -> None:
        self._slots.publish(self._slot, tree, digest)

    def shows_packages(self, digest: str) -> bool:
        return self._slots.shows_packages(self._slot, digest)

    def publish_packages(self, folders: Sequence[Path], digest: str) -> None:
        self._slots.publish_packages(self._slot, folders, digest)

    def show_volume(self, name: str, folder: Path) -> None:
        self._slots.show_volume(self._slot, name, folder)

    def show_file(self, name: str, content: bytes) -> None:
        self._slots.show_file(self._slot, name, content)

    async def synchronise_folders(self) -> FolderNews:
        return NO_NEWS

    def interrupt(self) -> None:
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        self._killed = True
        self._signal(signal.SIGKILL)
        self._group.kill()

    def _signal(self, number: signal.Signals) -> None:
        if self._exited is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def _end(self, outcome: ExitOutcome, *, cpu_s: float = 0.0) -> None:
        """Its parent says that it is gone, after `cpu_s` of processor time: once it is, tell the owner.

        SECURITY: a parent that was killed says so, too, and a first process may have lost its parent-death signal. It
        is killed here, while the pidfd is open, and nobody is told before it is gone.
        """
        if _has_exited(self._pidfd):
            self._close_books(outcome, cpu_s)
        else:
            self._signal(signal.SIGKILL)
            self._group.kill()
            asyncio.get_running_loop().add_reader(self._pidfd, self._on_late_end, outcome, cpu_s)

    def _on_late_end(self, outcome: ExitOutcome, cpu_s: float) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self._close_books(outcome, cpu_s)

    def _close_books(self, outcome: ExitOutcome, cpu_s: float) -> None:
        """The process is gone: give back what it held, then tell the owner.

        INVARIANT: whatever its limits' books say, it is told and forgotten; else it would count as alive for ever.
        """
        try:
            outcome = self._watch.settle(outcome, cpu_s)
        except Exception:  # noqa: BLE001
            _log.exception("the limits of sandbox %s could not be settled; its groups may be left", self._slot)
        os.close(self._pidfd)
        for held in (self._handover, self.listener):
            if held is not None:
                held.close()
        self._exited = outcome
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(outcome)
        self._slots.remove(self._slot)
        self._on_gone()
        self._link.end(outcome)

    async def wait_exited(self) -> ExitOutcome:
        if self._exited is not None:
            return self._exited
        waiter: asyncio.Future[ExitOutcome] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            return await waiter
        finally:
            self._waiting.discard(waiter)

    async def close(self) -> ExitOutcome:
        if self._exited is None:
            self.kill()
        outcome = await self.wait_exited()
        await self._slots.wait_removed(self._slot)
        await self._group.wait_discarded()
        return outcome


def _has_exited(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
