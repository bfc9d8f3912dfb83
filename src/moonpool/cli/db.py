"""`moonpool db upgrade`: the tables of the service's database."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moonpool.cli.commands import command_group
from moonpool.cli.printer import remark
from moonpool.cli.service_data import data_dir_option, database_url_option, service_settings

if TYPE_CHECKING:
    from pathlib import Path

app = command_group("The service's database.")


@app.command("upgrade")
@data_dir_option
@database_url_option
def upgrade(*, data_dir: Path | None, database_url: str | None) -> None:
    """Bring the tables up to date for this program; several at once wait for each other.

    An older SQLite file is upgraded when the service starts. PostgreSQL is not: stop the replicas of the older program,
    back the database up, and use this.
    """
    from moonpool.bootstrap.database import upgrade_service_data
    from moonpool.store.database.schema import HEAD

    settings, data = service_settings(data_dir, database_url)
    where, before = asyncio.run(upgrade_service_data(settings, data))
    if before == HEAD:
        remark(f"{where} is up to date (version {HEAD})")
    else:
        remark(f"{where} was brought from version {before or 'none'} to {HEAD}")
