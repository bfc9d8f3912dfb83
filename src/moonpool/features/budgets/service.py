"""Budgets that one organisation's principals share with all replicas."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moonpool.features.budgets.table import PrincipalUse

if TYPE_CHECKING:
    from moonpool.store.database.base import Database


class SharedBudgets:
    """Of one organisation, at most as many as it has principals. Used on the database's event loop."""

    def __init__(self, database: Database, organisation_id: str) -> None:
        self._database, self._organisation_id = database, organisation_id
        self._of: dict[str, PrincipalUse] = {}

    def of(self, principal: str) -> PrincipalUse:
        """What this principal has used."""
        if (known := self._of.get(principal)) is None:
            known = self._of[principal] = PrincipalUse(self._database, self._organisation_id, principal)
        return known

    async def close(self) -> None:
        """Wait for what is being written."""
        await asyncio.gather(*(one.close() for one in self._of.values()))
