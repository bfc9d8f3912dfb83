"""The version of a database's tables, and bringing it up to date with Alembic.

INVARIANT: a migration runs in one transaction under a lock, so that processes that start at the same time run it once
and a failed one leaves nothing: SQLite in `BEGIN IMMEDIATE`, PostgreSQL under an advisory lock of the transaction.

An older SQLite file is upgraded by whoever opens it: it belongs to one machine, where one program runs. An empty
PostgreSQL database is filled likewise, but an older one is refused: replicas of the older program may run on it, so the
operator says when (`moonpool db upgrade`). Newer tables than the program's are never touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect, text

from moonpool.store.database.base import DatabaseSchemaError

if TYPE_CHECKING:
    from sqlalchemy import Connection

HEAD: Final = "0011"
"""The newest revision in `migrations/versions`; revisions are numbered in order."""
MIGRATIONS: Final = Path(__file__).with_name("migrations")
_LOCK: Final = 0x6D6F6F6E706F6F6C  # "moonpool"; any number that others do not use
_VERSION_TABLE: Final = "alembic_version"
_JOURNAL: Final = ("audit_", "replica", "kept_execution")
"""Tables of the audit journal begin so. It sees to them itself, and may have been there first."""


def version_of(connection: Connection) -> str:
    """The revision of the tables; empty: there are none. Raises DatabaseSchemaError when they are not ours."""
    names = set(inspect(connection).get_table_names())
    if _VERSION_TABLE not in names:
        if names := {name for name in names if not name.startswith(_JOURNAL)}:
            raise DatabaseSchemaError(
                f"the database holds tables that are not Moonpool's ({', '.join(sorted(names)[:3])}); give Moonpool a "
                "database of its own"
            )
        return ""
    found = connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalars().all()  # noqa: S608  ours
    return str(found[0]) if found else ""


def check_current(connection: Connection) -> None:
    """Raise DatabaseSchemaError, with the remedy, unless the tables are those of this program."""
    version = version_of(connection)
    _refuse_newer(version)
    if version != HEAD:
        raise DatabaseSchemaError(
            f"the database's tables are of an older Moonpool (version {version or 'none'}, this program needs {HEAD}); "
            "stop the replicas of the older program, back the database up, and run `moonpool db upgrade`"
        )


def upgrade(connection: Connection, *, only_empty: bool = False) -> str:
    """Bring the tables up to date within the connection's transaction; returns the version that they had.

    `only_empty`: no tables are changed, only missing ones made. Raises DatabaseSchemaError.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    version = version_of(connection)
    _refuse_newer(version)
    if version == HEAD or (only_empty and version):
        return version
    from alembic import command  # noqa: PLC0415  0.2 s, and seldom needed
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    return version


def _refuse_newer(version: str) -> None:
    if version > HEAD:
        raise DatabaseSchemaError(
            f"the database's tables are of a newer Moonpool (version {version[:40]}, this program knows {HEAD}); use "
            "that program, or restore a backup from before it"
        )
