"""What calls have used and what they have brought in, counted for an execution, its session and its key.

A call reserves what it will take in the same step in which it is decided, and returns it if the call was not sent. What
was sent stays spent, whatever the outcome. The size of a result is known only on arrival: a result that is larger than
what is left of a budget is refused.

INVARIANT: between the snapshot that a decision rests on and the reservation nothing is awaited; so calls that run in
parallel never take more than a budget has (used on one event loop). Counters live in memory, as long as their session
or process; those of a principal also in a database, if there is one (`SharedLedger`): then the reservation is made
there, if what the decision rests on still holds. What they mean is `moonpool.policy.budgets`.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.policy import Measure, Scope, Usage, Verdict, budgets_of
from moonpool.policy.budgets import PER_MINUTE_MAX, total

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from moonpool.policy import CallFacts, Policy

_MINUTE_S: Final = 60.0


@dataclass(slots=True, kw_only=True)
class Ledger:
    """What one scope has used."""

    now: Callable[[], float] = monotonic
    calls: int = 0
    argument_bytes: int = 0
    result_bytes: int = 0
    cost: float = 0.0
    warned: set[str] = field(default_factory=set[str])  # budgets that were reported as low
    _tools: Counter[str] = field(default_factory=Counter[str])
    _times: deque[float] = field(default_factory=lambda: deque[float](maxlen=PER_MINUTE_MAX))
    _wall_s: float = 0.0
    _running: list[Callable[[], float]] = field(default_factory=list["Callable[[], float]"])
    _told_s: float = 0.0  # of the running time, what `new_wall_s` gave out

    def new_wall_s(self) -> float:
        """Running time since this was asked last."""
        running_s = self._wall_s + sum(clock() for clock in self._running)
        new_s, self._told_s = running_s - self._told_s, running_s
        return new_s

    def usage(self, tool: str) -> Usage:
        """What is used and reserved now, as a call of `tool` sees it."""
        now = self.now()
        while self._times and now - self._times[0] >= _MINUTE_S:
            self._times.popleft()
        return Usage(
            calls=self.calls,
            tools=len(self._tools),
            new_tool=tool not in self._tools,
            argument_bytes=self.argument_bytes,
            result_bytes=self.result_bytes,
            cost=self.cost,
            wall_s=self._wall_s + sum(clock() for clock in self._running),
            calls_per_minute=len(self._times),
            room_in_s=_MINUTE_S - (now - self._times[0]) if self._times else 0.0,
        )

    def take(self, reserved: Reservation) -> float:
        """Count a call; returns when, for `give_back`."""
        self.calls += 1
        self.argument_bytes += reserved.argument_bytes
        self.cost = total(self.cost, reserved.cost)
        self._tools[reserved.tool] += 1
        moment = self.now()
        self._times.append(moment)
        return moment

    def give_back(self, reserved: Reservation, moment: float) -> None:
        self.calls -= 1
        self.argument_bytes -= reserved.argument_bytes
        self.cost = total(self.cost, -reserved.cost)
        self._tools[reserved.tool] -= 1
        if not self._tools[reserved.tool]:
            del self._tools[reserved.tool]
        if moment in self._times:
            self._times.remove(moment)

    def start(self, clock: Callable[[], float]) -> None:
        """An execution begins; `clock` tells its running time."""
        self._running.append(clock)

    def stop(self, clock: Callable[[], float]) -> None:
        """It is over."""
        if clock in self._running:
            self._running.remove(clock)
            self._wall_s += clock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one call takes from what its principal has, wherever that is counted."""

    tool: str
    argument_bytes: int
    cost: float
    wall_s: float  # that its principal's executions ran since the last call
    at: float  # seconds since 1970


class SharedLedger(Protocol):
    """What a principal has used at all processes that share a database, for good. Raises DatabaseError."""

    async def usage(self, tool: str, /) -> Usage:
        """What is used and reserved now, as a call of `tool` sees it."""
        ...

    async def reserve(self, taken: Taken, holds: Callable[[Usage], bool], /) -> Usage | None:
        """Take it in the step in which `holds` finds the usage of that moment right; else that usage, and nothing is
        taken. `holds` is pure, and may be called again.
        """
        ...

    async def give_back(self, taken: Taken, /) -> None:
        """The call was not sent. Running time stays spent."""
        ...

    async def let_in(self, size: int, limit: int | None, /) -> int | None:
        """Count a result; if it exceeds `limit`, it is not counted, and this returns what is left."""
        ...

    def ran(self, wall_s: float, /) -> None:
        """Count running time, beside whoever says so."""
        ...


@dataclass(slots=True, kw_only=True)
class SessionMemory:
    """What is known of a session's earlier executions. One execution alone is a session of one."""

    ledger: Ledger = field(default_factory=Ledger)
    taken_in: frozenset[str] = frozenset()  # labels of what its code was given


@dataclass(slots=True, kw_only=True)
class Reservation:
    """What one call takes from every scope."""

    ledgers: Mapping[Scope, Ledger]
    tool: str
    argument_bytes: int
    cost: float
    _moments: list[float] = field(default_factory=list[float])

    def __post_init__(self) -> None:
        self._moments = [ledger.take(self) for ledger in self.ledgers.values()]

    def keep(self) -> None:
        """The call is sent: it is spent."""
        self._moments = []

    def give_back(self) -> None:
        """The call is over; what was not kept is free again. Idempotent."""
        moments, self._moments = self._moments, []
        for ledger, moment in zip(self.ledgers.values(), moments, strict=False):
            ledger.give_back(self, moment)


def usage_of(ledgers: Mapping[Scope, Ledger], tool: str) -> Mapping[Scope, Usage]:
    """The snapshot that a decision rests on."""
    return {scope: ledger.usage(tool) for scope, ledger in ledgers.items()}


def low_budgets(ledgers: Mapping[Scope, Ledger], policy: Policy, facts: CallFacts) -> Iterable[tuple[str, str]]:
    """Name and sentence of each budget that this call, which may go ahead, takes to 80 %; each is reported once."""
    for report in budgets_of(policy, facts):
        warned = ledgers[report.budget.scope].warned
        if report.low and report.name not in warned:
            warned.add(report.name)
            yield report.name, report.after(f"budget {report.name} is low with this call of {facts.name}")


def result_refused(ledgers: Mapping[Scope, Ledger], policy: Policy, size: int) -> str:
    """Count a result of `size` bytes, or name the budget that it exceeds. A budget that asks stops the next call
    instead.
    """
    for scope in ledgers:
        if (limit := result_limit(policy, scope)) is not None:
            left = max(limit - ledgers[scope].result_bytes, 0)
            if size > left:
                return result_told(scope, left)
    for ledger in ledgers.values():
        ledger.result_bytes += size
    return ""


def result_limit(policy: Policy, scope: Scope) -> int | None:
    """The least that a budget of this scope lets in, of those that deny."""
    limits = [
        int(limit)
        for budget in policy.budgets
        if budget.scope is scope
        and budget.then is Verdict.DENY
        and (limit := budget.limits.get(Measure.RESULT_BYTES)) is not None
    ]
    return min(limits, default=None)


def result_told(scope: Scope, left: int) -> str:
    """Why a result is refused."""
    return f"the budget {scope}.{Measure.RESULT_BYTES} has {left} bytes left"
