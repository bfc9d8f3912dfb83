"""Who may open a sandbox next when more want one than there is room for.

Places are counted in all and per scope (tenant); callers that find none wait in a line, which takes scopes in turn, so
that a tenant with two callers waits for two turns, not for the two hundred callers of its neighbour. The line is
bounded; when it is full, the scope with the longest part of it loses its newest caller, not whoever comes last.

Pure bookkeeping: `pool` opens, `pool_waiting` waits and tells callers.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
_SHARE_OF_ONE_SCOPE = 0.75


class Places:
    """How many sandboxes are alive, against the limits. Opening and ending ones count."""

    def __init__(self, *, alive_max: int, alive_per_scope_max: int = 0) -> None:
        self.alive_max = alive_max
        self._per_scope_max = alive_per_scope_max
        self._alive: Counter[str] = Counter()

    @property
    def alive(self) -> int:
        return self._alive.total()

    def take(self, scope: str) -> None:
        """One more is alive."""
        self._alive[scope] += 1

    def give_back(self, scope: str) -> None:
        """One has ended."""
        self._alive[scope] -= 1
        if not self._alive[scope]:
            del self._alive[scope]

    def scope_max(self, scope: str) -> int:
        """What one scope may have: as set, else everything while it is alone, three quarters when it is not."""
        if self._per_scope_max:
            return min(self._per_scope_max, self.alive_max)
        alone = not self._alive.keys() - {scope}
        return self.alive_max if alone else max(1, int(self.alive_max * _SHARE_OF_ONE_SCOPE))

    def lacking(self, scope: str) -> str | None:
        """The setting that keeps `scope` from one more, if any."""
        if self.alive and self._alive[scope] >= self.scope_max(scope) < self.alive_max:
            return "sandboxes_per_tenant_max"
        return "sandboxes_max" if self.alive >= self.alive_max else None


class FairLine(Generic[T]):
    """Those who wait, each for a scope. The order is first come first served within a scope, scopes take turns."""

    def __init__(self) -> None:
        self._parts: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()  # the scope whose turn is next is first
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def join(self, scope: str, waiter: T) -> None:
        """Stand at the end of the scope's part."""
        self._parts.setdefault(scope, OrderedDict())[waiter] = None
        self._count += 1

    def leave(self, scope: str, waiter: T) -> bool:
        """Step out, wherever one stands; False for one who did not stand in the line."""
        part = self._parts.get(scope)
        if part is None or waiter not in part:
            return False
        del part[waiter]
        self._count -= 1
        if not part:
            del self._parts[scope]
        return True

    def next(self, may_go: Callable[[str], bool]) -> T | None:
        """Take out the next one whose scope may go; that scope goes to the end of the turns."""
        for scope in self._parts:
            if may_go(scope):
                waiter = next(iter(self._parts[scope]))
                self._parts.move_to_end(scope)
                self.leave(scope, waiter)
                return waiter
        return None

    def scopes(self) -> Iterator[str]:
        """The scopes that wait, next turn first."""
        return iter(tuple(self._parts))

    def newest_of_longest(self, newcomer: str) -> T | None:
        """The newest waiter of the longest part, if that part is longer than `newcomer`'s would be."""
        if not self._parts:
            return None
        longest = max(self._parts, key=lambda scope: len(self._parts[scope]))
        own = len(self._parts.get(newcomer, ()))
        return next(reversed(self._parts[longest])) if len(self._parts[longest]) > own + 1 else None
