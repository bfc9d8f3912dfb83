"""Where a service keeps keys, records and files, for tests: its data folder, or servers that replicas share.

A test asks for `stores` to run on both: SQLite and a folder, and PostgreSQL and S3.
"""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from s3_server import CREDENTIALS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from postgres import PostgresServer
    from s3_server import S3Server

SECRETS_KEY: Final = base64.b64encode(bytes(32)).decode()
"""One for all replicas."""


@dataclass(frozen=True)
class Stores:
    """Of one service, or of its replicas."""

    database_url: str = ""
    files_url: str = ""

    @property
    def are_shared(self) -> bool:
        return bool(self.database_url)

    @property
    def settings(self) -> dict[str, str]:
        return {"database_url": self.database_url, "files_url": self.files_url} if self.are_shared else {}

    @property
    def secrets(self) -> dict[str, str]:
        """Of the environment."""
        return {"MOONPOOL_SECRETS_KEY": SECRETS_KEY, **CREDENTIALS} if self.are_shared else {}

    @property
    def environ(self) -> dict[str, str]:
        """Of a process that is started with `options`."""
        return {"MOONPOOL_DATABASE_URL": self.database_url, **self.secrets} if self.are_shared else {}

    @property
    def options(self) -> tuple[str, ...]:
        return ("--files-url", self.files_url) if self.are_shared else ()


FOLDER: Final = Stores()


@asynccontextmanager
async def shared_stores(postgres: PostgresServer, s3: S3Server) -> AsyncGenerator[Stores]:
    """An empty database and an empty bucket."""
    async with postgres.empty_database() as url:
        yield Stores(url, s3.new_bucket())


@pytest.fixture(scope="module", params=["sqlite, folder", pytest.param("postgresql, s3", marks=pytest.mark.slow)])
async def stores(request: pytest.FixtureRequest) -> AsyncGenerator[Stores]:
    """Empty ones."""
    if request.param == "sqlite, folder":
        yield FOLDER
        return
    async with shared_stores(request.getfixturevalue("postgres"), request.getfixturevalue("s3_server")) as made:
        yield made
