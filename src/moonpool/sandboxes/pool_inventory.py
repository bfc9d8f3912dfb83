"""All shelves of a pool, and the choices among them: what to open ahead of need, what to give up.

Opening ahead goes to the shelf that lacks most of what it should have. Giving up takes from the shelf that was used
longest ago; it leaves the shelf at once and is gone a moment later. Shelves that nobody has used for a while are
forgotten, so their number is bounded by what is in use.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moonpool.sandboxes.pool_queue import Kind, Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from moonpool.sandboxes.base import Sandbox, SandboxSpec


class Stock:
    """The shelves by kind."""

    def __init__(self, *, ready_high: int) -> None:
        self._ready_high = ready_high
        self._shelves: dict[Kind, Shelf] = {}
        self._leaving: dict[Sandbox, asyncio.Task[object]] = {}  # given up, not gone yet

    def __iter__(self) -> Iterator[Shelf]:
        return iter(tuple(self._shelves.values()))

    def shelf(self, spec: SandboxSpec, language: str) -> Shelf:
        """The shelf of this kind, made at first use."""
        kind = Kind(spec.key, language)
        shelf = self._shelves.get(kind)
        if shelf is None:
            ready_high = self._ready_high if spec.hash_seed is None else 0  # who replays seldom comes twice
            shelf = self._shelves[kind] = Shelf(kind, spec, ready_low=0, ready_high=ready_high)
        return shelf

    def find(self, spec: SandboxSpec, language: str) -> Shelf | None:
        """The shelf of this kind, if there is one."""
        return self._shelves.get(Kind(spec.key, language))

    def drop(self, scope: str) -> list[Shelf]:
        """Take out the shelves of a scope; nothing is opened for them any more."""
        dropped = [shelf for shelf in self if shelf.scope == scope]
        for shelf in dropped:
            del self._shelves[shelf.kind]
        return dropped

    def neediest(self, now: float, may_open: Callable[[str], bool]) -> Shelf | None:
        """Where a sandbox should be opened ahead of need, if anywhere."""
        lacking = [shelf for shelf in self if shelf.missing(now) > 0 and may_open(shelf.scope)]
        return min(lacking, key=lambda shelf: (shelf.fullness(now), -shelf.used_at), default=None)

    def oldest_ready(self, scope: str | None = None) -> Shelf | None:
        """The shelf with ready ones that was used longest ago, of one scope or of all."""
        ready = [shelf for shelf in self if shelf.ready and scope in (None, shelf.scope)]
        return min(ready, key=lambda shelf: shelf.used_at, default=None)

    def oldest_unused_group(self, other_than: Shelf) -> list[Shelf]:
        """The shelves of a scope and image of which some are ready, none in use and none wanted; the oldest such."""
        groups: dict[tuple[str, str], list[Shelf]] = {}
        for shelf in self:
            groups.setdefault(shelf.group, []).append(shelf)
        groups.pop(other_than.group, None)
        unused = [
            group for group in groups.values() if any(shelf.ready for shelf in group) and not any(map(_busy, group))
        ]
        return min(unused, key=lambda group: max(shelf.used_at for shelf in group)) if unused else []

    @property
    def leaving(self) -> int:
        """How many were given up whose places are not free yet."""
        return len(self._leaving)

    def give_up(self, shelf: Shelf) -> asyncio.Task[object]:
        """End the ready one that has stood longest."""
        sandbox = shelf.ready.popleft()
        shelf.discarded()
        closing: asyncio.Task[object] = asyncio.ensure_future(sandbox.close())
        self._leaving[sandbox] = closing
        return closing

    def ended_unused(self, shelf: Shelf, sandbox: Sandbox) -> bool:
        """A sandbox has ended; whether nobody had it."""
        if self._leaving.pop(sandbox, None) is not None:
            return True
        if sandbox in shelf.ready:  # it ended by itself, or was lost with its zygote
            shelf.ready.remove(sandbox)
            shelf.discarded()
            return True
        return False

    def wait_gone(self) -> asyncio.Future[list[object]]:
        """Done when those that leave now are gone."""
        return asyncio.gather(*self._leaving.values())

    def forget_unused(self, now: float) -> None:
        """Drop the shelves that nothing would be lost with."""
        for shelf in self:
            if shelf.is_forgotten(now):
                del self._shelves[shelf.kind]

    def rests(self, now: float) -> bool:
        """Whether nothing will have to be done before somebody asks for a sandbox or one ends."""
        return all(shelf.demand.rests(now) and shelf.retry_at <= now and shelf.excess(now) <= 0 for shelf in self)


def _busy(shelf: Shelf) -> bool:
    return bool(shelf.in_use or shelf.opening or shelf.waiters)
