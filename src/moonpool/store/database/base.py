"""What tables of features use of a database, and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Row, Select

_T = TypeVar("_T")

ROWS_MAX: Final = 20_000
"""What one query may return; tables bound their rows well below it, or read in parts."""
WAITING_MAX: Final = 2_000
"""Reads and writes of one process that may wait for the database at the same time."""
ANSWER_S_MAX: Final = 30.0
"""How long one of them may take in all."""


class DatabaseError(MoonpoolError):
    """The database cannot be used now. A change was not made, unless the message says that this is unknown."""

    code = "database_unusable"
    fault = Fault.HOST
    retryable = True


class DatabaseSchemaError(DatabaseError):
    """The tables are of another version, or not Moonpool's, or the server is too old. Nothing was changed."""

    code = "database_schema"
    retryable = False


class Database(Protocol):
    """Used from one event loop. Both implementations pass `tests/store/test_database_contract.py`.

    Violated constraints are SQLAlchemy's `IntegrityError`, because only the caller knows what they mean. Everything
    else that goes wrong below is a `DatabaseError`.
    """

    async def read(self, query: Select[Any], /) -> Sequence[Row[Any]]:
        """Rows as last committed, by any process. Raises DatabaseError."""
        ...

    async def write(self, work: Callable[[Connection], _T], /, *, durable: bool = True) -> _T:
        """Call `work` in a transaction and commit. When it raises, nothing of it is kept, and its error is raised.

        `work` is not on the event loop's thread or not in its task, and may be called again when the first attempt was
        taken back: it must do nothing but use its connection. When the caller is cancelled it may be done nevertheless.
        `durable`: the change survives a power loss once this returns. Raises DatabaseError.
        """
        ...

    async def close(self) -> None:
        """Finish what was begun, refuse more, and close all connections."""
        ...


def closed() -> DatabaseError:
    return DatabaseError("the database is closed; Moonpool is shutting down")


def too_many_waiting() -> DatabaseError:
    return DatabaseError(f"{WAITING_MAX:,} requests wait for the database already; it is too slow, try again later")
