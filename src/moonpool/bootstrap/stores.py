"""Where a tenant keeps what lies beside its journal: in its folder, or in PostgreSQL where `database_url` says so.

The service, commands and applications ask here, so that they use the same. `moonpool.bootstrap.database_stores` has
what needs SQLAlchemy, which is imported only with such a database.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.features.approvals.files import open_queue
from moonpool.features.approvals.service import Approvals
from moonpool.features.approvals.table import ApprovalStore
from moonpool.features.drift.table import AcceptanceStore
from moonpool.features.library.table import LibraryStore
from moonpool.features.plans.table import PlanStore
from moonpool.store.journals import postgres_address, put_on_record
from moonpool.store.paths import (
    DEFAULT_TENANT,
    acceptance_dir,
    approvals_path,
    keys_dir,
    library_dir,
    plans_path,
    secrets_dir,
    tenant_dir,
)
from moonpool.store.process_marks import is_gone

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping
    from pathlib import Path

    from moonpool.bootstrap.caller_grants import Budgets
    from moonpool.features.approvals.queue_approver import QueueApprover
    from moonpool.features.approvals.service import ApprovalStorage
    from moonpool.features.drift.service import AcceptanceStorage
    from moonpool.features.library.service import LibraryStorage
    from moonpool.features.plans.service import PlanStorage
    from moonpool.features.receipts.signing_keys import InstallationKeys
    from moonpool.oauth.stored_logins import LoginStore
    from moonpool.settings import Settings
    from moonpool.store.database.base import Database


LOGIN_KIND: Final = "login"
_OWN_LOGIN_KIND: Final = "login to an organisation's server"


class TenantStores(Protocol):
    """What one tenant keeps; every call opens it anew."""

    def approvals(self) -> ApprovalStorage: ...
    def budgets(self) -> Budgets | None:
        """Where principals' use is counted for good; None: nowhere."""
        ...

    def plans(self, take: Callable[[int], str] | None = None) -> PlanStorage:
        """`take` counts bytes against the bound of this machine's disk."""
        ...

    def library(self) -> LibraryStorage: ...
    def acceptances(self) -> AcceptanceStorage: ...
    def logins(self, *, of_own: bool = False) -> LoginStore:
        """To the operator's servers; `of_own`: to those that the organisation added.

        SECURITY: they are kept apart, also at one address: else an organisation could add the address of an operator's
        server under another name, and have its login without the rules that the operator gave for that name.
        """
        ...

    def signing_keys(self) -> InstallationKeys:
        """Of the installation; asked of the command line's tenant."""
        ...

    def url_key(self) -> bytes:
        """With which the installation signs URLs; made at first use. Asked as `signing_keys`. Blocking.

        Raises SecretStoreError, StoreFolderError, and what a database raises.
        """
        ...


@dataclass(frozen=True, slots=True)
class FileStores:
    """In a folder."""

    folder: Path
    tenant_id: str = DEFAULT_TENANT
    database: Database | None = None  # the service's, which counts budgets
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def budgets(self) -> Budgets | None:
        if self.database is None:
            return None
        from moonpool.features.budgets.service import SharedBudgets  # noqa: PLC0415  imports SQLAlchemy

        return SharedBudgets(self.database, self.tenant_id)

    def approvals(self) -> ApprovalStorage:
        return ApprovalStore(approvals_path(self.folder), is_gone=is_gone)

    def plans(self, take: Callable[[int], str] | None = None) -> PlanStorage:
        path = plans_path(self.folder)
        return PlanStore(path) if take is None else PlanStore(path, take=take)

    def library(self) -> LibraryStorage:
        return LibraryStore(library_dir(self.folder))

    def acceptances(self) -> AcceptanceStorage:
        return AcceptanceStore(acceptance_dir(self.folder))

    def logins(self, *, of_own: bool = False) -> LoginStore:
        from moonpool.store.secrets import SealedTexts, SecretStore  # noqa: PLC0415  with all of cryptography

        return SealedTexts(
            SecretStore(secrets_dir(self.folder), self.environ), _OWN_LOGIN_KIND if of_own else LOGIN_KIND
        )

    def signing_keys(self) -> InstallationKeys:
        from moonpool.features.receipts.signing_keys import SigningKeys  # noqa: PLC0415  see above

        return SigningKeys(keys_dir(self.folder))

    def url_key(self) -> bytes:
        from moonpool.store.private_files import private_folder  # noqa: PLC0415  for services
        from moonpool.store.secret_key import load_or_make_key  # noqa: PLC0415  see above

        folder = keys_dir(self.folder)
        private_folder(folder.parent)
        path = private_folder(folder) / "urls"
        return load_or_make_key(
            path, remedy="Remove the file while no service runs; URLs that were signed with it end then"
        )


