"""How many of something may be in use: in all, of one tenant, and of one principal in it. Pure bookkeeping.

Whoever is alone may have everything there is. Where there are more, each gets at most three quarters, so that no tenant
keeps the others out, and no principal the others of its tenant, whatever it does: only until what it took while it was
alone ends must others wait. Who was turned away counts as one of them from then on.
"""

from __future__ import annotations

import math
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

SHARE_OF_ONE: Final = 0.75


class Level(StrEnum):
    """Whose bound is reached."""

    ALL = "all"
    TENANT = "tenant"
    PRINCIPAL = "principal"


def share_of(most: int, *, alone: bool, fixed: int = 0) -> int:
    """What one of several may have of `most`; `fixed` is what an operator set instead, 0 for nothing."""
    if fixed:
        return min(fixed, most)
    return most if alone else max(1, int(most * SHARE_OF_ONE))


def fair_share(sizes: Iterable[int], room: int) -> float:
    """How much each may have so that all fit: what is asked for, as far as nobody with more has to give way.

    Who has less than his share keeps everything; what he leaves is for the others.
    """
    rising = sorted(sizes)
    for place, size in enumerate(rising):
        others = len(rising) - place
        if size * others > room:
            return room / others
        room -= size
    return math.inf


def stored_reached(total: int, own: int, own_max: int) -> Level | None:
    """Whose bound keeps a principal from storing one more: one may have `own_max`, which is three quarters of all.

    What is stored may stand for days, so nobody may fill it even while alone.
    """
    if own >= own_max:
        return Level.PRINCIPAL
    return Level.ALL if total * SHARE_OF_ONE >= own_max else None


class Shares:
    """Counts what is in use, against one bound for all. `tenant_max` and `principal_max` are an operator's, or 0."""

    def __init__(self, count_max: int, *, tenant_max: int = 0, principal_max: int = 0) -> None:
        self._max, self._tenant_max, self._principal_max = count_max, tenant_max, principal_max
        self._tenants: Counter[str] = Counter()
        self._principals: Counter[tuple[str, str]] = Counter()
        self._turned_away: dict[str, str] = {}  # the last principal of each tenant, until it gets something

    @property
    def total(self) -> int:
        """How many are in use."""
        return self._tenants.total()

    def tenant_max(self, tenant_id: str) -> int:
        """What this tenant may have now."""
        return share_of(
            self._max, alone=not (self._tenants.keys() | self._turned_away) - {tenant_id}, fixed=self._tenant_max
        )

    def principal_max(self, tenant_id: str, principal: str) -> int:
        """What this principal may have now."""
        known = (*self._principals, *self._turned_away.items())
        others = any(tenant == tenant_id and name != principal for tenant, name in known)
        return share_of(self.tenant_max(tenant_id), alone=not others, fixed=self._principal_max)

    def reached(self, tenant_id: str, principal: str) -> Level | None:
        """Whose bound keeps this principal from one more, if any: its share first, where it is not alone."""
        most = self.principal_max(tenant_id, principal)
        if most < self.tenant_max(tenant_id) and self._principals[tenant_id, principal] >= most:
            return Level.PRINCIPAL
        if self._tenants[tenant_id] >= self.tenant_max(tenant_id):
            return Level.TENANT
        return Level.ALL if self.total >= self._max else None

    def turn_away(self, tenant_id: str, principal: str) -> None:
        """One more was refused: the others no longer count as alone, and leave room for the next attempt."""
        if not self._principals[tenant_id, principal]:
            self._turned_away[tenant_id] = principal

    def take(self, tenant_id: str, principal: str) -> None:
        """One more is in use."""
        self._tenants[tenant_id] += 1
        self._principals[tenant_id, principal] += 1
        if self._turned_away.get(tenant_id) == principal:
            del self._turned_away[tenant_id]

    def give_back(self, tenant_id: str, principal: str) -> None:
        """One is in use no longer."""
        self._tenants[tenant_id] -= 1
        self._principals[tenant_id, principal] -= 1
        self._tenants += Counter()  # forgets those who have none
        self._principals += Counter()
