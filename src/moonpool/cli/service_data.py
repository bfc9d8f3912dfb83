"""Opens the service's database for commands, which may run while the service does."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from moonpool.cli.config_choice import data_folder
from moonpool.core.errors import InputError
from moonpool.settings import Settings
from moonpool.store.paths import DEFAULT_TENANT, tenant_dir

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.bootstrap.administration import Administration
    from moonpool.bootstrap.database import ServiceData

_T = TypeVar("_T")

data_dir_option = click.option(
    "--data-dir", type=Path, metavar="FOLDER", help="The service's data folder. Default: MOONPOOL_DATA_DIR, else yours."
)
database_url_option = click.option(
    "--database-url",
    metavar="URL",
    help="The service's database. Other users of this machine can read arguments: better MOONPOOL_DATABASE_URL.",
)
org_option = click.option("--org", metavar="ORG", help="Of this organisation. Default: the command line's own tenant.")


@dataclass(frozen=True, slots=True)
class ChosenTenant:
    """Whose things a command is about: an organisation's, or those of the command line's tenant."""

    settings: Settings
    data: Path
    tenant_id: str

    @property
    def org(self) -> str | None:
        return None if self.tenant_id == DEFAULT_TENANT else self.tenant_id

    @property
    def folder(self) -> Path:
        return tenant_dir(self.data, self.tenant_id)


def tenant_options(command: Callable[..., _T]) -> Callable[..., _T]:
    """Options that say whose things a command is about, as its argument `tenant`."""

    @wraps(command)
    def chosen(*args: object, org: str | None, data_dir: Path | None, database_url: str | None, **more: object) -> _T:
        settings, data = service_settings(data_dir, database_url)
        if org is not None:
            with_service_data(data_dir, database_url, lambda opened: check_known(opened, org))
        return command(*args, tenant=ChosenTenant(settings, data, org or DEFAULT_TENANT), **more)

    return org_option(data_dir_option(database_url_option(chosen)))


async def check_known(opened: ServiceData, org: str) -> None:
    """Raises InputError unless there is such an organisation."""
    if org != DEFAULT_TENANT and not any(one.organisation_id == org for one in await opened.organisations.all()):
        raise InputError(f"there is no organisation {org[:80]!r}; `moonpool orgs list` shows all")


def service_settings(data_dir: Path | None, database_url: str | None) -> tuple[Settings, Path]:
    """Settings and the data folder. Raises ConfigError."""
    settings = Settings.load(os.environ, data_dir=data_dir, database_url=database_url)
    return settings, data_folder(settings)


def with_service_data(
    data_dir: Path | None, database_url: str | None, use: Callable[[ServiceData], Awaitable[_T]]
) -> _T:
    """Open the database, call `use`, and close it. Raises ConfigError, DatabaseError."""
    from moonpool.bootstrap.database import open_service_data

    settings, data = service_settings(data_dir, database_url)

    async def run() -> _T:
        async with open_service_data(settings, data, os.environ) as opened:
            return await use(opened)

    return asyncio.run(run())


def administered(
    data_dir: Path | None, database_url: str | None, change: Callable[[Administration], Awaitable[_T]]
) -> _T:
    """Have `change` make a change that goes on record. Raises ConfigError, DatabaseError, JournalError."""
    from moonpool.bootstrap.administration import Administration
    from moonpool.bootstrap.database import open_service_data
    from moonpool.cli.approval_texts import answerer

    settings, data = service_settings(data_dir, database_url)

    async def run() -> _T:
        async with open_service_data(settings, data, os.environ) as opened:
            return await change(Administration(opened=opened, settings=settings, data=data, by=answerer().name))

    return asyncio.run(run())
