"""The clock that all processes on a database share: the server's, or this machine's where the database is a file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import select

from moonpool.store.database.blocking import SERVER_NOW

if TYPE_CHECKING:
    from sqlalchemy import Connection


def shared_now(connection: Connection) -> float:
    """Seconds since 1970 by that clock."""
    if connection.dialect.name == "sqlite":
        return time.time()
    return connection.execute(select(SERVER_NOW)).scalar_one()
