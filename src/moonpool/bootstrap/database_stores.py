"""What tenants keep in the service's PostgreSQL database. Imported only where there is one."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.features.approvals.database_table import ApprovalRows
from moonpool.features.budgets.service import SharedBudgets
from moonpool.features.drift.database_table import AcceptanceRows
from moonpool.features.library.database_table import LibraryRows
from moonpool.features.plans.database_table import PlanRows
from moonpool.store.database.base import DatabaseError
from moonpool.store.database.blocking import TenantRows
from moonpool.store.database.sealed import SEALED_KIND, SealedRows, check_key
from moonpool.store.paths import DEFAULT_TENANT, secrets_dir
from moonpool.store.secret_key import KEY_BYTES, parse_key
from moonpool.store.secrets import SealedValues

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from moonpool.bootstrap.caller_grants import Budgets
    from moonpool.features.approvals.service import ApprovalStorage
    from moonpool.features.drift.service import AcceptanceStorage
    from moonpool.features.library.service import LibraryStorage
    from moonpool.features.plans.service import PlanStorage
    from moonpool.features.receipts.signing_keys import InstallationKeys
    from moonpool.oauth.stored_logins import LoginStore
    from moonpool.store.database.base import Database


@dataclass(frozen=True, slots=True)
class DatabaseStores:
    """Of all tenants. `loop` is the database's."""

    database: Database
    loop: asyncio.AbstractEventLoop
    data: Path  # the key that seals is there, unless it is in `environ`
    environ: Mapping[str, str]

    def of(self, tenant_id: str, _folder: Path) -> TenantRowStores:
        sealed = SealedValues(secrets_dir(self.data), self.environ, SEALED_KIND)
        return TenantRowStores(self.database, self.loop, tenant_id, sealed)

    def check_key(self) -> None:
        """Raises WrongSecretsKeyError when what is in the database is sealed with another key. Blocking."""
        stores = self.of(DEFAULT_TENANT, self.data)
        check_key(stores.rows("sealing"), stores.sealed)


@dataclass(frozen=True, slots=True)
class TenantRowStores:
    """Of one. SECURITY: its id, which is its organisation's, is in every query."""

    database: Database
    loop: asyncio.AbstractEventLoop
    tenant_id: str
    sealed: SealedValues

    def budgets(self) -> Budgets:
        return SharedBudgets(self.database, self.tenant_id)

    def approvals(self) -> ApprovalStorage:
        return ApprovalRows(self.database, self.loop, self.tenant_id)

    def plans(self, take: Callable[[int], str] | None = None) -> PlanStorage:
        del take  # it counts bytes on this machine's disk
        return PlanRows(self.database, self.loop, self.tenant_id)

    def library(self) -> LibraryStorage:
        return LibraryRows(self.rows("library"))

    def acceptances(self) -> AcceptanceStorage:
        return AcceptanceRows(self.rows("accepted"))

    def logins(self, *, of_own: bool = False) -> LoginStore:
        return SealedRows(self.rows("own_logins" if of_own else "logins"), self.sealed)

    def signing_keys(self) -> InstallationKeys:
        from moonpool.features.receipts.database_table import SigningKeyRows  # noqa: PLC0415  for few commands

        return SigningKeyRows(SealedRows(self.rows("receipts"), self.sealed))

    def url_key(self) -> bytes:
        made = base64.b64encode(os.urandom(KEY_BYTES)).decode()
        sealed = SealedRows(self.rows("signed_urls"), self.sealed)
        return parse_key(sealed.first("key", made), where="the key for signed URLs in the service's database")

    def rows(self, kind: str) -> TenantRows:
        return TenantRows(self.database, self.loop, self.tenant_id, kind, DatabaseError)
