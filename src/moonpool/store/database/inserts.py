"""`INSERT ... ON CONFLICT`, which each database's dialect has of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.dialects import sqlite

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table
    from sqlalchemy.dialects import postgresql


def insert_into(table: Table, connection: Connection) -> postgresql.Insert | sqlite.Insert:
    """An insert into `table`, in the dialect of `connection`."""
    if connection.dialect.name != "postgresql":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415  a service on SQLite does not need it

    return postgresql.insert(table)
