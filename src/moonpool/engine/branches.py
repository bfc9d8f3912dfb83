"""Checkpoints of a session: going back to what was before an execution, and branches of one session.

A checkpoint is a stopped twin of the kernel and the state of `/workspace`, in the same sandbox
(`moonpool_guest.checkpoints`). Going back uses the twin up; it is made again afterwards, with the same number. One is
made before the first execution and after each, while nobody waits; it is made again before the next one where files
were put in between. `Branch` is one session's part of it, `SharedKernel` what branches of one sandbox share: they run
one at a time, and the one that runs next has the other leave a checkpoint.

What ends with the sandbox: all of its checkpoints and branches. What does not go back: tool calls, labels, budgets,
what was printed, processor time.

When the kernel dies in an execution, the newest state that can be put back is. Where the whole sandbox ends, as by
memory that ran out under control groups version 2, by a kill of the host or between executions, all ends with it.

INVARIANT: used with the kernel's `turn` held, and finished once begun: what is noted here is what is in the sandbox.
SECURITY: what the guest says is kept as text or compared with what was asked; a guest that refuses or lies spoils its
own session's state only.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, InputError, MoonpoolError
from moonpool.engine.checkpoint_orders import carry_out
from moonpool.engine.packages.service import KernelPackages
from moonpool.sandboxes.messages import RestoreCheckpoint, TakeCheckpoint
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.engine.files.recorded_files import InputKeeper
    from moonpool.engine.network import GuestNetwork
    from moonpool.pipeline.call_counters import SentCall
    from moonpool.sandboxes.base import Sandbox

KEPT_MAX: Final = 20
"""Executions that can be undone: their checkpoints are kept, besides that of the state as it is."""
NAMED_MAX: Final = 10
"""Checkpoints with a name that it keeps besides."""
NAME_CHARS_MAX: Final = 200
FULL: Final = 0.5
"""The share of its memory above which a sandbox's oldest checkpoints are given up."""


class CheckpointError(MoonpoolError):
    """The state could not be kept, or not be put back. It is as it was, unless the sandbox ended; the message says."""

    code = "checkpoint_failed"
    fault = Fault.GUEST


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state to which a session can go back."""

    number: int  # of its sandbox
    name: str  # given to `checkpoint`; empty: made after an execution
    execution: int  # how many executions of the session came before it
    sandbox_id: str  # where it is; it goes with that sandbox


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo came to. `lost` names files that could not be put back, empty if all were."""

    checkpoint: Checkpoint
    runs: tuple[str, ...]  # the executions that were undone
    calls: tuple[SentCall, ...]  # that they made, which are not
    lost: str


@dataclass(eq=False)
class SharedKernel:
    """A sandbox and those who use it by turns."""

    inputs: InputKeeper
    twins_max: int = KEPT_MAX + 1  # of all branches together
    sandbox: Sandbox | None = None
    network: GuestNetwork | None = None
    position: tuple[int, str] = (0, "")  # how many executions began in which sandbox
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    packages: KernelPackages = field(default_factory=KernelPackages)
    users: int = 1
    active: Branch | None = None  # whose state is in the sandbox
    doomed: list[int] = field(default_factory=list[int])  # checkpoints that nobody needs, to be told at the next order
    alive: set[int] = field(default_factory=set[int])  # checkpoints that are processes of the sandbox
    was_put_back: bool = False  # since the last execution: it does not follow from those before
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    token: str = field(default_factory=lambda: token_hex(32))  # see `moonpool_wire.frames.restart_mark`

    @property
    def is_connected(self) -> bool:
        """Whether `connect` has nothing to do."""
        return self.network is None or (self.sandbox is not None and self.network.is_attached(self.sandbox))

    async def connect(self) -> None:
        """Serve the sandbox's connections, before any code runs in it, where the session has a network."""
        if self.network is not None and self.sandbox is not None:
            await self.network.attach(self.sandbox)

    def take_doomed(self) -> tuple[int, ...]:
        doomed, self.doomed = self.doomed, []
        self.alive.difference_update(doomed)
        return tuple(doomed)


@dataclass(frozen=True, slots=True)
class _Step:
    """One execution."""

    run_id: str
    calls: Sequence[SentCall]


