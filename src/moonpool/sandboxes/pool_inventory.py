"""All shelves of a pool, and the choices among them: what to open ahead of need, what to give up.

Opening ahead goes to the shelf that lacks most of what it should have. Giving up takes from the shelf that was used
longest ago; it leaves the shelf at once and is gone a moment later. Shelves that nobody has used for a while are
forgotten, so their number is bounded by what is in use.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moonpool.sandboxes.pool_queue import PoolQueue, SandboxKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from moonpool.sandboxes.base import Sandbox, SandboxSpec


class PoolInventory:
    """The shelves by kind."""

    def __init__(self, *, ready_high: int) -> None:
        self._ready_high = ready_high
        self._queues: dict[SandboxKey, PoolQueue] = {}
        self._leaving: dict[Sandbox, asyncio.Task[object]] = {}  # given up, not gone yet

    def __iter__(self) -> Iterator[PoolQueue]:
        return iter(tuple(self._queues.values()))

    def queue(self, spec: SandboxSpec, language: str) -> PoolQueue:
        """The shelf of this kind, made at first use."""
        kind = SandboxKey(spec.key, language)
        queue = self._queues.get(kind)
        if queue is None:
            is_usual = spec.hash_seed is None and spec.folders is None  # who replays seldom comes twice
            ready_high = self._ready_high if is_usual else 0
            queue = self._queues[kind] = PoolQueue(kind, spec, ready_low=0, ready_high=ready_high)
        return queue

    def find(self, spec: SandboxSpec, language: str) -> PoolQueue | None:
        """The shelf of this kind, if there is one."""
        return self._queues.get(SandboxKey(spec.key, language))

    def drop(self, scope: str) -> list[PoolQueue]:
        """Take out the shelves of a scope; nothing is opened for them any more."""
        dropped = [queue for queue in self if queue.scope == scope]
        for queue in dropped:
            del self._queues[queue.kind]
        return dropped

    def neediest(self, now: float, may_open: Callable[[str], bool]) -> PoolQueue | None:
        """Where a sandbox should be opened ahead of need, if anywhere."""
        lacking = [queue for queue in self if queue.missing(now) > 0 and may_open(queue.scope)]
        return min(lacking, key=lambda queue: (queue.fullness(now), -queue.used_at), default=None)

    def oldest_ready(self, scope: str | None = None) -> PoolQueue | None:
        """The shelf with ready ones that was used longest ago, of one scope or of all."""
        ready = [queue for queue in self if queue.ready and scope in (None, queue.scope)]
        return min(ready, key=lambda queue: queue.used_at, default=None)

    def oldest_unused_group(self, other_than: PoolQueue) -> list[PoolQueue]:
        """The shelves of a scope and image of which some are ready, none in use and none wanted; the oldest such."""
        groups: dict[tuple[str, str], list[PoolQueue]] = {}
        for queue in self:
            groups.setdefault(queue.group, []).append(queue)
        groups.pop(other_than.group, None)
        unused = [
            group for group in groups.values() if any(queue.ready for queue in group) and not any(map(_busy, group))
        ]
        return min(unused, key=lambda group: max(queue.used_at for queue in group)) if unused else []

    @property
    def leaving(self) -> int:
        """How many were given up whose places are not free yet."""
        return len(self._leaving)

    def give_up(self, queue: PoolQueue) -> asyncio.Task[object]:
        """End the ready one that has stood longest."""
        sandbox = queue.ready.popleft()
        queue.discarded()
        closing: asyncio.Task[object] = asyncio.ensure_future(sandbox.close())
        self._leaving[sandbox] = closing
        return closing

    def ended_unused(self, queue: PoolQueue, sandbox: Sandbox) -> bool:
        """A sandbox has ended; whether nobody had it."""
        if self._leaving.pop(sandbox, None) is not None:
            return True
        if sandbox in queue.ready:  # it ended by itself, or was lost with its zygote
            queue.ready.remove(sandbox)
            queue.discarded()
            return True
        return False

    def wait_gone(self) -> asyncio.Future[list[object]]:
        """Done when those that leave now are gone."""
        return asyncio.gather(*self._leaving.values())

    def forget_unused(self, now: float) -> None:
        """Drop the shelves that nothing would be lost with."""
        for queue in self:
            if queue.is_forgotten(now):
                del self._queues[queue.kind]

    def rests(self, now: float) -> bool:
        """Whether nothing will have to be done before somebody asks for a sandbox or one ends."""
        return all(queue.demand.rests(now) and queue.retry_at <= now and queue.excess(now) <= 0 for queue in self)


def _busy(queue: PoolQueue) -> bool:
    return bool(queue.in_use or queue.opening or queue.waiters)
