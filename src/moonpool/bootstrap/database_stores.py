"""What tenants keep in the service's PostgreSQL database. Imported only where there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.features.approvals.database_table import ApprovalRows
from moonpool.features.budgets.service import SharedBudgets
from moonpool.features.plans.database_table import PlanRows

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from moonpool.bootstrap.caller_grants import Budgets
    from moonpool.features.approvals.service import ApprovalStorage
    from moonpool.features.plans.service import PlanStorage
    from moonpool.store.database.base import Database


@dataclass(frozen=True, slots=True)
class DatabaseStores:
    """Of all tenants. `loop` is the database's."""

    database: Database
    loop: asyncio.AbstractEventLoop

    def of(self, tenant_id: str, _folder: Path) -> TenantRowStores:
        return TenantRowStores(self.database, self.loop, tenant_id)


@dataclass(frozen=True, slots=True)
class TenantRowStores:
    """Of one. SECURITY: its id, which is its organisation's, is in every query."""

    database: Database
    loop: asyncio.AbstractEventLoop
    tenant_id: str

    def budgets(self) -> Budgets:
        return SharedBudgets(self.database, self.tenant_id)

    def approvals(self) -> ApprovalStorage:
        return ApprovalRows(self.database, self.loop, self.tenant_id)

    def plans(self, take: Callable[[int], str] | None = None) -> PlanStorage:
        del take  # it counts bytes on this machine's disk
        return PlanRows(self.database, self.loop, self.tenant_id)