class Branch:
    """The checkpoints of one session."""

    def __init__(self, kernel: SharedKernel, start: Checkpoint | None = None) -> None:
        self._kernel = kernel
        self._sandbox_id = "" if start is None else start.sandbox_id
        self.kept: list[Checkpoint] = [] if start is None else [start]
        self._current: Checkpoint | None = start  # if the state is still that of a checkpoint
        self._used: Checkpoint | None = None  # if it is that of a checkpoint whose twin is the kernel now
        self._steps: list[_Step] = []
        self._forgotten = 0  # how many came before these
        self._recovered = ""  # the execution whose end was the last to be undone
        self._refusals: dict[int, str] = {}  # executions before which no checkpoint could be made, and why
        self._ended = ""  # why earlier checkpoints are gone

    # --- around executions and transfers

    async def enter(self, sandbox: Sandbox) -> None:
        """Make the sandbox hold this branch's state. Raises CheckpointError."""
        if self._kernel.active is not self or sandbox.sandbox_id != self._sandbox_id:
            await finish(self._enter(sandbox))

    async def _enter(self, sandbox: Sandbox) -> None:
        kernel = self._kernel
        if self._sandbox_id and sandbox.sandbox_id != self._sandbox_id:
            alone = kernel.users == 1
            after = "the next execution starts afresh" if alone else "reset the session"
            self._ended = f"its sandbox has ended, and with it variables, files and checkpoints; {after}"
            if alone:
                self._forget(self._ended)
            raise CheckpointError(f"the state of this session is lost: {self._ended}")
        if not self._sandbox_id:
            self._sandbox_id, kernel.active = sandbox.sandbox_id, self
            await self.keep(sandbox)
        else:
            await self._switch(sandbox)

    async def keep(self, sandbox: Sandbox) -> None:
        """Have a checkpoint of the state as it is, or note why there is none."""
        if self._current is None and not sandbox.has_ended:
            try:
                await finish(self._take(sandbox))
            except CheckpointError as error:
                self._refusals[self._count] = str(error)

    def changed(self) -> None:
        """The state may be another now."""
        if self._used is not None:  # it could not be made again
            self._drop([self._used])
        self._current = self._used = None

    def ran(self, run_id: str, calls: Sequence[SentCall], sandbox: Sandbox, *, told: bool) -> None:
        """An execution is over. `told`: if its sandbox ended, its envelope says so; else the next execution does."""
        if run_id == self._recovered:  # it is undone already, though that could not be put on record
            return
        self._add_step(run_id, calls)
        if sandbox.has_ended and told:
            self._forget(f"they ended with the sandbox in execution {self._count} ({run_id})")

    @property
    def _count(self) -> int:
        return self._forgotten + len(self._steps)

    def _add_step(self, run_id: str, calls: Sequence[SentCall]) -> None:
        """The state is that after another execution. What cannot be undone any more is forgotten."""
        self.changed()
        self._steps.append(_Step(run_id, calls))
        oldest = min((one.execution for one in self.kept), default=self._count)
        gone = min(oldest, self._count - KEPT_MAX) - self._forgotten
        if gone > 0:
            del self._steps[:gone]
            self._forgotten += gone
            self._refusals = {at: why for at, why in self._refusals.items() if at >= self._forgotten}

    def _forget(self, why: str) -> None:
        self._ended, self._sandbox_id = why, ""
        self.kept.clear()
        self._steps.clear()
        self._forgotten = 0
        self._refusals.clear()

    async def _switch(self, sandbox: Sandbox) -> None:
        kernel, own = self._kernel, self._current
        if own is None:
            raise CheckpointError("the state of this branch was not kept when another one ran; reset it")
        if (other := kernel.active) is not None:
            try:
                await other.current(sandbox)
            except CheckpointError as error:
                raise CheckpointError(f"another branch of this session cannot be left: {error}") from None
        await self._restore(sandbox, own)
        kernel.active = self
        await self.keep(sandbox)

    # --- what callers ask for

    async def checkpoint(self, sandbox: Sandbox, name: str) -> Checkpoint:
        """The state as it is, under a name. Raises CheckpointError, InputError."""
        if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable():
            raise InputError(f"a checkpoint's name has 1 to {NAME_CHARS_MAX} printable characters")
        if sum(bool(one.name) for one in self.kept) >= NAMED_MAX:
            raise CheckpointError(
                f"{NAMED_MAX} named checkpoints are kept already; go back to one, or reset the session"
            )
        current = await self.current(sandbox)
        if current.name:
            return await finish(self._take(sandbox, name))
        named = Checkpoint(current.number, name, current.execution, current.sandbox_id)
        self.kept[self.kept.index(current)] = self._current = named
        return named

    async def current(self, sandbox: Sandbox) -> Checkpoint:
        """A checkpoint of the state as it is. Raises CheckpointError."""
        return self._current or await finish(self._take(sandbox))

    async def fork(self, sandbox: Sandbox) -> Branch:
        """A branch that begins with the state as it is. Raises CheckpointError."""
        await self.current(sandbox)
        made = await self._take(sandbox, keep=False)
        self._kernel.users += 1
        return Branch(self._kernel, Checkpoint(made.number, "", 0, made.sandbox_id))

    async def undo(self, sandbox: Sandbox, n: int, to: Checkpoint | None) -> Undone:
        """Go back by `n` executions, or to a checkpoint. Raises CheckpointError, InputError."""
        target = self._before(n) if to is None else self._known(to)
        lost = "" if target == self._used else await self._restore(sandbox, target)
        return self._went_back(target, lost)

    async def recover(self, sandbox: Sandbox, run_id: str, calls: Sequence[SentCall]) -> Undone | None:
        """The kernel has ended in this execution: go back to the newest state that can be put back.

        None: there is none, and the sandbox has ended.
        """
        self._add_step(run_id, calls)
        for target in reversed(self.kept):
            with suppress(CheckpointError):
                lost = await self._restore(sandbox, target)
                self._recovered = run_id
                return self._went_back(target, lost)
        self._steps.pop()
        sandbox.kill()
        await sandbox.wait_exited()
        return None

    def _went_back(self, target: Checkpoint, lost: str) -> Undone:
        first = target.execution - self._forgotten
        undone = self._steps[first:]
        del self._steps[first:]
        later = self.kept[self.kept.index(target) + 1 :]
        self._drop(later)
        self._refusals = {at: why for at, why in self._refusals.items() if at < target.execution}
        runs = tuple(step.run_id for step in undone)
        return Undone(target, runs, tuple(call for step in undone for call in step.calls), lost)

    def _before(self, n: int) -> Checkpoint:
        at = self._count - n
        if n < 1:
            raise InputError(f"n is the number of executions to undo, from 1, not {n!r}")
        if at < 0:
            gone = f"; earlier ones are gone: {self._ended}" if self._ended else ""
            raise CheckpointError(f"there are {self._count} executions to undo, not {n}{gone}")
        if why := self._refusals.get(at):
            raise CheckpointError(f"there is no checkpoint of before execution {at + 1}: {why}")
        found = [one for one in self.kept if one.execution == at]
        if not found:
            raise CheckpointError(f"the checkpoint of before execution {at + 1} is not kept any more; go back less far")
        return found[-1]

    def _known(self, to: Checkpoint) -> Checkpoint:
        found = next((one for one in self.kept if (one.number, one.sandbox_id) == (to.number, to.sandbox_id)), None)
        if found is None:
            raise CheckpointError(f"this checkpoint is not kept any more{': ' if self._ended else ''}{self._ended}")
        return found

    def close(self) -> None:
        """Nobody needs its checkpoints any more."""
        self._drop(list(self.kept))
        if self._kernel.active is self:
            self._kernel.active = None

    # --- orders

    async def _take(self, sandbox: Sandbox, name: str = "", *, keep: bool = True) -> Checkpoint:
        kernel = self._kernel
        self._make_room(sandbox)
        again, self._used = (self._used, None) if keep and not name else (None, self._used)
        made = again or Checkpoint(next(kernel.numbers), name, self._count, sandbox.sandbox_id)
        done = await carry_out(sandbox, lambda order: self._taking(order, made))
        while done.full and (oldest := self._unnamed()):
            self._drop(oldest[: (len(oldest) + 1) // 2])
            done = await carry_out(sandbox, lambda order: self._taking(order, made))
        if done.refused:
            if again is not None:
                self._drop([again])
            raise CheckpointError(f"the state cannot be kept: {done.refused}")
        kernel.alive.add(made.number)
        self._refusals.pop(made.execution, None)
        if again is not None:
            self._current = again
        elif keep:
            self._drop([one for one in self.kept if one.execution == made.execution and not one.name])
            self.kept.append(made)
            self._current = made
        return made

    def _taking(self, order: int, made: Checkpoint) -> TakeCheckpoint:
        kernel = self._kernel
        return TakeCheckpoint(order=order, number=made.number, drop=kernel.take_doomed(), token=kernel.token)

    async def _restore(self, sandbox: Sandbox, target: Checkpoint) -> str:
        kernel = self._kernel
        done = await carry_out(
            sandbox, lambda order: RestoreCheckpoint(order=order, number=target.number, drop=kernel.take_doomed())
        )
        if done.refused:
            self._drop([target])
            raise CheckpointError(f"the state cannot be put back: {done.refused}")
        kernel.was_put_back = True
        kernel.alive.discard(target.number)
        self._current, self._used = None, target
        return done.lost

    def _make_room(self, sandbox: Sandbox) -> None:
        """Drop what is above the limits, the oldest first; one that is used now stays. Raises CheckpointError."""
        unnamed, kernel = self._unnamed(), self._kernel
        alive = len(kernel.alive.difference(kernel.doomed))
        excess = max(0, len(unnamed) - KEPT_MAX, alive + 1 - kernel.twins_max)
        share = sandbox.memory_share()
        if share is not None and share > FULL:
            excess = max(excess, (len(unnamed) + 1) // 2)
        self._drop(unnamed[:excess])
        if alive - min(excess, len(unnamed)) >= kernel.twins_max:
            raise CheckpointError(f"its sandbox keeps {kernel.twins_max} already, half of its processes")

    def _unnamed(self) -> list[Checkpoint]:
        return [one for one in self.kept if not one.name and one not in {self._current, self._used}]

    def _drop(self, checkpoints: list[Checkpoint]) -> None:
        self._kernel.doomed += [one.number for one in checkpoints]
        self.kept = [one for one in self.kept if one not in checkpoints]
