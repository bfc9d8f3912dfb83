"""Reading the database's URL: what is meant, and that no message has a part of a password."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.core.errors import ConfigError
from moonpool.store.database.addresses import PostgresAddress, SqliteAddress, database_address

DATA = Path("/data")
SECRET = "s3cretpart"


def test_without_a_url_it_is_a_file_of_the_data_folder() -> None:
    assert database_address("", DATA) == SqliteAddress(Path("/data/private/service.sqlite3"), is_default=True)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:////srv/a%20b.sqlite3", Path("/srv/a b.sqlite3")),
        ("sqlite:///here.sqlite3", Path.cwd() / "here.sqlite3"),
    ],
)
def test_a_file_can_be_named(url: str, path: Path) -> None:
    assert database_address(url, DATA) == SqliteAddress(path)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg"])
def test_a_server_is_shown_without_user_and_password(scheme: str) -> None:
    found = database_address(f"{scheme}://me:{SECRET}%2F@db.example.com:5433/moon?sslmode=require", DATA)

    assert isinstance(found, PostgresAddress)
    assert str(found) == "PostgreSQL at db.example.com port 5433, database moon"
    assert found.dsn == f"postgresql://me:{SECRET}%2F@db.example.com:5433/moon?sslmode=require"
    assert SECRET not in repr(found)


def test_a_socket_is_shown_by_its_folder() -> None:
    assert (
        str(database_address("postgresql://me@/moon?host=%2Frun%2Fpg", DATA)) == "PostgreSQL at /run/pg, database moon"
    )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("moon.sqlite3", "is no URL; write sqlite:////"),
        ("mysql://u:s3cretpart@h/moon", "scheme that is not supported"),
        ("sqlite://:memory:", "must be sqlite:///"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:////a?mode=memory", "without options"),
        ("postgresql://u:s3cretpart@h", "must end in /NAME"),
        ("postgresql://u:pw/s3cretpart@h/moon", "cannot be read"),
        ("postgresql://u:12/s3cretpart@h/moon", "must end in /NAME"),
        ("postgresql://u:s3cretpart@x@h/moon", "host"),
        ("postgresql://u:a#s3cretpart@h/moon", "cannot be read|must end in"),
        ("postgresql://u:a?s3cretpart@h/moon", "cannot be read"),
        ("postgresql://u:p@h/moon?s3cretpart=1", "1 options that are not supported; these are: host"),
        ("postgresql://u:p@h/moon?host=a&host=b", "option twice"),
        ("postgresql://u:s3cretpart@h/moon?sslmode=on", "choose from disable, allow"),
        ("postgresql://u:s3cretpart@h/moon?sslrootcert=/none", "names a file in sslrootcert that is not there"),
        ("postgresql://u:s3cretpart@/moon?host=/run&port=x", "port that is no number"),
        ("postgresql://[s3cretpart/moon", "cannot be read"),
        ("postgresql://u:s3cretpart\n@h/moon", "no URL has"),
        ("postgresql://" + "a" * 5000, "too long"),
    ],
)
def test_what_cannot_be_meant_is_refused_without_being_quoted(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        database_address(url, DATA)
    assert SECRET not in str(refused.value)
    assert "database_url" in str(refused.value)


@given(st.text(st.characters(codec="utf-8", exclude_characters="%"), max_size=20))
def test_any_password_is_taken_whole_or_not_quoted(password: str) -> None:
    try:
        said = str(database_address(f"postgresql://u:{SECRET}{password}{SECRET}@h/moon", DATA))
    except ConfigError as error:
        said = str(error)
    assert SECRET not in said
    assert said == "PostgreSQL at h, database moon" or "database_url" in said
