"""What errors of asyncpg, the network and PostgreSQL mean: for people, and for whether to try again.

SECURITY: only the server's own message is quoted; it names users and databases and never a password.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

_MESSAGE_CHARS_MAX: Final = 300
_FAULTS: Final = {
    "53100": "has no space left on its disk; free some and try again",
    "53300": "accepts no more connections; raise its max_connections, or lower database_connections_max",
    "57P03": "is starting or shutting down; try again",
    "57P01": "was shut down; try again",
    "57014": "took too long; try again",
    "55P03": "is locked by another process; wait until it is done, and try again",
    "25006": "is read-only, perhaps a standby; name the primary server",
}
_AUTHENTICATION: Final = {"28P01", "28000"}
_TAKEN_BACK: Final = {"40001", "40P01", "57P01", "57P02", "57P03"}
"""Serialisation failure, deadlock, shutdown: the transaction did not happen and may work now."""


def is_own_error(error: Exception) -> bool:
    """Whether it is about what the caller wanted, and not about the database."""
    database = SQLAlchemyError | asyncpg.PostgresError | asyncpg.InterfaceError | OSError
    return isinstance(error, IntegrityError) or not isinstance(error, database)


def was_taken_back(error: Exception) -> bool:
    """Whether a transaction that failed so before its commit may simply be tried again."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    cause = _cause(error)
    if isinstance(cause, asyncpg.ClientConfigurationError):
        return False
    return _state(error) in _TAKEN_BACK or isinstance(cause, ConnectionError | asyncpg.InterfaceError)


def was_refused(error: Exception) -> bool:
    """Whether the server itself said why, so that a commit did not happen."""
    return bool(_state(error)) and _state(error)[:2] not in {"08", "57"}


def postgres_fault(error: Exception) -> str:
    """The end of a sentence that begins with the database."""
    if isinstance(error, PoolTimeoutError):
        return "is slow: all connections are in use (database_connections_max); try again"
    if (state := _state(error)) in _FAULTS:
        return _FAULTS[state]
    cause = _cause(error)
    if state in _AUTHENTICATION:
        return f"refuses the login: {_said(cause)}; correct user and password in its URL, or the server's pg_hba.conf"
    if state:
        return f"refuses it: {_said(cause)}"
    if isinstance(cause, TimeoutError):
        return "did not answer in time; look whether it runs and can be reached"
    if isinstance(cause, OSError):
        return f"cannot be reached: {cause.strerror or type(cause).__name__}; look whether it runs and its URL is right"
    if isinstance(cause, asyncpg.ClientConfigurationError):
        return f"cannot be used as its URL says: {_said(cause)}"
    if isinstance(cause, asyncpg.InterfaceError | asyncpg.PostgresError):
        return "closed the connection; try again"
    return f"cannot be used: {type(cause).__name__}"


def _cause(error: BaseException) -> BaseException:
    """The driver's own error below SQLAlchemy's two layers."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        return error.orig.__cause__ or error.orig
    return error


def _state(error: BaseException) -> str:
    """The SQLSTATE that the server sent, or nothing."""
    cause: Any = _cause(error)
    return str(getattr(cause, "sqlstate", None) or "") if isinstance(cause, asyncpg.PostgresError) else ""


def _said(cause: BaseException) -> str:
    return " ".join(str(cause).split())[:_MESSAGE_CHARS_MAX]