class Stores(Protocol):
    """What the tenants of a process keep."""

    def of(self, tenant_id: str, folder: Path, /) -> TenantStores:
        """Of this tenant, whose files are in `folder`."""
        ...


@dataclass(frozen=True, slots=True)
class FolderStores:
    """Of tenants whose folders keep everything, but for budgets, which the service's database counts."""

    database: Database | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def of(self, tenant_id: str, folder: Path) -> TenantStores:
        return FileStores(folder, tenant_id, self.database, self.environ)


@asynccontextmanager
async def open_stores(
    settings: Settings,
    data: Path,
    environ: Mapping[str, str],
    database: Database | None = None,
    *,
    checks_key: bool = False,
) -> AsyncGenerator[Stores]:
    """`database`: the service's, where it is open already. `checks_key`: raises WrongSecretsKeyError unless what is
    sealed in a database can be opened here. Raises ConfigError, DatabaseError.
    """
    address = postgres_address(settings, data)
    if address is None:
        yield FolderStores(database, environ)
        return
    from moonpool.bootstrap.database_stores import DatabaseStores  # noqa: PLC0415  imports SQLAlchemy
    from moonpool.store.database.opening import open_database  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        if database is None:
            opening = open_database(address, connections_max=settings.database_connections_max)
            database = await stack.enter_async_context(opening)
        stores = DatabaseStores(database, asyncio.get_running_loop(), data, environ)
        if checks_key:
            await asyncio.to_thread(stores.check_key)
        yield stores


@contextmanager
def opened_stores(
    settings: Settings, data: Path, tenant_id: str = DEFAULT_TENANT, *, environ: Mapping[str, str] = os.environ
) -> Generator[TenantStores]:
    """What a tenant keeps, for a command or a thread. Blocking. Raises ConfigError, DatabaseError."""
    folder = tenant_dir(data, tenant_id)
    if postgres_address(settings, data) is None:
        yield FileStores(folder, tenant_id, environ=environ)
        return
    from anyio.from_thread import start_blocking_portal  # noqa: PLC0415

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_stores(settings, data, environ)) as stores,
    ):
        yield stores.of(tenant_id, folder)


@contextmanager
def opened_approvals(settings: Settings, data: Path, tenant_id: str = DEFAULT_TENANT) -> Generator[Approvals]:
    """The queue and the approval grants of a tenant. Blocking. Raises ConfigError, DatabaseError."""
    with opened_stores(settings, data, tenant_id) as stores:
        store = stores.approvals()
        try:
            yield Approvals(store, partial(put_on_record, settings, data, tenant_id=tenant_id))
        finally:
            store.close()


@asynccontextmanager
async def open_default_queue(
    settings: Settings, data: Path, report: Callable[[str], None], environ: Mapping[str, str]
) -> AsyncGenerator[QueueApprover]:
    """The queue of the command line's tenant, see `open_queue`. Raises ConfigError, DatabaseError."""
    async with open_stores(settings, data, environ) as stores:
        store = stores.of(DEFAULT_TENANT, data).approvals()
        async with open_queue(store, report, settings.approval_command, environ) as queue:
            yield queue
