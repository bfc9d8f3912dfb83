"""The service's database for worker threads, where what tenants keep is read and changed, as it is in files.

A change of one organisation's rows of one kind waits for the one before it (an advisory lock of the transaction), as
in a file that has one writer: so what is counted is still so when something is added, on any number of replicas.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import Double, cast, func, select

from moonpool.store.database.base import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from sqlalchemy import ColumnElement, Connection, Select

    from moonpool.core.errors import MoonpoolError
    from moonpool.store.database.base import Database

_T = TypeVar("_T")

SERVER_NOW: Final[ColumnElement[float]] = cast(func.extract("epoch", func.clock_timestamp()), Double)
"""The time of day on the server's clock, which all replicas share."""


@dataclass(frozen=True, slots=True)
class TenantRows:
    """Rows of one kind of one organisation. Blocking: used from threads other than the database's.

    `fault` makes the errors that methods raise of a sentence about the database.
    """

    database: Database
    loop: asyncio.AbstractEventLoop  # the database's
    organisation_id: str
    kind: str
    fault: Callable[[str], MoonpoolError]

    def read(self, query: Select[*tuple[Any, ...]]) -> Sequence[dict[str, Any]]:
        """Rows as last committed. Raises what `fault` makes."""
        rows = self._wait(self.database.read(query))
        return [row._asdict() for row in rows]  # pyright: ignore[reportPrivateUsage]  a public name of SQLAlchemy's

    def write(self, work: Callable[[Connection], _T]) -> _T:
        """`work` in a transaction, one at a time. Raises what `fault` makes, and what `work` raises."""
        lock = func.pg_advisory_xact_lock(func.hashtextextended(f"{self.kind} of {self.organisation_id}", 0))

        def alone(connection: Connection) -> _T:
            connection.execute(select(lock))
            return work(connection)

        return self._wait(self.database.write(alone))

    def _wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        try:
            return asyncio.run_coroutine_threadsafe(work, self.loop).result()
        except DatabaseError as error:
            raise self.fault(f"in the service's database cannot be used: {error}") from error


def text_of(value: object) -> object:
    """A text without what PostgreSQL cannot keep in one."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
