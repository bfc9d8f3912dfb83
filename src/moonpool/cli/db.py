"""`moonpool db upgrade|backup`: the tables of the service's database, and copies of what organisations own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from moonpool.cli.commands import command_group
from moonpool.cli.printer import remark
from moonpool.cli.service_data import data_dir_option, database_url_option, service_settings

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


@app.command("backup")
@click.argument("target", type=Path, metavar="FOLDER")
@data_dir_option
@database_url_option
def backup(*, target: Path, data_dir: Path | None, database_url: str | None) -> None:
    """Copy the database, journals and what else organisations own but files of threads and volumes.

    FOLDER must not be there yet. The service may run. Of a PostgreSQL database make a copy with pg_dump, first.
    """
    from moonpool.store.backup import back_up
    from moonpool.store.database.addresses import PostgresAddress, database_address
    from moonpool.store.paths import files_dir

    settings, data = service_settings(data_dir, database_url)
    address = database_address(settings.database_url, data)
    count = back_up(data, target)
    remark(f"copied {count:,} files of {data} to {target}")
    if isinstance(address, PostgresAddress):
        remark(f"{address} is not in it: copy it with pg_dump")
    elif not address.is_default:
        remark(f"{address} is not in it: copy it with sqlite3 .backup")
    stored = "the bucket of files_url" if settings.files_url else files_dir(data)
    remark(f"files of threads and volumes are not in it: copy {stored}, within an hour")
