"""Where the database is: `sqlite:///PATH` or `postgresql://...`, read from a setting.

SECURITY: a URL may hold a password. No message quotes it or a part of it, and the values here do not print it. What
would be read differently than it was meant (a `/`, `@` or `#` in a password) is refused, because the rest of the
password would then pass for a host or a name, which messages do show.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from moonpool.core.errors import ConfigError
from moonpool.store.paths import database_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_URL_CHARS_MAX: Final = 4096
_FORMS: Final = "write sqlite:////var/lib/moonpool/service.sqlite3 or postgresql://USER@HOST:5432/NAME"


@dataclass(frozen=True, slots=True)
class SqliteAddress:
    """A file. The default one is in a folder of ours; another is where the operator says."""

    path: Path
    is_default: bool = False

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database of a PostgreSQL server."""

    dsn: str = field(repr=False)
    shown: str

    def __str__(self) -> str:
        return self.shown


DatabaseAddress: TypeAlias = SqliteAddress | PostgresAddress


def database_address(url: str, data: Path) -> DatabaseAddress:
    """Read a URL; empty: the file in the data folder. Raises ConfigError, which does not quote it."""
    if not url:
        return SqliteAddress(database_path(data), is_default=True)
    if len(url) > _URL_CHARS_MAX or not url.isprintable() or " " in url:
        raise _unusable("is too long or has characters that no URL has; write special ones as %XX")
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise _unusable(f"is no URL; {_FORMS}")
    match scheme:
        case "sqlite":
            return SqliteAddress(_file(url))
        case "postgresql" | "postgres" | "postgresql+asyncpg":
            return _postgres("postgresql" + url[len(scheme) :])
        case _:
            raise _unusable(f"begins with a scheme that is not supported; {_FORMS}")


def _file(url: str) -> Path:
    rest = url.removeprefix("sqlite://")
    if not rest.startswith("/") or "?" in rest or "#" in rest:
        raise _unusable("must be sqlite:/// and the path of a file, without options")
    path = unquote(rest[1:])
    if path in {"", ":memory:"} or "\0" in path:
        raise _unusable("names no file; replicas and commands share one, so a database in memory cannot be used")
    return Path.cwd() / path


def _postgres(url: str) -> PostgresAddress:
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
        options = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), max_num_fields=32)
    except ValueError:  # its text quotes the port, which may be a part of the password
        raise _unusable(
            "cannot be read: its port is no number, or a character of user or password needs writing as %XX"
        ) from None
    name = unquote(parts.path[1:])
    if parts.fragment or "#" in url or not name or set(name) & set("/@:?#\0"):
        raise _unusable(
            "must end in /NAME, the database; write /, @, :, ? and # in user or password as %2F, %40, %3A, %3F and %23"
        )
    _check_parts(parts, host, options)
    where = host or (options.get("host") or ["the local socket"])[0]
    number = port or (options.get("port") or [None])[0]
    return PostgresAddress(url, f"PostgreSQL at {where}{f' port {number}' if number else ''}, database {name}")


def _check_parts(parts: SplitResult, host: str, options: Mapping[str, Sequence[str]]) -> None:
    if parts.netloc.count("@") > 1 or (host and not all(char.isalnum() or char in "-._:%" for char in host)):
        raise _unusable("has a host that cannot be one; write special characters of user or password as %XX")
    if unknown := options.keys() - _OPTIONS:
        known = ", ".join(sorted(_OPTIONS))
        raise _unusable(f"has {len(unknown)} options that are not supported; these are: {known}")
    if any(len(values) > 1 for values in options.values()):
        raise _unusable("has an option twice")
    for name, (value,) in options.items():
        if name in _FILES and not Path(value).is_file():
            raise _unusable(f"names a file in {name} that is not there")
        if name == "sslmode" and value not in _SSL_MODES:
            raise _unusable(f"has an sslmode that there is not; choose from {', '.join(_SSL_MODES)}")
        if name == "port" and not value.isdecimal():
            raise _unusable("has a port that is no number")


_FILES: Final = {"passfile", "sslrootcert", "sslcert", "sslkey", "sslcrl"}
_OPTIONS: Final = {"host", "port", "user", "sslmode"} | _FILES
_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def _unusable(problem: str) -> ConfigError:
    return ConfigError(f"the database's URL (database_url) {problem}")
